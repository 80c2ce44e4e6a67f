"""Forward-mode differentiation inside of compiled functions and around them: a tangent is never lost."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

from tests.support.scenarios import same_scenario

pytestmark = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def test_inside(backend: str) -> None:
    def scenario(compile, note):
        def cubed(x, t):
            with forward_ad.dual_level():
                return tuple(forward_ad.unpack_dual(forward_ad.make_dual(x, t) ** 3))

        f = compile(cubed)
        for start in range(3):
            note(f, torch.arange(3.0) + start, torch.ones(3))

    same_scenario(scenario, backend)


def test_level_entered_by_function(backend: str) -> None:
    def scenario(compile, note):
        def f(x):
            forward_ad.enter_dual_level()
            tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, torch.ones(3)).exp()).tangent
            forward_ad.exit_dual_level()
            return tangent, x * 2

        f = compile(f)
        for _ in range(2):
            note(f, torch.arange(3.0))

    same_scenario(scenario, backend)


@pytest.mark.parametrize("order", ["plain first", "dual first"])
def test_input_with_tangent(backend: str, order: str) -> None:
    def scenario(compile, note):
        f = compile(lambda x: x**3 + x.sin())

        def dual():
            with forward_ad.dual_level():
                note(lambda: tuple(forward_ad.unpack_dual(f(forward_ad.make_dual(torch.ones(3), torch.ones(3))))))
                note(f, torch.ones(3))

        def plain():
            note(f, torch.arange(3.0))

        for call in (plain, dual, plain, dual) if order == "plain first" else (dual, plain, dual):
            call()

    same_scenario(scenario, backend)


def test_unpacked_inside(backend: str) -> None:
    def scenario(compile, note):
        f = compile(lambda x: tuple(forward_ad.unpack_dual(x * 2)))
        note(f, torch.ones(2))
        with forward_ad.dual_level():
            for tangent in (3.0, 4.0):
                note(f, forward_ad.make_dual(torch.ones(2), torch.full((2,), tangent)))
            note(f, torch.ones(2))

    same_scenario(scenario, backend)


def test_tangent_of_parameter(backend: str) -> None:
    def scenario(compile, note):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        compiled = compile(model)
        note(compiled, torch.ones(1, 3))
        with forward_ad.dual_level():
            weight = model[0].weight.detach()
            del model[0].weight
            model[0].weight = forward_ad.make_dual(weight, torch.ones_like(weight))
            note(lambda: tuple(forward_ad.unpack_dual(compiled(torch.ones(1, 3)))))

    same_scenario(scenario, backend)


def test_tangent_written_into_input(backend: str) -> None:
    def scenario(compile, note):
        f = compile(lambda x, y: x.mul_(y))
        note(f, torch.ones(2), torch.ones(2))
        with forward_ad.dual_level():
            x = torch.ones(2)
            note(f, x, forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0)))
            note(lambda: tuple(forward_ad.unpack_dual(x)))
            note(lambda: tuple(forward_ad.unpack_dual(f(x, torch.ones(2)))))

    same_scenario(scenario, backend)


@pytest.mark.parametrize("transform", ["jvp", "jacfwd", "hessian", "grad", "vjp"])
@pytest.mark.parametrize("place", ["around", "inside"])
def test_function_transforms(backend: str, transform: str, place: str) -> None:
    def scenario(compile, note):
        def function(x):
            return (x**3).sum() if transform in ("hessian", "grad") else x**3

        def transformed(f, x):
            if transform == "jvp":
                return torch.func.jvp(f, (x,), (torch.ones(3),))
            if transform == "vjp":
                result, pull = torch.func.vjp(f, x)
                return result, pull(torch.ones(3))
            return getattr(torch.func, transform)(f)(x)

        if place == "around":
            f = compile(function)
            note(f, torch.arange(3.0))
            call = lambda: transformed(f, torch.arange(3.0))  # noqa: E731
        else:
            f = compile(lambda x: transformed(function, x))
            call = lambda: f(torch.arange(3.0))  # noqa: E731
        note(call)
        note(call)

    same_scenario(scenario, backend)
