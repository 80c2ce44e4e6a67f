"""Every statement that raises or handles exceptions, with tensors in it."""

import pytest
import torch

import stator
from tests.support.corpus import Corpus
from tests.support.harness import T, same

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


class Coded(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@core
def try_no_exception(x):
    try:
        y = x + 1
    except ValueError:
        y = x - 1
    else:
        y = x * 3 + y
    finally:
        x = x * 2
    return x, y


@core
def try_caught(x):
    try:
        x = x + 1
        raise ValueError("inside")
    except ValueError as error:
        x = x * 2
        text = str(error)
    return x, text


@core
def try_caught_by_base(x):
    try:
        raise KeyError("k")
    except (TypeError, LookupError) as error:
        return x + 1, type(error).__name__, error.args


@core
def try_bare_except(x):
    try:
        [][0]
    except:
        return x + 1
    return x


@core
def try_wrong_handler_then_right(x):
    try:
        raise KeyError("k")
    except ValueError:
        return x - 1
    except KeyError:
        return x + 1


@core
def try_nested_reraise(x):
    out = []
    try:
        try:
            raise ValueError("a")
        except ValueError:
            out.append(1)
            raise
        finally:
            out.append(2)
    except ValueError:
        out.append(3)
    return x + 1, out


@core
def try_from_called_function(x):
    def thrower(k):
        if k > 1:
            raise RuntimeError(f"at {k}")
        return k

    total = 0
    try:
        for k in range(5):
            total += thrower(k)
    except RuntimeError as error:
        return x + total, str(error)


@core
def try_finally_return(x):
    try:
        return x + 1
    finally:
        x = x * 2


@core
def try_finally_overrides_return(x):
    try:
        return x + 1
    finally:
        return x * 2


@core
def try_in_loop_with_continue_and_break(x):
    out = []
    for k in range(5):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            out.append(k)
        finally:
            out.append(-k)
    return x + 1, out


@core
def try_exception_attributes(x):
    try:
        raise Coded(7)
    except Coded as error:
        return x + error.code, str(error), error.args


@core
def try_exception_variable_is_deleted(x):
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        error
    except UnboundLocalError:
        return x + 1
    return x - 1


@core
def try_raise_from(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return x + 1, repr(error.__cause__)


@core
def try_context_is_set(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")
    except ValueError as error:
        return x + 1, repr(error.__context__)


@core
def try_python_errors_caught(x):
    out = []
    for thrower in (
        lambda: 1 // 0, lambda: [][3], lambda: {}["k"], lambda: int("q"), lambda: None.a, lambda: 1 + "a",
        lambda: len(3), lambda: next(iter([])), lambda: "a".missing, lambda: (1, 2, 3)[7], lambda: {1: 2}.pop(3),
        lambda: [1].index(9), lambda: [1].remove(4), lambda: float("no"), lambda: undefined_name,
    ):  # fmt: skip
        try:
            thrower()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + len(out), out


@core
def assert_holds(x):
    assert x.shape[0] == 3
    assert x.dim() == 2, "two dimensions"
    return x + 1


@core
def assert_caught(x):
    try:
        assert x.shape[0] == 9, f"nine, not {x.shape[0]}"
    except AssertionError as error:
        return x + 1, str(error)


@later_effects
def exception_groups(x):
    out = []
    try:
        raise ExceptionGroup("both", [ValueError("v"), TypeError("t")])
    except* ValueError as group:
        out.append(len(group.exceptions))
    except* TypeError as group:
        out.append(str(group.exceptions[0]))
    return x + 1, out


@core
def unbound_local_in_branch(x, flag):
    if not flag:
        late = 1
    try:
        return x + late
    except UnboundLocalError as error:
        return x - 1, error.args


@later_effects
def import_that_fails(x):
    try:
        import no_such_module_anywhere
    except ImportError as error:
        return x + 1, error.name


@core
def from_import_that_fails(x):
    try:
        from math import no_such_name
    except ImportError as error:
        return x + 1, error.name


@core
def unpacking_errors(x):
    out = []
    for given in ((1, 2), (1, 2, 3, 4), 5, "ab", []):
        try:
            a, c, d = given
            out.append("no error")
        except (ValueError, TypeError) as error:
            out.append(str(error))
        try:
            a, c, d, *e = given
            out.append(e)
        except (ValueError, TypeError) as error:
            out.append(str(error))
    return x + 1, out


@core
def raising_odd_things(x):
    out = []
    for thing in (ValueError, ValueError("text"), 5, "text", None, int):
        try:
            raise thing
        except BaseException as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


@core
def reraise_without_exception(x):
    try:
        raise
    except RuntimeError as error:
        return x + 1, str(error)


@core
def exceptions_compare_by_class_tree(x):
    out = []
    for kind in (KeyError, IndexError, ZeroDivisionError, UnicodeError, NotImplementedError, FileNotFoundError):
        try:
            raise kind("t")
        except LookupError:
            out.append("lookup")
        except ArithmeticError:
            out.append("arithmetic")
        except (ValueError, RuntimeError) as error:
            out.append(type(error).__mro__[1].__name__)
        except Exception as error:
            out.append(isinstance(error, OSError))
    return x + 1, out


@core
def exception_notes_and_args(x):
    try:
        raise ValueError("a", 2)
    except ValueError as error:
        error.add_note("noted")
        return x + 1, error.args, error.__notes__, repr(error)


@core
def finally_in_every_exit(x):
    log = []

    def exits(how):
        for _ in range(2):
            try:
                if how == "return":
                    return "returned"
                if how == "break":
                    break
                if how == "continue":
                    continue
                if how == "raise":
                    raise KeyError(how)
            finally:
                log.append(how)
        return "end"

    out = []
    for how in ("return", "break", "continue", "raise", "none"):
        try:
            out.append(exits(how))
        except KeyError as error:
            out.append(error.args)
    return x + len(log), out, log


@core
def else_of_try_in_loops(x):
    out = []
    for value in ("1", "q", "3"):
        try:
            number = int(value)
        except ValueError:
            out.append("bad")
            continue
        else:
            out.append(number)
        finally:
            out.append("done")
    else:
        out.append("all")
    return x + 1, out


@later_effects
def raises_with_notes(x):
    error = ValueError("a")
    error.add_note("a note")
    raise error from None


@later_effects
def raises_group(x):
    raise ExceptionGroup("several", [ValueError("a"), KeyError("c")])


@later_effects
def system_exit_is_caught(x):
    import sys

    try:
        sys.exit(3)
    except SystemExit as error:
        return x + error.code


@later_effects
def raises_out(x):
    x = x + 1
    raise ValueError(f"shape {tuple(x.shape)}")


@later_effects
def raises_out_of_inner(x):
    def inner(t):
        if t.dim() == 2:
            raise KeyError("inner")
        return t

    return inner(x + 1)


@later_effects
def raises_from(x):
    try:
        {}["k"]
    except KeyError as error:
        raise RuntimeError("outer") from error


@later_effects
def raises_in_finally(x):
    try:
        x = x + 1
        raise ValueError("first")
    finally:
        x = x * 2
        raise TypeError("second")


@later_effects
def assert_fails(x):
    assert x.shape[0] == 4, "four"
    return x


@later_effects
def unbound_leaves(x, flag):
    if not flag:
        late = 1
    return x + late


@later_effects
def undefined_leaves(x):
    return x + undefined_name


@later_effects
def break_in_try(x):
    try:
        x = x + 1
        print("in try")
        raise ValueError(str(x.shape))
    except ValueError as error:
        print(error)
        x = x * 2
    finally:
        print("finally")
        x = x + 3
    return x


@later_effects
def assert_on_tensor(x):
    assert (x == x).all()
    return x + 1


@core
def a_traceback_is_cut(x):
    def inner():
        raise ValueError("deep")

    try:
        inner()
    except ValueError as error:
        found = error.__traceback__
        below = found.tb_next
        found.tb_next = None
        loops = None
        try:
            below.tb_next = found
            found.tb_next = below
        except ValueError as refused:
            loops = str(refused)
        return x + 1, found.tb_next is None, below.tb_next is found, loops


test_programs = corpus.test()


def link(x, error, other):
    before = error.__cause__, error.__suppress_context__
    error.__cause__ = other
    error.__context__ = KeyError("new")
    return x + 1, before, error.__cause__ is other, error.__suppress_context__, error


@pytest.mark.parametrize("other", [ValueError, lambda: None])
def test_links_of_an_exception_from_outside(other):
    def program(x, error, other):
        return link(x, error, other)[:-1]

    same(program, T(3), TypeError, other, compare_dynamo=False)


def test_links_of_an_exception_from_outside_stay():
    error, other = TypeError("outer"), ValueError("inner")
    result = stator.compile(link, backend="eager", fullgraph=True)(torch.ones(2), error, other)
    assert result[1:] == ((None, False), True, True, error)
    assert error.__cause__ is other and error.__suppress_context__
    assert type(error.__context__) is KeyError and error.__context__.args == ("new",)


def test_a_cause_that_is_no_exception():
    def program(x, error):
        try:
            error.__cause__ = 2
        except TypeError as refused:
            return x + 1, str(refused)

    same(program, T(3), TypeError, compare_dynamo=False)
