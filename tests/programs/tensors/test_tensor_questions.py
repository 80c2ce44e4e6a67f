"""What a program may ask of a tensor besides its data: of one from outside, of a result, of a view."""

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
