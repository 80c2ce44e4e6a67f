"""Other code of training loops: state keyed by parameter, a step of an optimizer."""

import textwrap

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

BY_TENSOR = {
    "not_there": """
        def f(x):
            known = FIRST in STATE, SECOND in STATE, STATE.get(SECOND, 5)
            return x + len(STATE), known
        """,
    "made_when_missing": """
        def f(x):
            if SECOND not in STATE:
                STATE[SECOND] = {"step": 0}
            STATE[SECOND]["step"] += 1
            return x * STATE[SECOND]["step"]
        """,
    "default": """
        KEPT = collections.defaultdict(dict)
        def f(x):
            for p in (FIRST, SECOND):
                state = KEPT[p]
                if len(state) == 0:
                    state["sum"] = torch.zeros_like(p)
                state["sum"].add_(p.detach() * x.detach())
            return x + KEPT[FIRST]["sum"]
        """,
    "beside_other_keys": """
        def f(x):
            STATE.setdefault("name", 1)
            STATE[3] = x.shape[0]
            return x * 2, SECOND in STATE, STATE["name"]
        """,
}
PARAMETERS = """
import collections
torch.manual_seed(0)
FIRST, SECOND = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 2.0))
STATE = {FIRST: {"step": 1}}
"""
CHANGES = ["STATE[SECOND] = {'step': 7}", "STATE.clear()", "SECOND = FIRST"]


@pytest.mark.parametrize("name", BY_TENSOR)
def test_kept_by_tensor(name: str) -> None:
    same(
        Source(PARAMETERS + textwrap.dedent(BY_TENSOR[name])),
        T(3, grad=True),
        mutate=CHANGES,
        stateful=True,
        compare_dynamo=False,
    )


def test_a_number_like_the_id_of_a_tensor() -> None:
    """Such a key is compared with the tensor, element by element."""
    tensor, state = torch.ones(3), {}
    compiled = stator.compile(lambda x: x + (tensor in state), backend="eager")
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3))
    state[id(tensor)] = 1
    with pytest.raises(RuntimeError, match="ambiguous"):
        compiled(torch.ones(3))
    del state[id(tensor)]
    state[tensor.clone()] = 1
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3))
    stator.reset()


QUOTIENTS = {
    "in_place": "y = x.clone()\n    y.addcdiv_(A, B, value=-STEP / 3)\n    return y",
    "new": "return torch.addcdiv(x, A, B, value=STEP), x.addcdiv(A, B, value=STEP.double())",
    "number": "return x.addcdiv(A, B, value=0.5)",
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_addcdiv_by_a_tensor(name: str) -> None:
    text = f"A, B, STEP = torch.tensor([1.0, 2, 3]), torch.tensor([7.0, 8, 9]), torch.tensor(0.3)\ndef f(x):\n    {QUOTIENTS[name]}"
    same(Source(text), T(3), mutate=["STEP = torch.tensor(0.7)"], compare_dynamo=False)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {},
    "AdamW": {"amsgrad": True},
    "AdamW fused": {"fused": True},
    "Adamax": {},
    "NAdam": {},
    "RMSprop": {},
    "Adagrad": {},
}


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "eager") for name in OPTIMIZERS), ("Adam", "aot_eager"), ("AdamW fused", "aot_eager")],
)
def test_steps(name: str, backend: str) -> None:
    """A compiled step changes parameters and state as the uncompiled optimizer does, and is not captured again."""

    def train(compiled: bool) -> tuple:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = getattr(torch.optim, name.split()[0])(model.parameters(), lr=0.01, **OPTIMIZERS[name])
        step = stator.compile(optimizer.step, backend=backend) if compiled else optimizer.step
        captures = []
        for number in range(4):
            optimizer.zero_grad()
            model(torch.full((3, 4), number + 1.0)).square().mean().backward()
            with stator.watch() as report:
                step()
            assert not [broken for broken in report.breaks if broken.kind == "internal-error"]
            captures.append(len(report.captures))
        return list(model.parameters()), optimizer.state_dict()["state"], captures

    expected, actual = train(False), train(True)
    # If `is_compiling()` is True, optimizers count their steps in tensors, with the rounding of those.
    torch.testing.assert_close(actual[:2], expected[:2], rtol=1e-4, atol=1e-5)
    assert actual[2][0] > 0
    assert actual[2][2:] == [0, 0]
    stator.reset()


# ---- Steps of optimizers by operations on lists of tensors ---------------------------------------------------------
ON_LISTS = {
    "AdamW": [{}, {"amsgrad": True}, {"maximize": True}],
    "Adam": [{}, {"weight_decay": 0.1}],
    "SGD": [{"momentum": 0.9}, {"lr": "tensor"}, {"momentum": 0.9, "nesterov": True, "lr": 0.1}],
    "RMSprop": [{}, {"momentum": 0.5}],
    "Adagrad": [{}],
}
CASES = [(name, options, foreach) for name, cases in ON_LISTS.items() for options in cases for foreach in (True, False)]


def on_lists(name: str, options: dict, foreach: bool):
    parameters = [torch.nn.Parameter(torch.arange(1.0, 4.0)), torch.nn.Parameter(torch.ones(2, 2))]
    given = {key: torch.tensor(0.1) if value == "tensor" else value for key, value in options.items()}
    return parameters, getattr(torch.optim, name)(parameters, foreach=foreach, **given)


