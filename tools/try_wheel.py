"""Tries an installed Stator: python -P try_wheel.py, in an environment with torch and the wheel, outside the sources.

A function and a model are compiled and compared with themselves uncompiled, forward and backward, and the report names
their graphs. Beside a torch that the wheel was not built against, the import has to say so in one line.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import torch

import stator

INSTALLED = "import torch; torch._dynamo; print(type(torch.compile(lambda x: x, backend='eager')).__module__)"
OTHER_TORCH = "import torch; torch.__version__ = '2.12.9'; import stator"


def check_that_the_wheel_is_used() -> None:
    package = Path(stator.__file__).resolve().parent
    source = Path(__file__).resolve().parents[1] / "python" / "stator"
    assert package != source, f"{package} is the source tree"
    assert (package / "_built_with.py").is_file(), f"{package} does not say which torch it was built against"
    assert importlib.metadata.version("stator") == stator.__version__
    assert importlib.metadata.requires("stator") is None, "a requirement would replace the torch that is there"


def check_the_environment_variable() -> None:
    """`STATOR_INSTALL=1` works by a file that Python reads when it starts."""
    for value, module in (("1", "stator._C"), ("0", "builtins")):
        environment = {**os.environ, "STATOR_INSTALL": value}
        command = [sys.executable, "-P", "-c", INSTALLED]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert said.strip() == module, f"STATOR_INSTALL={value}: {said}"


def check_a_function() -> None:
    def function(x: torch.Tensor, scales: list[float]) -> torch.Tensor:
        for scale in scales:
            x = torch.relu(x) * scale
        return x.sum(dim=-1)

    x = torch.randn(4, 3)
    compiled = stator.compile(function, backend="eager", fullgraph=True)
    for scales in ([1.5, 2.0], [1.5, 2.0], [3.0]):
        assert torch.equal(compiled(x, scales), function(x, scales))
    report = stator.explain(function, backend="eager")(x, [1.5, 2.0])
    assert len(report.captures) == 1 and not report.breaks, report
    assert report.captures[0].graph.count("torch.relu") == 2, report


def check_a_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.randn(5, 4)

    def gradients(callable: torch.nn.Module) -> list[torch.Tensor]:
        model.zero_grad()
        callable(x).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    expected = gradients(model)
    compiled = stator.compile(model, backend="aot_eager")
    assert len(expected) == 4
    for _ in range(2):
        assert all(map(torch.allclose, gradients(compiled), expected))


def check_what_another_torch_meets() -> None:
    answer = subprocess.run([sys.executable, "-P", "-c", OTHER_TORCH], capture_output=True, text=True, check=False)
    words = f"This Stator was built against torch {torch.__version__}, and torch 2.12.9 is installed: build it again."
    assert answer.returncode != 0
    assert answer.stderr.splitlines()[-1] == f"ImportError: {words}", answer.stderr


if __name__ == "__main__":
    check_that_the_wheel_is_used()
    check_a_function()
    check_a_model()
    check_the_environment_variable()
    check_what_another_torch_meets()
    python = "{}.{}.{}".format(*sys.version_info[:3])
    print(f"The wheel of Stator {stator.__version__} works on Python {python} beside torch {torch.__version__}.")
