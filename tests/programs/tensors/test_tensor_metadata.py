"""Metadata queries of a tensor: of an input, of a result, of a view."""

import pytest

from tests.support.harness import Source, T, same

HEAD = """
base = torch.arange(6.).reshape(2,3)
view = base[0]
leaf = torch.ones(3, requires_grad=True)
non = leaf * 2
lv = leaf.view(3,1)
det = non.detach()
conj = torch.ones(3, dtype=torch.complex64).conj()
par = nn.Parameter(torch.ones(3))
buf = nn.Buffer(torch.ones(3))
with torch.inference_mode(): inf = torch.ones(3)
cl = torch.ones(1,2,3,4).to(memory_format=torch.channels_last)
sub = torch.ones(3,3).t()
scal = torch.tensor(3.)
"""

TENSORS = "base view leaf non lv det conj par buf inf cl sub scal".split()

# {t} is the tensor itself.
QUESTIONS = """
_is_view()
_base is None
_base is base
is_shared()
is_pinned()
storage_offset()
untyped_storage().nbytes()
_version
retains_grad
output_nr
grad_fn is None
grad_fn.name() if {t}.grad_fn is not None else 0
is_leaf
requires_grad
is_inference()
is_conj()
is_neg()
is_contiguous()
is_contiguous(memory_format=torch.channels_last)
names
has_names()
is_sparse
is_quantized
is_meta
is_cpu
is_cuda
layout
device
dtype
itemsize
nbytes
element_size()
numel()
dim()
ndim
shape
size()
stride()
mT.shape if {t}.dim()>1 else 0
H.shape if {t}.dim()==2 else 0
is_complex()
is_floating_point()
is_signed()
is_same_size(base)
is_set_to(view)
is_set_to({t})
data_ptr() == base.data_ptr()
data.requires_grad
data._version
detach().requires_grad
detach()._version
detach()._is_view()
_grad
_backward_hooks
__class__.__name__
type()
__dict__
is_nested
is_coalesced() if {t}.is_sparse else 0
get_device()
is_distributed()
is_nonzero() if {t}.numel()==1 else 0
item() if {t}.numel()==1 else 0
tolist()
__len__() if {t}.dim() else 0
__repr__()
dense_dim() if {t}.is_sparse else 0
_is_zerotensor()
_neg_view().is_neg()
conj().is_conj()
resolve_conj().is_conj()
real.shape
imag.shape if {t}.is_complex() else 0
view(-1)._is_view() if {t}.is_contiguous() else 0
view(-1)._base is {t} if {t}.is_contiguous() else 0
reshape(-1)._base is None
contiguous() is {t}
to({t}.dtype) is {t}
float() is {t} if not {t}.is_complex() else 0
cpu() is {t}
expand_as({t}) is {t}
detach() is {t}
clone()._is_view()
mul(2)._version
mul(2).is_leaf
mul(2).requires_grad
mul(2).grad_fn is None
mul(2).untyped_storage().nbytes()
mul(2).storage_offset()
mul(2)._base is None
mul(2).is_inference()
chunk(2)[0]._is_view()
unbind()[0]._base is {t} if {t}.dim() else 0
narrow(0,0,1).storage_offset() if {t}.dim() else 0
requires_grad_().requires_grad if {t}.is_floating_point() and {t}.is_leaf and not {t}.is_inference() else 0
__eq__({t}).all().item()
__contains__(1.)
is_mkldnn
is_xla
is_mps
volatile
__array_priority__
sparse_dim() if {t}.is_sparse else 0
data is {t}
shape == base.shape
size(0) if {t}.dim() else 0
nelement()
ndimension()
_fw_grad
is_vulkan
imag.is_neg() if {t}.is_complex() else 0
""".strip().splitlines()

OF = {"one from outside": "{t}", "a result": "({t} * 1)", "a view": "({t}.view_as({t}))"}


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_real_tensors(question, of):
    lines = []
    for name in TENSORS:
        tensor = OF[of].format(t=name)
        asked = f"{tensor}." + question.replace("{t}", tensor)
        lines.append(f"    try: answers.append({asked})")
        lines.append("    except Exception as error: answers.append((type(error).__name__, str(error)[:60]))")
    body = "\n".join(lines)
    same(
        Source(f"{HEAD}\ndef f(x):\n    answers = []\n{body}\n    return x + 1, answers\n"), T(2, 2),
        compare_dynamo=False, fullgraph=False, backend="eager",
    )  # fmt: skip


