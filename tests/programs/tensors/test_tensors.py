"""Tensors: operators, functions, methods, properties, indexing, factories, functions with several results."""

import torch
import torch.nn.functional as F

from tests.support.corpus import Corpus
from tests.support.harness import T

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects

core.lines(
    """
    # operators, reflected ones, with every kind of number
    x + y
    x - y
    x * y
    x / (y.abs() + 1)
    x // 2
    x % 2
    x ** 2
    x @ m
    -x
    +x
    abs(x)
    ~b
    b & ~b
    b | b
    b ^ True
    i << 1
    i >> 1
    i & 3
    x == y
    x != y
    x < y
    x <= 0
    x > 0
    x >= y
    1 + x
    1 - x
    2 * x
    1 / (x.abs() + 1)
    7 // (x.abs() + 1)
    7 % (x.abs() + 1)
    2 ** x
    1 < x
    0.5 + x
    True + x
    (1 + 2j) * x
    x + i.sum()
    i + 1.5
    i / 2
    i // 2
    1 | i
    3 ^ i
    8 >> i
    x + z
    u + z
    x + n * r
    w * 2 + v
    (w * w).sum() - v.mean()
    m.T @ z
    x.__add__(1)
    x.__radd__(1)
    torch.Tensor.add(x, y)
    operator.add(x, y)
    operator.matmul(x, m)
    operator.neg(x)
    operator.getitem(x, 0)
    operator.mul(2, x)
    # functions
    torch.add(x, y)
    torch.add(x, y, alpha=2)
    torch.sub(x, other=1)
    torch.mul(input=x, other=y)
    torch.relu(x)
    torch.sigmoid(x)
    torch.exp(x)
    torch.clamp(x, min=0)
    torch.clamp(x, -0.5, 0.5)
    torch.where(b, x, y)
    torch.where(x > 0, x, 0.0)
    torch.matmul(x, m)
    torch.bmm(u, u.transpose(1, 2))
    torch.addmm(torch.zeros(5), x, m)
    torch.einsum("ij,jk->ik", x, m)
    torch.cat([x, y])
    torch.cat((x, y), dim=1)
    torch.stack([x, y], -1)
    torch.sum(x)
    torch.sum(x, dim=1)
    torch.sum(x, (0, 1), keepdim=True)
    torch.mean(x, 0)
    torch.var(x, dim=1, unbiased=False)
    torch.norm(x)
    torch.softmax(x, dim=-1)
    torch.cumsum(x, 0)
    torch.argmax(x, dim=1)
    torch.logical_and(b, b)
    torch.flatten(u, 1)
    torch.transpose(x, 0, 1)
    torch.permute(u, (2, 0, 1))
    torch.squeeze(x.unsqueeze(0))
    torch.unsqueeze(x, 1)
    torch.gather(x, 1, x.argsort(1))
    torch.index_select(x, 0, i)
    torch.masked_fill(x, b, 0)
    torch.tril(x)
    torch.outer(z, z)
    torch.dot(z, z)
    torch.roll(x, 1, 0)
    torch.flip(x, [0])
    torch.repeat_interleave(x, 2, dim=0)
    torch.broadcast_to(z, (3, 4))
    torch.numel(x) + x
    torch.is_tensor(x) and x + 1
    torch.is_floating_point(x) and x + 1
    torch.isfinite(x)
    torch.atleast_3d(x)
    torch.maximum(x, y)
    torch.lerp(x, y, 0.3)
    torch.special.expit(x)
    torch.linalg.norm(x)
    torch.fft.fft(x)
    F.relu(x)
    F.gelu(x)
    F.gelu(x, approximate="tanh")
    F.linear(x, m.t())
    F.linear(x, m.t(), bias=torch.zeros(5))
    F.softmax(x, dim=-1)
    F.log_softmax(x, -1)
    F.layer_norm(x, (4,))
    F.layer_norm(x, [4], weight=z, bias=z, eps=1e-3)
    F.dropout(x, 0.5, training=False)
    F.dropout(x, p=0.5)
    F.cross_entropy(x, i)
    F.mse_loss(x, y)
    F.embedding(i, m)
    F.pad(x, (1, 2))
    F.one_hot(i, 4)
    F.silu(x)
    F.normalize(x, dim=0)
    F.scaled_dot_product_attention(u, u, u)
    F.interpolate(u, scale_factor=2)
    F.max_pool1d(u, 2)
    F.avg_pool1d(u, 2)
    F.conv1d(u, torch.ones(2, 3, 2))
    F.cosine_similarity(x, y)
    F.leaky_relu(x, 0.1)
    # methods
    x.add(1)
    x.add(y, alpha=3)
    x.sum()
    x.sum(0)
    x.sum(dim=(0, 1))
    x.mean(dim=1, keepdim=True)
    x.view(4, 3)
    x.view(-1)
    x.view(2, -1)
    x.view((6, 2))
    x.view([12])
    x.view(x.size(0), 2, 2)
    x.view(x.shape)
    x.view(*x.shape, 1)
    x.view(torch.int32)
    x.reshape(-1, 2)
    x.reshape((x.shape[0] * 2, x.shape[1] // 2))
    x.flatten()
    x.t()
    x.transpose(0, 1)
    x.permute(1, 0)
    u.permute(2, 0, 1).contiguous()
    x.unsqueeze(-1).squeeze(-1)
    x.expand(2, 3, 4)
    x.expand(2, -1, -1)
    z.expand_as(x)
    x.repeat(2, 1)
    x.clone()
    x.contiguous()
    x.detach() * 2
    w.detach() * 2
    x.masked_fill(b, 1.0)
    x.softmax(-1)
    x.chunk(2)[0] + 1
    x.split(2)[1] * 2
    x.unbind(0)[2] + 1
    x.abs().sqrt().log1p()
    x.pow(2).sum().sqrt()
    x.clamp_min(0)
    x.type_as(i)
    x.norm(dim=0)
    x.matmul(m)
    x.mm(m)
    x.bool().any()
    x.eq(y).all(dim=1)
    x.argmax()
    x.cumsum(1)
    x.tril(-1)
    x.diagonal()
    x.gather(0, i.view(1, 3)[:, :1])
    x.index_select(1, i)
    x.scatter(0, torch.zeros(1, 4, dtype=torch.long), 9.0)
    x.scatter_add(0, torch.zeros(1, 4, dtype=torch.long), y)
    x.narrow(0, 1, 2)
    x.select(1, 2)
    x.new_zeros(2, 3)
    x.new_ones((2,))
    x.new_full((2,), 5)
    x.new_empty(2).fill_(1)
    x.swapaxes(0, 1)
    x.movedim(0, 1)
    x.unfold(1, 2, 1)
    x.sign().neg()
    x.nan_to_num()
    x.lerp(y, 0.5)
    torch.addmm(x, x, torch.ones(4, 4))
    # in place
    x.clone().add_(1)
    x.clone().mul_(2).sub_(y)
    x.clone().zero_()
    x.clone().fill_(3)
    x.clone().copy_(y)
    x.clone().clamp_(0, 1)
    x.clone().masked_fill_(b, 5)
    x.clone().t_()
    x.clone().unsqueeze_(0)
    torch.relu_(x.clone())
    F.relu(x.clone(), inplace=True)
    x.add_(1)
    x.add_(1).mul_(2) is x
    # dtype and device
    x.to(torch.float64)
    x.to(dtype=torch.bfloat16)
    x.to("cpu") + 1
    x.to(y) + 1
    x.to(torch.device("cpu"), torch.float16)
    x.to(x.device, non_blocking=True) + 1
    x.double()
    x.half()
    x.bfloat16().float()
    x.long()
    x.int()
    x.bool()
    x.float() + 1
    x.type(torch.float64)
    x.cpu() + 1
    x.to(i.dtype)
    x.double() + y
    i + b[:, 0]
    torch.promote_types(torch.int32, torch.float16) == torch.float16 and x + 1
    torch.result_type(x, 1) == torch.float32 and x + 1
    # facts that are numbers or objects
    x + x.shape[0]
    x + x.size(1)
    x + x.size()[0]
    x + x.size(-1) * x.dim()
    x + x.numel()
    x + x.ndim
    x + x.ndimension()
    x + x.stride(0) + x.stride()[1]
    x + len(x.shape)
    x + x.element_size()
    x + x.nbytes, x.double()[1:].nbytes
    x + x.nelement()
    x + x.shape.numel()
    x + x.storage_offset()
    x * math.sqrt(x.size(-1))
    x / x.shape[-1] ** 0.5
    (x + 1, x.shape, x.size(), tuple(x.shape), list(x.shape))
    (x + 1, x.dtype, x.device, x.layout, x.requires_grad, x.is_leaf)
    (x + 1, x.is_contiguous(), x.t().is_contiguous(), x.is_floating_point(), x.is_complex())
    (x + 1, x.dtype.is_floating_point, x.dtype.itemsize, x.device.type, x.device.index, str(x.dtype))
    (x + 1, x.is_cuda, x.is_sparse, x.is_meta, x.is_quantized)
    (w * 2, w.requires_grad, w.is_leaf, (w * 2).is_leaf, (w * 2).requires_grad)
    (x + 1, x.shape == y.shape, x.shape == (3, 4), x.dtype == torch.float32, x.dtype is y.dtype)
    (x + 1, x.shape[:-1], x.shape[-1:], x.shape + (1,), x.shape[::-1], (5,) + x.shape, torch.Size([1]) + x.shape)
    (x + 1, x.shape.index(4), x.shape.count(3), 3 in x.shape, max(x.shape), sum(x.shape), x.shape * 2)
    (x + 1, torch.Size([2, 3]), torch.Size((2, 3)).numel(), isinstance(x.shape, tuple), [*x.shape])
    (x + 1, torch.finfo(x.dtype).max, torch.finfo(torch.float16).eps, torch.iinfo(torch.int32).min)
    (x + 1, torch.get_default_dtype(), torch.is_grad_enabled(), torch.float32.is_floating_point)
    (x + 1, torch.device("cpu") == x.device, torch.device("cpu", 0).index, torch.strided)
    x.T + 1
    x.real + 1
    x.data + 1
    w.data * 2
    w.grad is None and w * 2
    x.view(x.shape[0], -1).shape[1] + x
    torch.zeros(x.shape[:-1] + (2,)) + 1
    torch.zeros(*x.shape[::-1]) @ x
    x.new_zeros(x.size(0), x.size(0)) @ x
    x.view(*x.shape[:-1], 2, x.shape[-1] // 2)
    torch.arange(x.size(1)) + x
    (lambda a, c: x.reshape(c, a))(*x.shape)
    """
)

