"""The same programs on a GPU, where there is one."""

import pytest
import torch

from tests.support.engine import compile, reset

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.feed = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_block_with_gradients(backend):
    torch.manual_seed(0)
    model = Block().cuda()
    x = torch.randn(2, 5, 16, device="cuda")
    expected = model(x)
    expected.sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    actual = compile(model, backend=backend)(x)
    actual.sum().backward()
    torch.testing.assert_close(actual, expected)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_the_device_is_guarded():
    captured = []

    def backend(module, example_inputs):
        captured.append(module)
        return module.forward

    compiled = compile(lambda x: torch.relu(x) + torch.ones(3, device=x.device), backend=backend)
    for device in ("cpu", "cuda", "cpu", "cuda"):
        x = torch.tensor([-1.0, 0.0, 2.0], device=device)
        assert compiled(x).device.type == device
        assert compiled(x).tolist() == [1.0, 1.0, 3.0]
    assert len(captured) == 2
    reset()


def test_autocast_on_the_gpu():
    def program(x, w):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x @ w

    x, w = torch.randn(4, 4, device="cuda"), torch.randn(4, 4, device="cuda")
    result = compile(program)(x, w)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result, program(x, w))
