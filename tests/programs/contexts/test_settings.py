"""Settings of PyTorch that the program changes: the default dtype, kernels of attention, hooks on saved tensors."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

SETTINGS = (
    torch.get_default_dtype,
    torch._C._get_flash_sdp_enabled,
    torch._C._get_math_sdp_enabled,
    torch._C._get_mem_efficient_sdp_enabled,
    torch._C._get_sdp_priority_order,
    torch._C._autograd._saved_tensors_hooks_get_disabled_error_message,
    torch.are_deterministic_algorithms_enabled,
)


@pytest.fixture(autouse=True)
def restored():
    before = [read() for read in SETTINGS]
    yield
    assert [read() for read in SETTINGS] == before


class double_by_default:
    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *error):
        torch.set_default_dtype(self.before)


def attends(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        y = scaled_dot_product_attention(q, k, v)
    return y + 1, torch.nn.attention._cur_sdpa_kernel_backends() == []


def test_attention_by_one_kernel():
    same(attends, T(2, 3, 4, grad=True), T(2, 3, 4), T(2, 3, 4))


def test_the_graph_as_code():
    seen = []

    def backend(module, inputs):
        seen.append(module.code)
        return module.forward

    x = torch.ones(2, 3, 4)
    torch.testing.assert_close(stator.compile(attends, backend=backend, fullgraph=True)(x, x, x), attends(x, x, x))
    assert "_backend_from_string('MATH')" in seen[0]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_attention_by_one_kernel_compiled(backend):
    def scenario(compile, note):
        f = compile(attends)
        for _ in range(2):
            x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
            note.gradients(note(f, x, x, x)[0], x)

    same_scenario(scenario, backend, tolerance=1e-5)


def test_attention_kernels_in_an_order():
    def program(x):
        before = torch._C._get_sdp_priority_order()
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            inside = torch._C._get_sdp_priority_order()
            y = scaled_dot_product_attention(x, x, x)
        return y, inside[0], inside[:2] == before[:2], torch._C._get_sdp_priority_order() == before

    same(program, T(2, 3, 4))


def test_a_decorator():
    @sdpa_kernel(SDPBackend.MATH)
    def attention(x):
        return scaled_dot_product_attention(x, x, x)

    same(lambda x: attention(x) * 2, T(2, 3, 4))


def test_other_kernels_are_another_graph():
    text = """
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends
KERNELS = [SDPBackend.MATH]
def f(x):
    with torch.nn.attention.sdpa_kernel(KERNELS):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x), len(_cur_sdpa_kernel_backends())
"""
    same(Source(text), T(2, 3, 4), mutate=["KERNELS.append(SDPBackend.FLASH_ATTENTION)"], compare_dynamo=False)


def test_the_kernels_outside_are_guarded():
    def scenario(compile, note):
        f = compile(lambda x: (x + 1, len(torch.nn.attention._cur_sdpa_kernel_backends())))
        for kernels in ([SDPBackend.MATH], [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], [SDPBackend.MATH]):
            with sdpa_kernel(kernels):
                note(f, torch.ones(2))

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_break_inside(backend):
    def program(x):
        with sdpa_kernel(SDPBackend.MATH), double_by_default():
            x = x + torch.ones(3)
            print(end="")
            x = x * torch.full((3,), 2.0)
            inside = torch.get_default_dtype(), torch._C._get_flash_sdp_enabled()
        return x, inside, torch.ones(1)

    def scenario(compile, note):
        f = compile(program)
        for _ in range(2):
            note(f, torch.ones(3))

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_setting_that_stays(backend):
    def program(x, wanted):
        torch.set_default_dtype(wanted)
        return x * torch.ones(2), torch.get_default_dtype()

    def scenario(compile, note):
        f = compile(program)
        try:
            for wanted in (torch.float64, torch.float64, torch.float32, torch.float64):
                note(f, torch.ones(2), wanted)
                note.value(str(torch.get_default_dtype()))
        finally:
            torch.set_default_dtype(torch.float32)

    same_scenario(scenario, backend)


def test_the_default_dtype():
    def program(x):
        with double_by_default():
            y = torch.ones(3) * x
        return y, torch.ones(3)

    same(program, T(3), compare_dynamo=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_default_dtype_in_one_graph(backend):
    def program(x):
        with double_by_default():
            return torch.ones(3) * x

    f = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        assert f(torch.ones(3)).dtype == torch.float64


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_exception_inside(backend):
    def program(x, y):
        with double_by_default(), sdpa_kernel(SDPBackend.MATH):
            return x @ y + torch.ones(1)

    def scenario(compile, note):
        f = compile(program)
        for columns in (3, 2, 3):
            note(f, torch.ones(2, 3), torch.ones(columns, 2))
            note.value([read() for read in SETTINGS[1:]])

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_that_fails_inside(backend):
    def program(x, index):
        with double_by_default():
            return x[index] + torch.ones(1)

    def scenario(compile, note):
        f = compile(program)
        for index in (1, 7, 0):
            note(f, torch.ones(3), torch.tensor(index))
            note.value(str(torch.get_default_dtype()))

    same_scenario(scenario, backend)


def test_an_invalid_setting():
    def program(x):
        try:
            torch.set_default_dtype(torch.int64)
        except TypeError as error:
            return x + 1, str(error)
        return x

    same(program, T(3), fullgraph=False)


def test_hooks_on_saved_tensors_are_disabled():
    def program(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            y = x * x
            try:
                with torch.autograd.graph.save_on_cpu():
                    y = y * 2
            except RuntimeError as error:
                y = y + len(str(error))
        return y

    same(program, T(3, grad=True), fullgraph=False)


def test_hooks_that_are_disabled_twice():
    def program(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("outer"):
            with torch.autograd.graph.disable_saved_tensors_hooks("inner"):
                inner = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
            outer = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
        return x + 1, inner, outer, torch._C._autograd._saved_tensors_hooks_is_enabled()

    same(program, T(3), compare_dynamo=False)


def test_parameters_of_attention():
    from torch.backends.cuda import SDPAParams

    def program(q, k, v, mask):
        q = q * 2
        made = SDPAParams(q, k, v, mask, 0.1, True, False)
        return made.query + made.attn_mask, made.is_causal, made.dropout == 0.1, made.value is v

    same(program, *[T(3)] * 4, compare_dynamo=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_deterministic_algorithms(backend):
    def program(x, warns):
        torch.use_deterministic_algorithms(True, warn_only=warns)
        y = x + 1
        inside = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        print(end="")
        torch.use_deterministic_algorithms(False)
        return y * 2, inside, torch.are_deterministic_algorithms_enabled()

    def scenario(compile, note):
        f = compile(program)
        for warns in (True, False, True):
            note(f, torch.ones(2), warns)
            note.value(torch.are_deterministic_algorithms_enabled())

    same_scenario(scenario, backend)


def test_deterministic_algorithms_that_stay():
    def scenario(compile, note):
        f = compile(lambda x, on: (torch.use_deterministic_algorithms(on, warn_only=on), x + 1))
        for on in (True, False):
            note(f, torch.ones(2), on)
            note.value(torch.are_deterministic_algorithms_enabled())

    same_scenario(scenario, "eager")