core.lines(
    """
    # indexing with every kind of index
    x[0]
    x[-1]
    x[0, 1]
    x[1:]
    x[:, 1]
    x[:, 1:3]
    x[::2]
    x[1:, :-1]
    x[...]
    x[..., 0]
    x[0, ...]
    x[None]
    x[:, None]
    x[None, :, None]
    x[i]
    x[i, i]
    x[:, i]
    x[i, 1:]
    x[i[:, None], i]
    x[[0, 2]]
    x[[0, 2], [1, 3]]
    x[(0, 1)]
    x[True]
    x[torch.tensor([0, 1])]
    x[slice(1, 3)]
    x[slice(None), 0]
    x[n - 1]
    x[: x.size(0) - 1]
    x[:n, :k]
    x[0][1]
    u[0, :, 1]
    u[..., None, 0]
    u[:, i]
    u[:, i, i]
    u[0, i]
    u[None, 0, ..., 1:]
    u[:, [0, 1], :]
    u[-1][-1][-1]
    x.unbind()[0]
    w[0] * w[:, 1].sum()
    x[range(2)]
    """,
)


@core
def item_assignment(x, y, i, b):
    x = x.clone()
    x[0] = 1
    x[1, 2] = 5.0
    x[:, 0] = y[:, 0]
    x[i] = 7
    x[..., -1] = torch.arange(3.0)
    x[None, 2] = 3
    x[1:, 1:3] *= 2
    x[torch.tensor([0, 2]), torch.tensor([1, 1])] = torch.tensor([8.0, 9.0])
    return x