# ---- Tensors of one number that is computed from constants alone ---------------------------------------------------
WHOLE = {
    "a_size": "def f(x): return x.view(torch.div(x.size(0), 2, rounding_mode='trunc'), 2, 3)",
    "sizes_in_a_tuple": "def f(x):\n    n = torch.div(x.size(0), 2, rounding_mode='floor') - 1\n    return x.new_zeros((3, n + 1)), x.reshape((n + 1, 6))",
    "strides": "def f(x):\n    n = torch.tensor(2)\n    return x.as_strided(size=(n, 3), stride=(3, 1))",
    "made": "def f(x): return torch.zeros(torch.tensor(3), 2), torch.arange(torch.tensor(4)), torch.ones((torch.tensor(2), 2)) + x[0, 0]",
    "item": "def f(x): return x * torch.tensor(3).item() + torch.tensor(2.5).item()",
    "int_and_float": "def f(x): return x * int(torch.tensor(3.7)) + float(torch.tensor(2))",
    "axes": "def f(x): return x.sum(torch.arange(0, x.dim()).tolist()), torch.tensor([[1, 2], [3, 4]]).tolist(), torch.ones(2).tolist()",
    "axes_that_are_changed": "def f(x):\n    axes = torch.arange(2).tolist()\n    axes.append(5)\n    return x.sum(axes[:2]), axes, torch.arange(2).tolist()",
    "truth": "def f(x): return x + 1 if torch.tensor(3) > 2 else x - 1",
    "truth_of_all": "def f(x): return x + 1 if torch.tensor([1, 0]).all() else x - 1",
    "slice": "def f(x):\n    n = torch.div(x.size(0), 2, rounding_mode='floor')\n    return x[:n], x[n:]",
    "range": "def f(x):\n    for i in range(torch.tensor(3)):\n        x = x + i\n    return x",
    "list_index": "def f(x): return x * [1, 5, 7][torch.tensor(1)]",
    "rounded": "def f(x): return x.view(-1, int(torch.ceil(torch.tensor(x.shape[1] / 2))) + 1, 1)",
    "nothing_dropped": "DROP = 0.0\ndef f(x):\n    for i in range(3):\n        if torch.rand([]) < DROP: continue\n        x = x * torch.rand(1)\n    return x",
    "nothing_dropped_later": "DROP = 0\ndef f(x):\n    skip = True and torch.rand([]) < DROP\n    x = x if not skip else x + 1\n    return x + 2 if not skip else x + torch.rand(2)",
    "chance_from_zero_on": "def f(x):\n    y = x + 1 if torch.rand(1) >= 0 else x - 1\n    y = y * 2 if torch.rand(()) > -0.5 else y\n    return y * 3 if torch.rand((), dtype=torch.float64).le(-1) else y + torch.rand(3)",
    "chance_behind_a_number": "def f(x): return x + 1 if 0.0 > torch.rand(()) else x * torch.rand(3)",
    "chance_used": "def f(x):\n    p = torch.rand([])\n    if p < 0.0: return x\n    return x * p, p",
    "used_twice": "def f(x):\n    n = torch.tensor(2)\n    return x.view(n, -1) * n, n",
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str) -> None:
    same(Source(WHOLE[name]), T(4, 3), compare_dynamo=False)


