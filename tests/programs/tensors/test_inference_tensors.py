"""Inference mode around and inside of compiled functions: tensors created in it are inference tensors, and are written
to, as caches are."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.scenarios import same_scenario

pytestmark = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.mark.parametrize(
    "f",
    [lambda x: x.add_(1), lambda x: F.silu(x, inplace=True), lambda x: x[0].add_(1), lambda x: (x * 2, x.view(-1), x)],
    ids=["add", "silu", "part", "results"],
)
@pytest.mark.parametrize("order", ["made inside", "made outside", "both"])
def test_inputs(f, order: str, backend: str) -> None:
    def scenario(compile, note):
        g = compile(f)
        for _ in range(2):
            if order != "made outside":
                with torch.inference_mode():
                    x = torch.ones(2)
                    note(g, x)
                    note.value(x)
            if order != "made inside":
                x = torch.ones(2)
                with torch.inference_mode():
                    note(g, x)
                note.value(x)
                note(g, torch.ones(2))

    same_scenario(scenario, backend)


def test_cache(backend: str) -> None:
    def scenario(compile, note):
        with torch.inference_mode():
            cache = torch.zeros(4, 2)

        def f(x, position):
            cache[position] = x
            return cache.sum(0)

        f = compile(f)
        for position in range(4):
            with torch.inference_mode():
                note(f, torch.ones(2), position)
        note(f, torch.ones(2), 0)
        with torch.inference_mode():
            note(f, torch.ones(2), 1)
        note.value(cache)

    same_scenario(scenario, backend)


def inside(x):
    with torch.inference_mode():
        y = x * 2
    return y, y.is_inference(), x + 1


def written_inside(x):
    with torch.inference_mode():
        y = x * 2
        y.add_(1)
        z = y[0]
    return z, torch.is_inference_mode_enabled()


@torch.inference_mode()
def decorated(x):
    return x * 2, torch.ones(2)


def calls_decorated(x):
    y, _ = decorated(x)
    return y.clone(), x + 1


def left_inside(x):
    with torch.inference_mode(False):
        y = x * 2
    return y, y.is_inference()


def written_before(x):
    x.add_(1)
    with torch.inference_mode():
        y = x * 2
    return x, y


def in_a_loop(x):
    results = []
    for factor in (1.0, 2.0):
        with torch.inference_mode():
            results.append(x * factor)
        x = x + 1
    return results, x


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(
    "f", [inside, written_inside, decorated, calls_decorated, left_inside, written_before, in_a_loop]
)
def test_mode_inside(f, fullgraph: bool, backend: str) -> None:
    def scenario(compile, note):
        g = compile(f)
        for _ in range(2):
            note(g, torch.ones(2))
            with torch.inference_mode():
                note(g, torch.ones(2))
        if f is not written_before:
            note(g, torch.ones(2, requires_grad=True))

    same_scenario(scenario, backend, fullgraph=fullgraph)


def test_teacher_and_student(backend: str) -> None:
    def scenario(compile, note):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)

        def f(x):
            with torch.inference_mode():
                target = model(x + 1)
            return ((model(x) - target.clone()) ** 2).sum()

        f = compile(f)
        for _ in range(2):
            result = note(f, torch.ones(1, 2))
            if isinstance(result, torch.Tensor):
                note.gradients(result, model.weight)

    same_scenario(scenario, backend)