@core
def masked_assignment(x, b):
    x = x.clone()
    x[b] = 0
    x[x > 1] = 1.0
    return x


@core
def input_assignment(x, y):
    x[0] = y[0] * 2
    x[:, 1] += 1
    return x.sum()


@core
def input_mutated_through_view(x):
    x.view(-1)[::2].add_(10)
    x.t()[0].zero_()
    return x + 1


@core
def input_mutated_and_returned(x):
    x.mul_(2)
    return x


@core
def alias_is_returned(x):
    y = x.view(4, 3)
    return y, x[0], x.t()


@core(graphs=None)
def input_is_returned_as_it_is(x, y):
    return y, x, (x, [y])


@core
def same_result_twice(x):
    y = x + 1
    return y, y, [y, {"k": y}]


@core
def views_of_results(x):
    y = x * 2
    z = y.view(-1)
    y.add_(1)
    return y, z


@core
def dead_operations_go(x, y):
    unused = x @ y.t()
    unused.relu()
    return x + 1


@core
def dead_mutation_stays(x, y):
    t = y * 2
    t.add_(x)
    x.add_(1)
    return None


core.lines(
    """
    # functions with several results
    x.max(0)
    x.max(dim=1).values + 1
    x.max(1)[1]
    x.min(dim=0, keepdim=True).indices
    torch.max(x, 1)
    torch.max(x)
    torch.max(x, y)
    torch.topk(x, 2)
    x.topk(2, dim=0).values * 2
    torch.sort(x, descending=True)
    x.sort(dim=0)[0] + 1
    x.median(0)
    x.mode(0)[0]
    torch.chunk(x, 2)
    torch.split(x, [1, 2])
    torch.split(x, 2, dim=1)
    x.unbind(1)
    x.tensor_split(2)
    torch.var_mean(x, 0)
    torch.std_mean(x)
    torch.aminmax(x)
    torch.frexp(x)
    torch.meshgrid(z, z, indexing="ij")
    torch.linalg.qr(x).R.abs()
    torch.unbind(u)[0] * 2
    [t + k for k, t in enumerate(x.split(1))]
    [t.sum() for t in x.chunk(2, dim=1)]
    (lambda values, indices: values + indices)(*x.max(0))
    (lambda a, *rest: a + len(rest))(*x.unbind(0))
    sum(x.unbind(0))
    torch.cat(x.chunk(2, -1)[::-1], -1)
    len(x.split(2)) + x
    torch.stack(x.unbind(0)[1:])
    list(x.split(1))[0] + 1
    # factories
    torch.zeros(3, 4) + x
    torch.ones((3, 4), dtype=torch.float64) + x
    torch.full((3, 4), 2.5) + x
    torch.arange(4) + x
    torch.arange(0, 1, 0.25) + x
    torch.linspace(0, 1, 4) + x
    torch.eye(3) @ x
    torch.tensor(2.0) * x
    torch.tensor([1, 2, 3, 4]) * x
    torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64) * x
    torch.tensor([n, k, 1, 0]) * x
    torch.tensor(True) & b
    torch.tensor((1.5, 2)) [0] * x
    torch.zeros_like(x) + 1
    torch.ones_like(x, dtype=torch.int32)
    torch.full_like(x, 3)
    torch.empty_like(x).fill_(1)
    torch.zeros(())
    torch.zeros(0) + 1
    torch.zeros(x.shape, device=x.device, dtype=x.dtype) + x
    torch.zeros([2, x.size(0)]) @ x
    torch.scalar_tensor(3.0) * x
    torch.as_tensor([1.0, 2.0, 3.0, 4.0]) * x
    torch.as_tensor(x) + 1
    torch.empty(2, 3).zero_()
    torch.triu(torch.ones(3, 3), diagonal=1)
    torch.tril_indices(3, 3)
    torch.complex(x, y)
    torch.polar(x.abs(), y)
    torch.rand(3, 4) + x
    torch.randn(4) * x
    torch.randn_like(x) + torch.rand_like(x)
    torch.randint(0, 5, (3,)) + i
    torch.randperm(4) + x
    torch.bernoulli(torch.full((3, 4), 0.5)) * x
    torch.multinomial(torch.ones(4), 2)
    torch.normal(0.0, 1.0, (3, 4)) + x
    torch.normal(x, 1.0)
    torch.is_floating_point(input=x), torch.is_complex(x)
    x.clone().uniform_()
    x.clone().uniform_(**{"from": -1, "to": 2})
    x.clone().random_(**{"from": -3, "to": 2})
    x.clone().random_(-3, to=2)
    x.clone().normal_(0, 2)
    """
)


