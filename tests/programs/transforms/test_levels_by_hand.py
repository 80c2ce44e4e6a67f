"""Levels of functorch and of forward-mode differentiation that the program enters and leaves itself: captured if they are
left before the captured region ends, otherwise the graph breaks where the first one is entered."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch._C import _functorch as functorch
from torch._functorch.eager_transforms import _autograd_grad, _create_differentiable

import stator
from tests.support.engine import CAPTURES
from tests.support.scenarios import same_scenario


def dual(x, t):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(forward_ad.make_dual(x, t) ** 3))


def dual_used_after_its_level(x, t):
    y = x * 2
    with forward_ad.dual_level():
        z = forward_ad.make_dual(y, t).sin() * x
        primal, tangent = forward_ad.unpack_dual(z)
    return primal + 1, tangent, z.cos()


def entered_by_function(x, t):
    forward_ad.enter_dual_level()
    try:
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, t).exp()).tangent
    finally:
        forward_ad.exit_dual_level()
    return tangent, x * 2


def two_levels_after_each_other(x, t):
    with forward_ad.dual_level():
        first = forward_ad.unpack_dual(forward_ad.make_dual(x, t).sin()).tangent
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(first, t).sin()).tangent


def no_tangent(x, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(x * 2).tangent is None, x + t


def disabled_inside(x, t):
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, t)
        with forward_ad._set_fwd_grad_enabled(False):
            z = y * 2
        return forward_ad.unpack_dual(z).tangent is None, forward_ad.unpack_dual(y * 2).tangent


def disabled_around(x, t):
    with forward_ad._set_fwd_grad_enabled(False):
        return torch.func.jvp(torch.sin, (x,), (t,))


def written_through(x, t):
    with forward_ad.dual_level():
        forward_ad.make_dual(x, t).mul_(3)
    return t + 1, x + 1


def gradient_level(x, t):
    level = functorch._grad_increment_nesting()
    try:
        w = functorch._wrap_for_grad(x, level)
        _create_differentiable(w)
        y = (w.sin() * t).sum()
        (gradient,) = _autograd_grad((y,), (w,))
        return functorch._unwrap_for_grad(gradient, level), functorch._unwrap_for_grad(y, level)
    finally:
        functorch._grad_decrement_nesting()


def batch_level(x, t):
    level = functorch._vmap_increment_nesting(x.shape[0], "error")
    y = functorch._add_batch_dim(x, 0, level) * functorch._add_batch_dim(t, 0, level) + 1
    y = functorch._remove_batch_dim(y, level, x.shape[0], 0)
    functorch._vmap_decrement_nesting()
    return y


def transform_inside(x, t):
    with forward_ad.dual_level():
        y = torch.vmap(lambda a: a.sin() * 2)(forward_ad.make_dual(x, t))
        return tuple(forward_ad.unpack_dual(y))


def error_inside(x, t):
    try:
        with forward_ad.dual_level():
            forward_ad.make_dual(x, t)
            raise ValueError("inside")
    except ValueError as error:
        return str(error), x * 2


def break_inside(x, t):
    y = x.cos()
    with forward_ad.dual_level():
        z = forward_ad.make_dual(y, t).exp()
        print(end="")
        return forward_ad.unpack_dual(z).tangent


def break_before_and_after(x, t):
    y = x.cos()
    print(end="")
    with forward_ad.dual_level():
        z = forward_ad.unpack_dual(forward_ad.make_dual(y, t).exp()).tangent
    print(end="")
    return z.sin()


CAPTURED = [
    dual,
    dual_used_after_its_level,
    entered_by_function,
    two_levels_after_each_other,
    no_tangent,
    disabled_inside,
    disabled_around,
    written_through,
    gradient_level,
    batch_level,
    transform_inside,
    error_inside,
]
BROKEN = [break_inside, break_before_and_after]


def scenario_of(program):
    def scenario(compile, note):
        f = compile(program)
        for size in (3, 3, 5):
            x, t = torch.arange(1.0, size + 1), torch.linspace(0, 1, size)
            note(f, x, t)
            note.value((x, t, functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level))

    return scenario


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
def test_captured(program, backend):
    same_scenario(scenario_of(program), backend)
    if CAPTURES:
        report = stator.explain(program, backend=backend)(torch.ones(3), torch.ones(3))
        assert len(report.captures) == 1 and not report.breaks


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
def test_gradients_through_a_level(backend, dynamic):
    program = dual_used_after_its_level
    compiled = stator.compile(program, backend=backend, dynamic=dynamic, fullgraph=True)
    for size in (3, 5):
        found = []
        for f in (program, compiled):
            x, t = torch.arange(1.0, size + 1, requires_grad=True), torch.linspace(0, 1, size, requires_grad=True)
            results = f(x, t)
            sum(result.sum() for result in results).backward()
            found.append((*results, x.grad, t.grad))
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_a_break_inside_of_a_level_comes_before_it(program, backend):
    same_scenario(scenario_of(program), backend)
    if CAPTURES:
        with pytest.raises(stator.Unsupported, match=r"print\(\) is called"):
            stator.compile(program, backend=backend, fullgraph=True)(torch.ones(3), torch.ones(3))


def test_a_level_that_stays_open():
    def opens(x, t):
        forward_ad.enter_dual_level()
        return forward_ad.make_dual(x, t)

    def scenario(compile, note):
        f = compile(opens)
        for number in range(3):
            dual = f(torch.arange(3.0), torch.full((3,), float(number)))
            note.value(forward_ad.unpack_dual(dual * dual).tangent)
            forward_ad.exit_dual_level()

    same_scenario(scenario, "eager")
    if CAPTURES:
        with pytest.raises(stator.Unsupported, match="a level of torch.func is not left again"):
            stator.compile(opens, fullgraph=True)(torch.ones(3), torch.ones(3))
        assert forward_ad._current_level == -1


def test_a_graph_that_fails_inside_of_a_level():
    """The program runs again uncompiled, and finds the state as it was before the call."""

    def fails(x, t, index):
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, t)[index]
            return forward_ad.unpack_dual(y * 2).tangent

    def scenario(compile, note):
        f = compile(fails)
        for index in (1, 7, 2):
            note(f, torch.arange(3.0), torch.ones(3), torch.tensor([index]))
            note.value((forward_ad._current_level, torch._C._is_fwd_grad_enabled()))
            note(lambda: tuple(torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))))

    same_scenario(scenario, "eager")


def test_requires_grad_of_an_input_inside_of_a_level():
    def program(x):
        level = functorch._grad_increment_nesting()
        functorch.set_inplace_requires_grad_allowed(True)
        torch._functorch.eager_transforms._set_tensor_requires_grad(x)
        functorch.set_inplace_requires_grad_allowed(False)
        functorch._grad_decrement_nesting()
        return x + level

    for _ in range(2):
        found = []
        for f in (program, stator.compile(program, fullgraph=True, backend="eager")):
            x = torch.arange(3.0)
            result = f(x)
            result.sum().backward()
            found.append((result.tolist(), result.requires_grad, x.requires_grad, x.grad.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("is_disabled", [False, True])
def test_a_transform_where_hooks_on_saved_tensors_are_disabled(is_disabled):
    message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
    disable, enable = torch._C._autograd._saved_tensors_hooks_disable, torch._C._autograd._saved_tensors_hooks_enable

    def by_context(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("inner"):
            return torch.func.grad(lambda x: x.sin().sum())(x), message()

    def by_hand(x):
        disable("inner")
        gradient = torch.func.grad(lambda x: x.sin().sum())(x)
        inside = message()
        enable()
        return gradient, inside

    for program in (by_context, by_hand):
        compiled = stator.compile(program, fullgraph=True, backend="eager")
        for _ in range(2):
            found = []
            for f in (program, compiled):
                if is_disabled:
                    disable("outer")
                try:
                    gradient, inside = f(torch.arange(3.0))
                    found.append((gradient.tolist(), inside, message()))
                finally:
                    enable()
            assert found[0] == found[1]


@pytest.mark.parametrize(
    "name, transform",
    [
        ("vmap", lambda f, x: torch.vmap(f)(x)),
        ("grad", lambda f, x: torch.func.grad(lambda x: f(x).sum())(x)),
        ("jvp", lambda f, x: torch.func.jvp(f, (x,), (x,))[1]),
    ],
)
def test_a_compiled_function_that_a_transform_calls(name, transform):
    """It runs uncompiled, or says what to do."""
    x = torch.arange(6.0).view(2, 3)
    compiled = stator.compile(torch.sin, backend="eager")
    for _ in range(2):
        assert torch.equal(transform(compiled, x), transform(torch.sin, x))
    message = rf"Calling torch.func.{name}\(compiled_fn\) .* compile the function that calls torch.func.{name} as well"
    with pytest.raises(stator.Unsupported, match=message):
        transform(stator.compile(lambda x: x.sin(), backend="eager", fullgraph=True), x)
