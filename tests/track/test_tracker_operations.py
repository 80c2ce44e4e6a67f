"""Operation by operation: the same as torch's tracker where that one is correct, the correct answer stated where it is
not."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.module_tracker import ModuleTracker as TorchTracker

import stator
from tests.track.watching import Block, Net, Seen, both, lines, watch

X = torch.ones(3, 4)


def step(model, x=None, **kwargs):
    return lambda: model(X if x is None else x, **kwargs).sum().backward()


def without_views(seen: list[Seen]) -> list[Seen]:
    # torch's tracker adds a view for each leaf that it watches; gradients of biases have views of their own.
    return [each for each in seen if each.operation != "view"]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + self.body(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).T, -1) @ self.value(x)


@pytest.mark.parametrize(
    "make",
    [Net, Block, Residual, lambda: nn.Sequential(Residual(), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Block())],
    ids=["net", "block", "residual", "nested"],
)
def test_forward_and_backward_as_torch_tells_them(make):
    """With an input that was computed: torch's tracker ends a module's backward where its inputs got their gradients."""

    def program():
        model, x = make(), torch.ones(3, 4, requires_grad=True)
        return lambda: model(x.sin()).sum().backward()

    ours, theirs = both(program)
    assert without_views(ours) == without_views(theirs)
    assert any(each.is_bw for each in ours) and len({each.parents for each in ours}) > 3


def test_no_operation_is_added():
    plain = watch(step(Net()), tracker=_Silent())
    assert [each.operation for each in watch(step(Net()))] == [each.operation for each in plain]


class _Silent:
    parents, is_bw = (), False

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


def test_parts_that_run_side_by_side():
    """torch's tracker keeps a module until all its inputs have gradients: the parts of an attention overlap in it."""
    seen = watch(step(nn.Sequential(Attention())))
    assert lines(seen, "mm") == "\n".join(
        [
            "> mm: Sequential Sequential.0",
            "> mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0 Sequential.0.value",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0 Sequential.0.key",
            "< mm: Sequential Sequential.0 Sequential.0.query",
        ]
    )