@core
def out_arguments(x, y):
    out = torch.empty(3, 4)
    returned = torch.add(x, y, out=out)
    torch.mul(x, 2, out=out)
    return out, returned is out


@core
def out_into_an_input(x, y):
    torch.sub(y, 1, out=x)
    return x * 2


@core
def out_pair(x):
    values, indices = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(x, 0, out=(values, indices))
    return values + indices


@core
def python_numbers_from_sizes(x):
    rows, columns = x.shape
    heads = columns // 2
    scale = 1 / heads**0.5
    padding = -rows % 4
    y = F.pad(x, (0, 0, 0, padding)).view(rows + padding, heads, -1)
    return y * scale, y.shape, divmod(rows, 2), float(rows), f"{rows}x{columns}"


@core
def size_loops(x):
    total = 0
    for row in range(x.size(0)):
        for column in range(x.size(1)):
            if (row + column) % 2:
                total = total + x[row, column]
    return total


@core
def list_of_tensors_is_reduced(x, tensors):
    while len(tensors) > 1:
        tensors = [a + c for a, c in zip(tensors[::2], tensors[1::2])]
    return tensors[0] + x


@core
def named_arguments_of_methods(x):
    return (
        x.sum(dim=0, keepdim=True),
        x.transpose(dim0=0, dim1=1),
        x.clamp(min=0, max=1),
        x.to(dtype=torch.float64, copy=True),
    )