CHANGED = {
    "another_size": ("def f(x): return x.reshape(torch.div(x.size(0), 2, rounding_mode='trunc'), -1)", ["ARGS[0] = torch.ones(6, 3)", "ARGS[0] = torch.ones(8, 2)"]),
    "another_number": ("N = 2\ndef f(x): return x * torch.tensor(N).item(), x.reshape(torch.tensor(N), -1)", ["N = 3", "N = 4", "N = True", "N = 2.0"]),
    "another_list": ("N = 2\ndef f(x): return x, torch.arange(N).tolist()", ["N = 3", "N = 0"]),
    "the_default_dtype": ("def f(x): return x.double() * torch.tensor(0.1).item()", ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"]),
    "what_is_dropped": ("DROP = 0.0\ndef f(x):\n    torch.manual_seed(3)\n    for i in range(4):\n        if torch.rand([]) < DROP: continue\n        x = x * torch.rand(1)\n    return x", ["DROP = 0.9", "DROP = -1", "DROP = 1.5", "DROP = 0.0"]),
    "a_variable": ("def f(x, n): return x * torch.tensor(n).item() if torch.tensor(n) > 3 else x - n", ["ARGS[1] = 5", "ARGS[1] = 6", "ARGS[1] = 1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    program, changes = CHANGED[name]
    more = (2,) if "n)" in program.splitlines()[-1].split(":")[0] else ()
    try:
        same(Source(program), T(12, 2), *more, mutate=changes, compare_dynamo=False, fullgraph=False)
    finally:
        import torch

        torch.set_default_dtype(torch.float32)


# The contents are not known, or have changed since they were computed.
UNKNOWN = {
    "written": "def f(x):\n    n = torch.tensor(2)\n    n += 1\n    return x * n.item()",
    "a_view_written": "def f(x):\n    n = torch.tensor([2])\n    n[0] = 5\n    return x * n.item(), x * int(n)",
    "written_through_a_view": "def f(x):\n    n = torch.tensor([2])\n    n.view(1)[0] = 5\n    return x * n.item()",
    "part_of_a_written_one": "def f(x):\n    n = torch.tensor([2, 3])\n    m = n[0]\n    n.add_(10)\n    return x * m.item()",
    "random": "def f(x): return x * torch.rand(()).item(), x + 1 if torch.rand(()) < 0.5 else x - 1",
    "chance": "DROP = 0.5\ndef f(x):\n    for i in range(3):\n        if torch.rand([]) < DROP: continue\n        x = x * torch.rand(1)\n    return x",
    "chance_written": "def f(x):\n    p = torch.rand([])\n    p.sub_(5)\n    return x + 1 if p < 0.0 else x - 1",
    "chance_written_through_a_view": "def f(x):\n    p = torch.rand(1)\n    p.view(1)[0] = -2\n    return x + 1 if p < 0.0 else x - 1",
    "answer_written": "def f(x):\n    q = torch.rand([]) < 0.0\n    q.fill_(True)\n    return x + 1 if q else x - 1",
    "chance_of_others": "def f(x): return x + 1 if torch.randn([]) < 0.0 else x - 1, x * 2 if torch.rand([]) * 2 - 1 < 0.0 else x",
    "several_chances": "def f(x):\n    try:\n        return x + 1 if torch.rand(2) < 0.0 else x - 1\n    except RuntimeError:\n        return x * 2",
    "chance_and_nan": "def f(x): return x + 1 if torch.rand([]) < float('nan') else x - torch.rand(3), x * 2 if torch.rand([]) >= float('nan') else x",
    "of_the_input": "def f(x): return x * x.sum().item() + 1, x + torch.tensor(2) * x[0, 0].item()",
    "not_set": "def f(x):\n    n = torch.empty(())\n    n.fill_(3.0)\n    return x * n.item()",
    "given": "N = torch.tensor(2)\ndef f(x):\n    y = x * N.item()\n    N.add_(1)\n    return y",
    "several": "def f(x): return x * torch.tensor([2, 3]).tolist()[1]",
    "no_integer": "def f(x):\n    try:\n        return x.view(torch.tensor(2.0), -1)\n    except TypeError:\n        return x + 1",
    "not_one": "def f(x):\n    try:\n        return x * torch.tensor([1, 2]).item()\n    except RuntimeError:\n        return x + 1",
    "requires_grad": "def f(x):\n    n = torch.tensor(2.0, requires_grad=True)\n    return x * n.item(), x * n",
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_not_known(name: str) -> None:
    same(Source(UNKNOWN[name]), T(4, 3), compare_dynamo=False, fullgraph=False, stateful=True)