def test_inputs_that_need_no_gradient():
    """The backward of the first layer ends, and what comes after it in backward is not in it."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.left(x) * self.right(x)

    assert lines(watch(step(Two())), "mm", "mul") == "\n".join(
        [
            "> mul: Two",
            "< mul: Two",
            "< mul: Two",
            "< mm: Two Two.right",
            "< mm: Two Two.left",
        ]
    )


def test_called_several_times_before_one_backward():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.other(self.layer(x)))

    assert lines(watch(step(Twice())), "addmm", "mm") == "\n".join(
        [
            "> addmm: Twice Twice.layer",
            "> addmm: Twice Twice.other",
            "> addmm: Twice Twice.layer",
            "< mm: Twice Twice.layer",
            "< mm: Twice Twice.layer",
            "< mm: Twice Twice.other",
            "< mm: Twice Twice.other",
            "< mm: Twice Twice.layer",
        ]
    )


def test_a_module_that_calls_itself():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, times=2):
            x = self.layer(x)
            return self(x, times - 1).sin() if times else x

    seen = watch(step(Again()))
    assert lines(seen, "addmm", "sin", "mm", "cos") == "\n".join(
        [
            "> addmm: Again Again.layer",
            "> addmm: Again Again.layer",
            "> addmm: Again Again.layer",
            "> sin: Again",
            "> sin: Again",
            "< cos: Again",
            "< cos: Again",
            "< mm: Again Again.layer",
            "< mm: Again Again.layer",
            "< mm: Again Again.layer",
            "< mm: Again Again.layer",
            "< mm: Again Again.layer",
        ]
    )


def test_retain_graph():
    model = Block()

    def program():
        loss = model(X).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    backward = [each for each in watch(program) if each.is_bw and each.operation != "add_"]
    first, second = backward[: len(backward) // 2], backward[len(backward) // 2 :]
    names = [(each.operation, each.parents) for each in first if each.operation in ("mm", "threshold_backward")]
    assert names == [
        (each.operation, each.parents) for each in second if each.operation in ("mm", "threshold_backward")
    ]
    assert names[0] == ("mm", {"Global", "Block", "Block.second"})


def test_gradients_that_are_added_belong_to_the_module_that_gave_them():
    model = Block()
    step(model)()
    assert lines(watch(step(model)), "add_") == "\n".join(
        ["< add_: Block Block.second"] * 2 + ["< add_: Block Block.first"] * 2
    )


def test_leaves_right_at_the_start_of_a_pass():
    """Where the first node gives a gradient to a leaf, and where the leaf itself is the start."""

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weight = nn.Linear(4, 4), nn.Parameter(torch.ones(3, 4))

        def forward(self, x):
            self.weight.backward(X)
            return self.layer(x)

    model, paths = Part(), []
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: paths.append(tracker.path))
    with stator.ModuleTracker() as tracker:
        model(X).backward(X)
    assert paths == ["Part", "Part.layer", "Part.layer"]


def test_hooks_on_parameters_know_their_module():
    """Nothing else reads the tracker during this backward."""
    model, paths = Net(), []
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: paths.append(tracker.path))
        parameter.register_post_accumulate_grad_hook(lambda parameter: paths.append(tracker.path))
    with stator.ModuleTracker() as tracker:
        step(model)()
    leaves = ["Net.head", "Net.tail.0"]
    leaves += [f"Net.layers.{layer}.{name}" for layer in (1, 0) for name in ("second", "first")]
    assert paths == [path for path in leaves for _ in range(4)]


def test_double_backward():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.ones(3, 4, requires_grad=True)

    def program():
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()

    assert lines(watch(program), "mm", "tanh_backward", "pow", "tanh") == "\n".join(
        [
            "> tanh: Sequential Sequential.1",
            # The gradient, itself recorded.
            "< mm: Sequential Sequential.2",
            "< tanh_backward: Sequential Sequential.1",
            "< mm: Sequential Sequential.0",
            "> pow:",
            # The gradient of the gradient: each part belongs to the module that its first gradient was of.
            "< pow:",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0",
            "< tanh_backward: Sequential Sequential.1",
            "< mm: Sequential Sequential.2",
            "< tanh_backward: Sequential Sequential.1",
            "< mm: Sequential Sequential.0",
            "< mm: Sequential Sequential.0",
        ]
    )


def test_gradient_inside_of_a_forward():
    class Penalty(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            x = x.requires_grad_()
            (gradient,) = torch.autograd.grad(self.inner(x).sum(), x, create_graph=True)
            return gradient.cos()

    seen = watch(step(Penalty(), torch.ones(2, 4)))
    assert lines(seen, "addmm", "mm", "cos", "sin") == "\n".join(
        [
            "> addmm: Penalty Penalty.inner",
            "< mm: Penalty Penalty.inner",
            "> cos: Penalty",
            "< sin: Penalty",
            "< mm: Penalty Penalty.inner",
        ]
    )


def test_without_gradients():
    model = Net(blocks=1)
    with torch.no_grad():
        ours, theirs = both(lambda: lambda: model(X))
        assert ours == theirs and len(ours) > 5
    with torch.inference_mode():
        seen = watch(lambda: model(X))
    # Inference dispatches some operations before they are decomposed; the parents are the same.
    assert {each.parents for each in seen} == {each.parents for each in ours}


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["saved tensors", "reentrant"])
def test_checkpointed_modules(use_reentrant):
    """Recomputed operations belong to the modules that compute them, not to those whose gradient triggered it."""

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=use_reentrant))

    seen = watch(step(Checkpointed(), torch.ones(3, 4, requires_grad=True)))
    block = "Checkpointed Checkpointed.block"
    recomputed = [f"< addmm: {block} {block.split()[1]}.first", f"< relu: {block}"]
    assert [line for line in lines(seen, "addmm", "relu").splitlines() if line.startswith("<")][:2] == recomputed
    assert lines(seen, "mm", "threshold_backward") == "\n".join(
        ["< mm: Checkpointed Checkpointed.head"] * 2
        + [f"< mm: {block} {block.split()[1]}.second"] * 2
        + [f"< threshold_backward: {block}"]
        + [f"< mm: {block} {block.split()[1]}.first"] * 2
    )
    assert all(each.is_bw for each in seen[[each.operation for each in seen].index("mm") :])


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["saved tensors", "reentrant"])
def test_a_checkpointed_function_and_a_checkpointed_root(use_reentrant):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(lambda x: self.layer(x.sin()).cos(), x, use_reentrant=use_reentrant)

    seen = watch(step(nn.Sequential(Part()), torch.ones(3, 4, requires_grad=True)))
    part = "Sequential Sequential.0"
    assert f"< addmm: {part} {part.split()[1]}.layer" in lines(seen).splitlines()
    backward = lines(seen, "mm", "threshold_backward")
    assert backward == "\n".join([f"< mm: {part} {part.split()[1]}.layer"] * 2)
    # The gradient of `sin` is a product with a cosine; it is not in the layer.
    assert lines(seen, "mul").splitlines()[-1] == f"< mul: {part}"

    model = Block()
    seen = watch(
        lambda: checkpoint(model, torch.ones(3, 4, requires_grad=True), use_reentrant=use_reentrant).sum().backward()
    )
    assert {each.parents for each in seen if each.operation == "addmm" and each.is_bw} <= {
        frozenset({"Global", "Block", "Block.first"}),
        frozenset({"Global", "Block", "Block.second"}),
    }
    assert lines(seen, "mm") == "\n".join(["< mm: Block Block.second"] * 2 + ["< mm: Block Block.first"] * 2)


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["saved tensors", "reentrant"])
def test_a_checkpointed_function_is_computed_again_where_it_was_called(use_reentrant):
    """The last layer asks first; what the function does outside of modules is not in that one. Nor is what a checkpointed
    function does that is called by it."""

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

        def again(self, function, x):
            return checkpoint(function, x, use_reentrant=use_reentrant)

        def forward(self, x):
            return self.again(self.outer, x)

        def outer(self, x):
            return self.last(self.again(self.inner, x.sin()).tanh())

        def inner(self, x):
            return self.first(x.exp()).relu()

    seen = watch(step(nn.Sequential(Part()), torch.ones(3, 4, requires_grad=True)))
    again = [each for each in seen if each.is_bw and each.operation in ("sin", "exp", "tanh", "relu")]
    assert {each.operation for each in again} == {"sin", "exp", "tanh", "relu"}
    assert {each.parents for each in again} == {frozenset({"Global", "Sequential", "Sequential.0"})}
    layers = {each.parents - {"Global", "Sequential", "Sequential.0"} for each in seen if each.operation == "mm"}
    assert layers == {frozenset({"Sequential.0.first"}), frozenset({"Sequential.0.last"})}


def test_torchs_tracker_is_confused_where_this_one_is_not():
    """Why the truth is stated here and not taken from torch: an exception leaves a parent behind in its tracker."""

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError

    def program():
        with pytest.raises(ValueError):
            model(X)
        X.sin()

    model = nn.Sequential(Fails())
    assert lines(watch(program, TorchTracker()), "sin") == "> sin: Sequential Sequential.0"
    assert lines(watch(program), "sin") == "> sin:"


GRADIENT_OF_GRADIENT = """
< pow:
< mm: Sequential Sequential.0
< mm: Sequential Sequential.0
< tanh_backward: Sequential Sequential.1
< mm: Sequential Sequential.2
< tanh_backward: Sequential Sequential.1
< mm: Sequential Sequential.0
< mm: Sequential Sequential.0
""".strip()


@torch.jit.script
def scripted_gradient(loss: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    gradient = torch.autograd.grad([loss], [x], create_graph=True)[0]
    assert gradient is not None
    return gradient


def native_gradient(loss, x):
    torch.ops.aten._backward(loss, [x], None, True, True)
    gradient, x.grad = x.grad, None
    return gradient


@pytest.mark.parametrize("first_gradient", [native_gradient, scripted_gradient], ids=["an operator", "TorchScript"])
def test_double_backward_that_cpp_code_starts(first_gradient):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.ones(3, 4, requires_grad=True)
    seen = watch(lambda: first_gradient(model(x).sum(), x).square().sum().backward())
    assert lines(seen, "mm", "tanh_backward", "pow").endswith(GRADIENT_OF_GRADIENT)