@core
def bound_methods_of_tensors(x):
    add, view = x.add, x.view
    operations = [x.sum, x.mean, x.relu]
    return add(1), view(-1), [f() for f in operations]


@later_effects
def requires_grad_inside(x):
    y = (x * 2).detach().requires_grad_()
    return (y * 3).sum() if y.requires_grad else y


@core(x=T(3, 4, grad=True))
def detach_stops_gradient(x):
    return (x.detach() * 2 + x).sum(), x.data + 1


@core
def leaf_check(w):
    y = w * 2
    return y, w.is_leaf, y.is_leaf, w.grad_fn is None


@core(x=T(3, 4, dtype=torch.float64), y=T(3, 4, dtype=torch.float16), i=T(3, 4, dtype=torch.int32))
def mixed_dtypes(x, y, i, b):
    return x + y, y + i, y + 1, i + 1, i + 1.0, b + 1, b.sum(), i.sum(), i / i.abs().clamp_min(1), y * 2.0, x * i


@core(x=T(), y=T(1), z=T(0))
def odd_shapes(x, y, z):
    return x + y, z.sum(), z + 1, x.dim(), z.shape, x.unsqueeze(0), y.squeeze(), torch.cat([z, y])


@core(x=lambda: torch.arange(12.0).view(3, 4).t())
def transposed_input(x):
    return x + 1, x.contiguous(), x.is_contiguous(), x.stride(), x.reshape(-1), x * x.clone()


@core(x=lambda: torch.arange(12.0)[2:8:2])
def strided_input(x):
    return x + 1, x.stride(), x.storage_offset(), x.view(3, 1)


@core(x=lambda: torch.ones(4).expand(3, 4))
def expanded_input(x):
    return x + 1, x.stride(), x.contiguous()


@core(x=T(2, 3, 4, 4))
def channels_last(x):
    y = x.to(memory_format=torch.channels_last)
    return y * 2, y.is_contiguous(memory_format=torch.channels_last), y.stride()


