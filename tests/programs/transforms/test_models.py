"""What function transforms are used for: gradients of each sample, inner steps, ensembles, with modules."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vmap

from tests.support.harness import Built, T, same
from tests.support.scenarios import same_scenario


def network():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_each_sample(backend):
    def scenario(compile, note):
        model = network()
        parameters = {name: one.detach() for name, one in model.named_parameters()}

        def loss(parameters, sample, target):
            return ((functional_call(model, parameters, (sample,)) - target) ** 2).mean()

        @compile
        def gradients(parameters, samples, targets):
            return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, samples, targets)

        for _ in range(2):
            note(gradients, parameters, torch.randn(3, 4), torch.randn(3, 2))
        parameters["0.bias"] = parameters["0.bias"] + 1
        note(gradients, parameters, torch.randn(3, 4), torch.randn(3, 2))
        model[1] = nn.ReLU()
        note(gradients, parameters, torch.randn(3, 4), torch.randn(3, 2))

    same_scenario(scenario, backend, tolerance=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_inner_step(backend):
    def scenario(compile, note):
        model = network()

        def loss(parameters, x, y):
            return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)

        @compile
        def outer(parameters, tasks, targets):
            def of_task(x, y):
                gradients = grad(loss)(parameters, x, y)
                stepped = {name: parameters[name] - 0.1 * gradients[name] for name in parameters}
                return loss(stepped, x, y)

            return vmap(of_task)(tasks, targets).mean()

        for _ in range(2):
            result = note(outer, dict(model.named_parameters()), torch.randn(2, 3, 4), torch.randn(2, 3, 2))
            note.gradients(result, *model.parameters())

    same_scenario(scenario, backend, tolerance=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_ensemble(backend):
    def scenario(compile, note):
        models = [network() for _ in range(3)]
        parameters, buffers = stack_module_state(models)
        base = copy.deepcopy(models[0]).to("meta")

        @compile
        def predict(parameters, buffers, x):
            def one(parameters, buffers, x):
                return functional_call(base, (parameters, buffers), (x,))

            return vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)

        for _ in range(2):
            result = note(predict, parameters, buffers, torch.randn(5, 4))
            note.gradients(result, *parameters.values())

    same_scenario(scenario, backend, tolerance=1e-5)


def test_the_jacobian_of_a_network():
    def scenario(compile, note):
        model = network()
        jacobian = compile(lambda x: vmap(jacrev(model))(x))
        for _ in range(2):
            note.gradients(note(jacobian, torch.randn(3, 4)), *model.parameters())

    same_scenario(scenario, "aot_eager", tolerance=1e-5)


def test_a_training_step():
    def scenario(compile, note):
        model = network()

        @compile
        def step(parameters, x, y):
            gradients, loss = grad_and_value(
                lambda parameters: ((functional_call(model, parameters, (x,)) - y) ** 2).mean()
            )(parameters)
            return {name: one - 0.1 * gradients[name] for name, one in parameters.items()}, loss

        parameters = {name: one.detach() for name, one in model.named_parameters()}
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        for _ in range(3):
            parameters, _ = note(step, parameters, x, y)

    same_scenario(scenario, "eager", tolerance=1e-6)


def test_a_buffer_that_counts():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.seen = 0

        def forward(self, x):
            self.calls.add_(1)
            self.seen += 1
            return vmap(lambda row: row * 2)(x) * self.calls

    same(Built(Counting), T(3, 4), stateful=True)


def test_a_buffer_that_counts_inside():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            def inner(row):
                self.calls.add_(1)
                return row * 2

            return vmap(inner)(x) + self.calls

    same(Built(Counting), T(3, 4), fullgraph=False)


def test_dropout_in_each_sample():
    def program(x):
        return vmap(lambda row: nn.functional.dropout(row, 0.5), randomness="different")(x)

    same(program, T(3, 4))


@pytest.mark.parametrize("transform", [vmap, grad, jacrev], ids=["vmap", "grad", "jacrev"])
def test_around_a_compiled_function(transform):
    def scenario(compile, note):
        compiled = compile(lambda x: (x.sin() * 2).sum())
        note(compiled, torch.randn(4))
        for _ in range(2):
            note(transform(compiled), torch.randn(3))
        note(transform(lambda x: compiled(x) + 1), torch.randn(3))
        note(compiled, torch.randn(4))

    same_scenario(scenario, "eager")


def test_a_function_of_autograd_inside():
    class Double(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def program(x):
        return vmap(grad(lambda row: Double.apply(row).sin().sum()))(x)

    same(program, T(3, 4), fullgraph=False)
