"""Context managers: PyTorch's modes as `with` and as decorators, user-defined ones, contextlib's."""

import contextlib

import pytest
import torch

from tests.support.corpus import Corpus
from tests.support.harness import T, same

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


@core
def no_grad(w):
    with torch.no_grad():
        y = w * 2
        inside = torch.is_grad_enabled()
    return y, w * 3, inside, torch.is_grad_enabled()


@core
def enable_grad_in_no_grad(w):
    with torch.no_grad():
        a = w * 2
        with torch.enable_grad():
            c = w * 3
        d = w * 4
    return a, c, d


@core
def set_grad_enabled_as_context(w, flag):
    with torch.set_grad_enabled(not flag):
        a = w * 2
    with torch.set_grad_enabled(flag):
        c = w * 3
    return a, c


@core
def set_grad_enabled_as_function(w):
    torch.set_grad_enabled(False)
    a = w * 2
    torch.set_grad_enabled(True)
    return a, w * 3


@core
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y, torch.is_inference_mode_enabled()


@core
def inference_mode_off(x):
    with torch.inference_mode(False):
        return x * 2


@core(w=T(3, 4, grad=True))
def autocast(w, m):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = w @ m
        inside = torch.is_autocast_enabled("cpu")
    return y, w @ m, inside, y.dtype


@core
def autocast_disabled_inside(x, m):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        a = x @ m
        with torch.autocast("cpu", enabled=False):
            c = x @ m
    return a, c


@core
def autocast_cpu_amp(x, m):
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        return x @ m


@torch.no_grad()
def decorated_no_grad(t):
    return t * 2


@torch.no_grad
def decorated_without_call(t):
    return t * 2


@torch.enable_grad()
def decorated_enable_grad(t):
    return t * 3


@torch.inference_mode()
def decorated_inference(t):
    return t * 5


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated_autocast(t, m):
    return t @ m


@core
def decorators(w):
    with torch.no_grad():
        inside = decorated_enable_grad(w)
    return decorated_no_grad(w), decorated_without_call(w), inside, w * 2


@core
def decorator_inference(x):
    return decorated_inference(x) + 1


@core
def decorator_autocast(x, m):
    return decorated_autocast(x, m), x @ m


# From torch 2.15 on, a decorator that is made gives its wrapper a code object with another name, for which TorchDynamo
# breaks the graph.
RENAMES_WRAPPERS = hasattr(torch.utils._contextlib, "_set_stack_frame_name")


@core(compare_dynamo=not RENAMES_WRAPPERS)
def decorator_made_inside(w):
    @torch.no_grad()
    def inner(t):
        return t * 4

    return inner(w), w * 2


@core
def return_inside(w):
    with torch.no_grad():
        return w * 2


@core
def exception_restores_mode(w):
    try:
        with torch.no_grad():
            a = w * 2
            raise ValueError
    except ValueError:
        pass
    return a, w * 3, torch.is_grad_enabled()


@core
def loop_with_contexts(w):
    out = []
    for k in range(4):
        with torch.set_grad_enabled(k % 2 == 0):
            if k == 1:
                continue
            out.append(w * k)
            if k == 2:
                break
    return out, torch.is_grad_enabled()


@core
def context_object_is_reused(w):
    context = torch.no_grad()
    with context:
        a = w * 2
    with context:
        c = w * 3
    return a, c, w * 4


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return len(self.log)

    def __exit__(self, kind, value, trace):
        self.log.append("exit" if kind is None else f"exit {kind.__name__}: {value}")
        return self.swallow


@contextlib.contextmanager
def managed(log, name="m", swallow=()):
    log.append(f"enter {name}")
    try:
        yield len(name)
    except swallow as error:
        log.append(f"caught {error}")
    finally:
        log.append(f"exit {name}")


@contextlib.contextmanager
def grad_off_and_scale(scale):
    with torch.no_grad():
        yield lambda t: t * scale


class Decorating(contextlib.ContextDecorator):
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *details):
        self.log.append("out")


@core
def user_manager(x):
    log = []
    with Manager(log) as count:
        x = x + count
    return x, log


@core
def user_manager_swallows(x):
    log = []
    with Manager(log, swallow=True):
        x = x + 1
        raise KeyError("gone")
    with Manager(log):
        x = x * 2
    return x, log


@core
def user_manager_lets_through(x):
    log = []
    try:
        with Manager(log):
            raise KeyError("through")
    except KeyError:
        log.append("outside")
    return x + 1, log


@core
def several_managers(x):
    log = []
    with Manager(log) as a, Manager(log) as c, torch.no_grad():
        x = x * a + c
    return x, log


@core
def generator_manager(x):
    log = []
    with managed(log) as length:
        x = x + length
    with managed(log, "other", swallow=ValueError) as length:
        x = x * length
        raise ValueError("v")
    return x, log