@pytest.mark.parametrize(("name", "options", "foreach"), CASES)
def test_steps_on_lists(name: str, options: dict, foreach: bool) -> None:
    def scenario(compile, note):
        parameters, optimizer = on_lists(name, options, foreach)
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
    parameters, optimizer = on_lists(name, {}, True)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    report = stator.explain(lambda: optimizer.step())()
    assert "an operation raises" not in str(report)


# ---- The state of an optimizer, which its first step makes -----------------------------------------------------------
def counted_steps(compile, optimizer: torch.optim.Optimizer) -> list[int]:
    """The operations of each graph of four compiled steps."""
    sizes = []

    def backend(graph, inputs):
        sizes.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph

    step = compile(optimizer.step, backend=backend)
    for number in range(4):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.ones_like(parameter) * (number + 1)
        step()
    return sizes


def two_groups(name: str, **options) -> torch.optim.Optimizer:
    groups = [{"params": [torch.nn.Parameter(torch.arange(1.0, 4.0))]}, {"params": [torch.nn.Parameter(torch.ones(2))]}]
    return getattr(torch.optim, name)(groups, **options)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "Adagrad"])
@pytest.mark.parametrize("by_torch", [False, True])
def test_all_steps_are_one_graph(name: str, by_torch: bool) -> None:
    """The same with torch.compile, which marks the function that makes the state with torch.compiler.disable."""
    ours, theirs = two_groups(name), two_groups(name)
    if by_torch:
        with stator.installed():
            sizes = counted_steps(torch.compile, ours)
        torch._dynamo.reset()
        assert len(counted_steps(torch.compile, theirs)) == 1
    else:
        sizes = counted_steps(stator.compile, ours)
        counted_steps(lambda step, backend: step, theirs)
    assert len(sizes) == 1
    for one, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        torch.testing.assert_close(one["params"], other["params"], rtol=1e-5, atol=1e-6)
    left, right = ours.state_dict()["state"], theirs.state_dict()["state"]
    assert list(left) == list(right)
    for key in left:
        assert list(left[key]) == list(right[key])
        torch.testing.assert_close(list(left[key].values()), list(right[key].values()), rtol=1e-5, atol=1e-6)
    stator.reset()


def steps_with(change):
    """A scenario: two steps, a change of the optimizer, two steps."""

    def scenario(compile, note):
        optimizer = two_groups("Adam", lr=0.1)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        step = compile(lambda: optimizer.step())
        for number in range(4):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter) * (number + 1)
            if number == 2:
                change(optimizer, parameters)
            note(step)
            note.value([parameter.detach() for parameter in parameters])
            note.value(
                [list(optimizer.state[parameter].items()) for parameter in parameters if parameter.grad is not None]
            )

    return scenario


def forget_state(optimizer, parameters) -> None:
    optimizer.state.clear()


def forget_one(optimizer, parameters) -> None:
    del optimizer.state[parameters[1]]


def load_state(optimizer, parameters) -> None:
    optimizer.load_state_dict(two_groups_after_a_step().state_dict())


def two_groups_after_a_step() -> torch.optim.Optimizer:
    optimizer = two_groups("Adam", lr=0.1)
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.full_like(group["params"][0], 2.0)
    optimizer.step()
    return optimizer


def drop_gradient(optimizer, parameters) -> None:
    parameters[0].grad = None


def freeze(optimizer, parameters) -> None:
    parameters[1].requires_grad_(False)


def add_group(optimizer, parameters) -> None:
    parameters.append(torch.nn.Parameter(torch.full((2, 2), 3.0)))
    parameters[-1].grad = torch.ones(2, 2)
    optimizer.add_param_group({"params": [parameters[-1]]})


@pytest.mark.parametrize("change", [forget_state, forget_one, load_state, drop_gradient, freeze, add_group])
def test_state_changes_between_steps(change) -> None:
    same_scenario(steps_with(change), "eager", tolerance=1e-5)


def test_a_step_that_refuses_gradients() -> None:
    """The exception comes from the call in the program, after the steps of the groups before."""

    def scenario(compile, note):
        optimizer = two_groups("Adam", lr=0.1)
        parameters = [group["params"][0] for group in optimizer.param_groups]
        parameters[0].grad = torch.ones_like(parameters[0])
        parameters[1].grad = torch.ones(2).to_sparse()
        step = compile(lambda: optimizer.step())
        for _ in range(2):
            note(step)
            note.value([parameter.detach() for parameter in parameters])
            note.value([list(optimizer.state[parameter].items()) for parameter in parameters])

    same_scenario(scenario, "eager", tolerance=1e-5)


def test_state_is_made_from_the_parameters_as_they_are() -> None:
    """ASGD keeps a copy of its parameters: what the program has written to them before the step is part of it."""

    def scenario(compile, note):
        optimizer = two_groups("ASGD", lr=0.1)
        parameters = [group["params"][0] for group in optimizer.param_groups]

        def program():
            with torch.no_grad():
                parameters[0].mul_(2)
                parameters[1].mul_(3)
            optimizer.step()

        step = compile(program)
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            note(step)
            note.value([parameter.detach() for parameter in parameters])
            note.value([list(optimizer.state[parameter].items()) for parameter in parameters])

    same_scenario(scenario, "eager", tolerance=1e-5)
