"""The share of the calls of each listed operation that have a rule: `python tests/shape/rule_coverage.py [NAME ...]`.

Calls are the samples of PyTorch's operator database in all their forms (function, method, operator, in-place, `out=`),
with and without grad. With names, also shows the calls that have no rule.
"""

from __future__ import annotations

import collections
import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from stator import _testing
from tests.shape import against_fake

LISTED_NAMES = """
add sub mul div floor_divide remainder fmod pow eq ne lt le gt ge neg bitwise_not bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not __radd__ __rsub__ __rmul__
__rdiv__ __rmod__ __rpow__ __rand__ __ror__ __rxor__ rsub true_divide
abs sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh sigmoid erf erfc erfinv
square reciprocal sign ceil floor round trunc frac maximum minimum fmax fmin atan2 isnan isinf isfinite
clamp clamp_min clamp_max where masked_fill lerp addcmul addcdiv nan_to_num logit
nn.functional.relu nn.functional.relu6 nn.functional.leaky_relu nn.functional.silu nn.functional.gelu
nn.functional.softplus nn.functional.hardtanh nn.functional.hardswish nn.functional.hardsigmoid nn.functional.elu
nn.functional.selu nn.functional.celu nn.functional.mish nn.functional.prelu nn.functional.softsign
nn.functional.tanhshrink nn.functional.softshrink nn.functional.hardshrink nn.functional.logsigmoid nn.functional.glu
nn.functional.threshold nn.functional.rrelu nn.functional.softmin nn.functional.normalize
nn.functional.linear nn.functional.bilinear matmul __rmatmul__ mm bmm mv dot addmm addmv addbmm baddbmm addr outer
einsum inner tensordot trace nn.functional.scaled_dot_product_attention
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d
nn.functional.batch_norm nn.functional.layer_norm nn.functional.group_norm nn.functional.rms_norm
nn.functional.instance_norm nn.functional.local_response_norm
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
nn.functional.adaptive_max_pool3d nn.functional.lp_pool2d
nn.functional.interpolate nn.functional.upsample_nearest nn.functional.upsample_bilinear nn.functional.pad
nn.functional.dropout nn.functional.dropout2d nn.functional.embedding nn.functional.pixel_shuffle
nn.functional.pixel_unshuffle nn.functional.unfold nn.functional.fold nn.functional.one_hot
softmax log_softmax nn.functional.cross_entropy nn.functional.mse_loss nn.functional.nll_loss nn.functional.l1_loss
nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div nn.functional.cosine_embedding_loss
nn.functional.margin_ranking_loss nn.functional.hinge_embedding_loss nn.functional.triplet_margin_loss
nn.functional.poisson_nll_loss nn.functional.gaussian_nll_loss nn.functional.soft_margin_loss
nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
nn.functional.ctc_loss nn.functional.cosine_similarity
view view_as reshape reshape_as flatten unflatten ravel transpose swapaxes t permute movedim squeeze unsqueeze expand
expand_as broadcast_to repeat repeat_interleave tile contiguous chunk split split_with_sizes tensor_split unbind narrow
select diagonal diag diag_embed roll rot90 flip fliplr flipud tril triu unfold as_strided
__getitem__ cat concat stack hstack vstack dstack column_stack index_select gather scatter scatter_add scatter_reduce
index_add index_copy index_fill index_put take_along_dim take topk sort argsort argmax argmin cumsum cumprod cummax
cummin diff masked_select masked_scatter nonzero unique unique_consecutive
sum mean nansum var std var_mean std_mean norm linalg.norm linalg.vector_norm min max amax amin aminmax any all prod
logsumexp median kthvalue count_nonzero
arange zeros ones full empty rand_like randn randn_like randint eye linspace logspace zeros_like ones_like empty_like
full_like randint_like new_zeros new_ones new_full new_empty tril_indices triu_indices
to type_as float double long bool int half bfloat16 short byte char detach clone histc bincount
nn.functional.grid_sample complex polar view_as_real view_as_complex
meshgrid cross dist cdist allclose isclose equal bernoulli multinomial searchsorted bucketize
float_power heaviside gcd lcm ldexp nextafter copysign hypot xlogy logaddexp logaddexp2 sinc i0 digamma lgamma sgn signbit
angle kron vdot quantile nanquantile mode nanmean nanmedian hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d
select_scatter slice_scatter diagonal_scatter broadcast_tensors linalg.diagonal linalg.matrix_norm linalg.cross diagflat
argwhere logcumsumexp conj resolve_conj resolve_neg zero_ uniform exponential nn.functional.alpha_dropout
nn.functional.dropout3d nn.functional.pairwise_distance
"""

LISTED = LISTED_NAMES.split()
if torch.torch_version.TorchVersion(torch.__version__) < (2, 12):  # FakeTensor can't do these
    LISTED = [name for name in LISTED if name not in ("quantile", "nanquantile")]


def out_calls(op: Any, args: tuple, kwargs: dict) -> Iterator[tuple[Any, tuple, dict]]:
    """The function with a fitting `out=`."""
    if not op.supports_out or "out" in kwargs:
        return
    try:
        with torch.no_grad():
            result = op.op(*args, **kwargs)
    except Exception:  # refused, as it should be without `out=` too
        return
    if isinstance(result, torch.Tensor):
        yield op.op, args, {**kwargs, "out": torch.empty_like(result)}
    elif isinstance(result, tuple) and all(isinstance(part, torch.Tensor) for part in result):
        yield op.op, args, {**kwargs, "out": tuple(torch.empty_like(part) for part in result)}


def calls(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[tuple[Any, tuple, dict]]:
    for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        for form in against_fake.forms(op):
            if against_fake.is_wrapper(form):
                yield from against_fake.calls_inside(form, args, kwargs)
            else:
                yield form, args, kwargs
        if not requires_grad:
            yield from out_calls(op, args, kwargs)


class Coverage:
    """How many calls of an operation have a rule, and which have none."""

    def __init__(self) -> None:
        self.answered = 0
        self.unanswered: collections.Counter[str] = collections.Counter()

    @property
    def share(self) -> float:
        total = self.answered + self.unanswered.total()
        return self.answered / total if total else 1.0


def coverage(
    op: Any, most: int | None = None, dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.int64)
) -> Coverage:
    """Of all calls of an operation, or of at most so many for each dtype."""
    found = Coverage()
    for dtype in dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for requires_grad in (False, True) if dtype.is_floating_point else (False,):
            for form, args, kwargs in itertools.islice(calls(op, dtype, requires_grad), most):
                if _testing.shape_infer(form, args, kwargs, "rule") is not None:
                    found.answered += 1
                elif not isinstance(against_fake.run_real(form, args, kwargs), Exception):
                    found.unanswered[against_fake.show(form, args, kwargs)] += 1
    return found


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = {op.name for op in op_db}
    wanted = names or LISTED
    for name in wanted:
        if name not in known:
            print(f"{name}: not in the operator database")
    rows = []
    for op in op_db:
        if op.name not in wanted:
            continue
        found = coverage(op)
        rows.append((found.share, op.name, op.variant_test_name, found))
    for share, name, variant, found in sorted(rows, key=lambda row: row[0]):
        total = found.answered + found.unanswered.total()
        print(f"{share:7.1%} of {total:5}  {name} {variant}")
        if names:
            for text, count in found.unanswered.most_common(60):
                print(f"      {count:4} {text[:230]}")
    answered = sum(found.answered for *_, found in rows)
    total = answered + sum(found.unanswered.total() for *_, found in rows)
    print(f"{answered} of {total} calls have a rule, {answered / max(total, 1):.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
