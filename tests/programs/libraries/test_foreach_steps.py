"""Steps of optimizers by operations on lists of tensors: as uncompiled, and broken nowhere but where optimizers ask."""

import pytest
import torch

import stator
from tests.support.scenarios import same_scenario

OPTIMIZERS = {
    "AdamW": [{}, {"amsgrad": True}, {"maximize": True}],
    "Adam": [{}, {"weight_decay": 0.1}],
    "SGD": [{"momentum": 0.9}, {"lr": "tensor"}, {"momentum": 0.9, "nesterov": True, "lr": 0.1}],
    "RMSprop": [{}, {"momentum": 0.5}],
    "Adagrad": [{}],
}
CASES = [
    (name, options, foreach) for name, cases in OPTIMIZERS.items() for options in cases for foreach in (True, False)
]


def made(name: str, options: dict, foreach: bool):
    parameters = [torch.nn.Parameter(torch.arange(1.0, 4.0)), torch.nn.Parameter(torch.ones(2, 2))]
    given = {key: torch.tensor(0.1) if value == "tensor" else value for key, value in options.items()}
    return parameters, getattr(torch.optim, name)(parameters, foreach=foreach, **given)


@pytest.mark.parametrize(("name", "options", "foreach"), CASES)
def test_steps(name: str, options: dict, foreach: bool) -> None:
    def scenario(compile, note):
        parameters, optimizer = made(name, options, foreach)
        step = compile(lambda: optimizer.step())
        for number in range(4):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter) * (number + 1) * 0.1
            if number == 2:
                for group in optimizer.param_groups:
                    group["lr"] = torch.tensor(0.05) if isinstance(group["lr"], torch.Tensor) else 0.05
            note(step)
            note.value([parameter.detach() for parameter in parameters])
            note.value([list(optimizer.state[parameter].values()) for parameter in parameters])

    # Optimizers compute in another order where they are compiled.
    same_scenario(scenario, "eager", tolerance=1e-5)


@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD"])
def test_no_operation_breaks(name: str) -> None:
    parameters, optimizer = made(name, {}, True)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    report = stator.explain(lambda: optimizer.step())()
    assert "an operation raises" not in str(report)
