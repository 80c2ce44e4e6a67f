"""An executed instruction may raise one exception in one call and another in the next: each has to reach its
handler."""

import pytest
import torch

import stator


@torch.compiler.disable
def attempt(error):
    if error is not None:
        raise error
    return 1


def handlers(x, error):
    y = x + 1
    try:
        attempt(error)
    except StopIteration:
        return y, "stop"
    except (LookupError, TypeError) as caught:
        return y, "lookup or type", type(caught)
    except ValueError:
        return y, "value"
    else:
        return y, "nothing"


def in_a_function(x, error):
    def inner():
        try:
            attempt(error)
        except StopIteration:
            raise LookupError("converted") from None

    y = x * 2
    try:
        inner()
    except LookupError as caught:
        return y, str(caught)
    except ValueError:
        return y, "value"
    return y


class Suppresses:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.kind = kind
        return kind is not None and issubclass(kind, LookupError)


def in_a_with(x, error):
    y = x + 1
    with Suppresses() as manager:
        attempt(error)
        y = y * 3
    return y, manager.kind


def in_a_generator(x, error):
    def items():
        yield x
        attempt(error)
        yield x + 1

    found = []
    try:
        for item in items():
            found.append(item * 2)
    except RuntimeError as caught:
        return found, str(caught)
    except LookupError:
        return found, "lookup"
    return found


def raised_again(x, error):
    y = x + 1
    try:
        try:
            attempt(error)
        except Exception as caught:
            if isinstance(caught, ValueError):
                raise
            y = y * 2
        finally:
            y = y + 3
    except ValueError:
        return y, "value again"
    return y


def in_a_loop(x, error):
    seen = []
    for one in (error, None, ValueError("second"), error):
        try:
            attempt(one)
            seen.append("nothing")
        except ValueError as caught:
            seen.append(str(caught))
        except LookupError:
            seen.append("lookup")
            x = x + 1
    return x, seen


ERRORS = [
    StopIteration(1),
    ValueError(2),
    None,
    KeyError(3),
    StopIteration(4),
    TypeError(5),
    ValueError(6),
    IndexError(7),
    StopIteration(8),
    None,
    ZeroDivisionError(9),
]


def outcome(function, x, error):
    try:
        return "gave", function(x, error)
    except Exception as raised:
        return "raised", type(raised), str(raised)


@pytest.mark.parametrize(
    "function", [handlers, in_a_function, in_a_with, in_a_generator, raised_again, in_a_loop], ids=lambda f: f.__name__
)
def test_each_error_finds_its_handler(function):
    compiled = stator.compile(function, backend="eager")
    for error in ERRORS:
        expected = outcome(function, torch.ones(2), error)
        found = outcome(compiled, torch.ones(2), error)
        assert str(found) == str(expected), f"after {error!r}"