@core
def generator_manager_lets_through(x):
    log = []
    try:
        with managed(log, swallow=KeyError):
            raise ValueError("v")
    except ValueError as error:
        log.append(str(error))
    return x + 1, log


@core
def generator_manager_around_grad_mode(w):
    with grad_off_and_scale(3) as scaled:
        a = scaled(w)
    return a, w * 2


@core
def nullcontext(w, flag):
    with contextlib.nullcontext(5) as five:
        a = w * five
    with torch.no_grad() if flag else contextlib.nullcontext():
        c = w * 2
    with torch.no_grad() if not flag else contextlib.nullcontext():
        d = w * 2
    return a, c, d


@core
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        [][0]
        x = x * 100
    return x


@core
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Manager(log))
        stack.enter_context(torch.no_grad())
        stack.callback(log.append, "callback")
        x = x + first
    return x, log, torch.is_grad_enabled()


@core
def context_decorator(x):
    log = []

    @Decorating(log)
    def inner(t):
        log.append("body")
        return t + 1

    return inner(x), log


@core
def closing(x):
    class_log = []
    with contextlib.closing(Closable(class_log)) as thing:
        x = x + thing.value
    return x, class_log


class Closable:
    value = 3

    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


@core
def manager_from_method(x):
    log = []
    thing = WithMethod()
    with thing.scope(log) as scale:
        x = x * scale
    return x, log, thing.depth


class WithMethod:
    depth = 0

    @contextlib.contextmanager
    def scope(self, log):
        self.depth += 1
        log.append(self.depth)
        yield 4
        self.depth -= 1


@core
def exception_in_enter(x):
    class_log = []
    try:
        with Failing(class_log):
            x = x * 100
    except OSError as error:
        return x + 1, str(error), class_log


class Failing:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        raise OSError("no entry")

    def __exit__(self, *details):
        self.log.append("exit")


@core
def exception_in_exit(x):
    try:
        with FailingExit():
            x = x + 1
    except OSError as error:
        return x, str(error)


class FailingExit:
    def __enter__(self):
        return self

    def __exit__(self, *details):
        raise OSError("no exit")


@core
def exit_sees_details(x):
    seen = []

    with Seeing(seen):
        raise ValueError("seen")
    return x + 1, seen


class Seeing:
    def __init__(self, seen):
        self.seen = seen

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.seen.append((kind is ValueError, value.args, trace is not None))
        return True


@later_effects
def not_a_manager(x):
    with x + 1:
        return x


@later_effects
def profiler_range(x):
    with torch.profiler.record_function("range"):
        return x + 1


@later_effects
def default_dtype_inside(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return torch.zeros(2) + 1, x + 1
    finally:
        torch.set_default_dtype(before)


@later_effects
def break_under_no_grad(w):
    with torch.no_grad():
        a = w * 2
        print("inside", torch.is_grad_enabled())
        c = w * 3
    print("outside", torch.is_grad_enabled())
    return a, c, w * 4


@later_effects
def break_under_autocast(x, m):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ m
        print(a.dtype)
        c = x @ m
    return a, c, x @ m


@later_effects
def raises_under_no_grad(w):
    with torch.no_grad():
        w = w * 2
        raise ValueError("under")


@later_effects
def fork_rng(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        a = torch.rand(2)
    return a, x + 1


test_programs = corpus.test()


def doubles(w):
    return w * 2


MODES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("mode", MODES)
def test_called_under_a_mode(mode):
    same(lambda w, m: ((w @ m) * 2, torch.is_grad_enabled()), T(3, 4, grad=True), T(4, 5), under=MODES[mode])


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
def test_decorated_program(mode):
    program = {"no_grad": torch.no_grad(), "enable_grad": torch.enable_grad()}[mode](doubles)
    same(program, T(3, grad=True), graphs=None, compare_dynamo=False)


def test_mode_left_changed():
    def program(w):
        torch.set_grad_enabled(False)
        return w * 2

    same(program, T(3, grad=True), under=torch.enable_grad)


def test_a_mode_that_is_set_to_what_it_is():
    def program(x):
        torch._C._set_grad_enabled(True)
        torch._C._set_grad_enabled(False)
        y = x * 2
        torch._C._set_grad_enabled(False)
        torch._C._set_grad_enabled(True)
        torch._C._set_grad_enabled(True)
        return x * 3, y

    same(program, lambda: torch.ones(2, requires_grad=True))
    same(program, lambda: torch.ones(2, requires_grad=True), backend="aot_eager")
    same(program, lambda: torch.ones(2, requires_grad=True), under=torch.no_grad, compare_dynamo=False)


def test_a_default_device():
    def program(x):
        with torch.device("meta"):
            y = torch.ones(3)
            print(end="")
            z = torch.zeros(2)
        return x + 1, y, z, torch.ones(1)

    same(program, T(2), fullgraph=False, compare_dynamo=False)
    assert torch.ones(1).device == torch.device("cpu")