# Right, but not node for node what torch._dynamo writes: it rewrites new_tensor to torch.tensor, reads an attribute of an
# input outside the graph, and takes a conversion that changes nothing for a second tensor.
core.lines(
    """
    x.new_tensor([1, 2])
    (x.to(torch.float32) is x, x + 1)
    u.mT
    x.H
    x[0] is x[0]
    torch.broadcast_tensors(x, z), torch.broadcast_tensors(x, z)[0] is x
    """,
    compare_dynamo=False,
)

# The result's size is in the data of the index; torch._dynamo knows the data of a tensor that the program just made.
later_effects.lines(
    """
    x[torch.tensor(1)]
    x[[True, False, True]]
    """
)


# torch._dynamo reads `x.imag` of an input outside the graph.
@core(x=T(3, dtype=torch.complex64), compare_dynamo=False)
def complex_numbers(x):
    return x * 2j, x.real + 1, x.imag, x.conj() * x, x.abs(), torch.view_as_real(x) + 1


@core
def comparisons_of_tensors_by_identity(x, y):
    return x + 1, x is y, x is x, y is not x, x is None, x is not None


@core
def tensor_as_default_and_in_closure(x):
    scale = x.sum()
    return (lambda t, s=scale: t * s + scale)(x)


@core(p=lambda: torch.nn.Parameter(torch.ones(4)), fresh=False)
def tensor_subclass_parameter(x, p):
    return x * p, isinstance(p, torch.nn.Parameter), isinstance(p, torch.Tensor), type(p) is torch.nn.Parameter


# Operations that need data, change metadata of inputs or raise.


later_effects.lines(
    """
    x.sum().item() + x
    x.tolist()
    x.nonzero()
    x[x > 0]
    torch.unique(i)
    x.numpy().shape
    bool(x.sum() > 0)
    x if x.sum() > 0 else -x
    torch.tensor([x.sum(), 1.0])
    torch.equal(x, y)
    torch.allclose(x, x)
    torch.ones(2, requires_grad=True) * 2
    ((w * 2).grad_fn is not None, (w * 2).grad_fn.name())
    x.masked_select(b) + 1
    [x + 1, x @ x]
    [x + 1, x.view(5)]
    [x + 1, x + torch.ones(7)]
    [x + 1, x[9]]
    [x + 1, torch.cat([])]
    [x + 1, x.missing]
    [x + 1, torch.missing]
    [x + 1, x.sum(dim=5)]
    [x + 1, torch.relu(x, 1, 2)]
    [x + 1, torch.relu("text")]
    [x + 1, F.linear(x, x)]
    [x + 1, x.to("nowhere")]
    [x + 1, len(x.sum())]
    [x + 1, x.size(7)]
    x.data_ptr() == x.data_ptr()
    hash(x) == hash(x)
    torch.from_numpy(x.numpy()) + 1
    copy.copy(x) + copy.deepcopy(x)
    torch.nn.Parameter(x) * 2
    """
)


@later_effects
def resizes_input(x):
    x.unsqueeze_(0)
    return x + 1


@later_effects
def sets_requires_grad_of_input(x):
    x.requires_grad_()
    return (x * 2).sum()


@later_effects
def sets_attribute_of_tensor(x):
    y = x + 1
    y.tag = "mine"
    return y


@later_effects
def sets_data(x, y):
    x.data = y * 2
    return x + 1


@later_effects
def runs_backward_inside(w):
    loss = (w * 2).sum()
    loss.backward()
    return w.grad + 1


@later_effects
def autograd_grad_inside(w):
    (grad,) = torch.autograd.grad((w * w).sum(), w)
    return grad * 2


@later_effects
def error_is_caught(x):
    try:
        return x @ x
    except RuntimeError as error:
        return x + 1, str(error)


@later_effects
def leaf_modified_in_place(w):
    w.add_(1)
    return w


@later_effects
def seeds_inside(x):
    torch.manual_seed(5)
    return torch.rand(3, 4) + x


test_programs = corpus.test()
