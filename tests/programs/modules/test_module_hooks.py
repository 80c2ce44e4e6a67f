"""Hooks of modules: every kind, in order, with effects, before and after compiling, of one module and of all."""

import pytest
import torch
import torch.nn as nn
from torch.nn.modules import module as registry

from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import Source, T, same

HEAD = """
log = []
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x, by=2):
        return self.layer(x) * by
f = Model()
"""

HOOKS = {
    "forward": "f.layer.register_forward_hook(lambda m, a, o: log.append(tuple(o.shape)))",
    "forward that replaces": "f.layer.register_forward_hook(lambda m, a, o: o * 3)",
    "forward of the model itself": "f.register_forward_hook(lambda m, a, o: log.append(len(a)) or (o, 5))",
    "forward with kwargs": "f.register_forward_hook(lambda m, a, k, o: log.append(dict(k)) or o + 1, with_kwargs=True)",
    "pre": "f.layer.register_forward_pre_hook(lambda m, a: log.append(len(a)))",
    "pre that replaces": "f.layer.register_forward_pre_hook(lambda m, a: (a[0] * 2,))",
    "pre that gives no tuple": "f.layer.register_forward_pre_hook(lambda m, a: a[0] * 2)",
    "pre with kwargs": "f.register_forward_pre_hook(lambda m, a, k: (a, {**k, 'by': 5}), with_kwargs=True)",
    "pre with kwargs, nothing given": "f.register_forward_pre_hook(lambda m, a, k: log.append(list(k)), with_kwargs=True)",
    "order": "[f.layer.register_forward_hook(lambda m, a, o, k=k: log.append(k) or o + k, prepend=k == 2) for k in range(4)]",
    "order before": "[f.layer.register_forward_pre_hook(lambda m, a, k=k: log.append(k), prepend=k % 2 == 0) for k in range(4)]",
    "always called": "f.register_forward_hook(lambda m, a, o: log.append('always'), always_call=True)",
    "removes itself": """
def once(m, a, o):
    log.append('once')
    _handle.remove()
_handle = f.layer.register_forward_hook(once)""",
    "reads the module": "f.layer.register_forward_hook(lambda m, a, o: o + m.weight.sum() * m.in_features)",
    "changes the module": "f.layer.register_forward_hook(lambda m, a, o: setattr(m, 'seen', getattr(m, 'seen', 0) + 1))",
    "a method": """
class Keeps:
    def __init__(self): self.outputs = []
    def __call__(self, m, a, o): self.outputs.append(o)
keeps = Keeps()
f.layer.register_forward_hook(keeps)""",
    "a partial": "f.layer.register_forward_hook(functools.partial(lambda name, m, a, o: log.append(name), 'layer'))",
}
CHANGE_WHAT_THEY_READ = {"removes itself", "changes the module"}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks(name):
    # torch._dynamo has the inputs in another order where there are hooks, or breaks.
    same(
        Source(HEAD + HOOKS[name]), T(2, 4), kwargs={"by": 3}, stateful=name in CHANGE_WHAT_THEY_READ,
        compare_dynamo=False,
    )  # fmt: skip


ADDED = {
    "forward": ["WORLD.handle = f.layer.register_forward_hook(lambda m, a, o: log.append('f') or o * 2)", "WORLD.handle.remove()"],
    "pre": ["WORLD.handle = f.register_forward_pre_hook(lambda m, a: log.append('p'))", "WORLD.handle.remove()"],
    "another in front": [
        "f.layer.register_forward_hook(lambda m, a, o: log.append(1) or o * 2)",
        "WORLD.handle = f.layer.register_forward_hook(lambda m, a, o: log.append(0) or o + 1, prepend=True)", "WORLD.handle.remove()",
    ],
    "full backward": ["WORLD.handle = f.layer.register_full_backward_hook(lambda m, i, o: log.append(len(i)))", "WORLD.handle.remove()"],
    "full backward pre": ["WORLD.handle = f.layer.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))", "WORLD.handle.remove()"],
    "replaced": ["f.layer.register_forward_hook(lambda m, a, o: o + 1)", "f.layer._forward_hooks[next(iter(f.layer._forward_hooks))] = lambda m, a, o: o + 2"],
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_hooks_added_and_removed_after_compiling(name):
    same(Source(HEAD), T(2, 4, grad=True), mutate=ADDED[name], compare_dynamo=False, fullgraph="backward" not in name)


BACKWARD = {
    "full backward": "f.layer.register_full_backward_hook(lambda m, i, o: log.append((len(i), len(o))))",
    "full backward that replaces": "f.layer.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))",
    "full backward pre": "f.layer.register_full_backward_pre_hook(lambda m, o: (o[0] * 3,))",
    "both": """
f.layer.register_full_backward_hook(lambda m, i, o: log.append('after'))
f.layer.register_full_backward_pre_hook(lambda m, o: log.append('before'))""",
    "of the model": "f.register_full_backward_hook(lambda m, i, o: log.append(type(m).__name__))",
    "of several modules, in order": """
for name, module in f.named_modules():
    module.register_full_backward_hook(lambda m, i, o, name=name: log.append(name))""",
    "keeps gradients": "f.layer.register_full_backward_hook(lambda m, i, o: log.append(o[0].sum()))",
    "not full": "f.layer.register_backward_hook(lambda m, i, o: log.append((len(i), len(o))))",
    "not full, replaces": "f.layer.register_backward_hook(lambda m, i, o: (i[0] * 2, *i[1:]))",
}


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", BACKWARD)
def test_backward_hooks(name, backend):
    same(Source(HEAD + BACKWARD[name]), T(2, 4, grad=True), fullgraph=False, calls=3, backend=backend, tolerance=1e-5)


@pytest.mark.parametrize(
    "register, hook",
    [
        (registry.register_module_forward_pre_hook, lambda m, a: (a[0] + 1,)),
        (registry.register_module_forward_hook, lambda m, a, o: o * 2),
        (registry.register_module_full_backward_hook, lambda m, i, o: (i[0] * 2,)),
        (registry.register_module_full_backward_pre_hook, lambda m, o: (o[0] * 2,)),
    ],
    ids=["forward pre", "forward", "full backward", "full backward pre"],
)
def test_hooks_of_all_modules(register, hook):
    """Added after compiling, and removed again: each time the result is that of the uncompiled program."""
    reset()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    recorder = Recorder()
    compiled = compile(module, backend=recorder, fullgraph=False)

    def run(call):
        module.zero_grad()
        x = torch.linspace(0, 1, 8).view(2, 4).requires_grad_()
        y = call(x)
        y.sum().backward()
        return y.detach(), x.grad, module[0].weight.grad.clone()

    def check():
        for _ in range(2):
            for ours, theirs in zip(run(compiled), run(module), strict=True):
                torch.testing.assert_close(ours, theirs)

    check()
    plain = run(module)
    handle = register(hook)
    try:
        check()
        assert any(not torch.equal(a, b) for a, b in zip(plain, run(module), strict=True)), "the hook changes something"
    finally:
        handle.remove()
    before = recorder.count
    check()
    if CAPTURES:
        assert before >= 1 and recorder.count == before, "back to what was captured first"
    reset()


CHANGE_HOOKS = {
    "removes another one that comes later": """
def first(m, a, o):
    log.append('first')
    _later.remove()
f.layer.register_forward_hook(first)
_later = f.layer.register_forward_hook(lambda m, a, o: log.append('later'))""",
    "adds one to the same module": """
def first(m, a, o):
    log.append('first')
    if len(log) < 3: m.register_forward_hook(lambda m, a, o: log.append('added') or o + 1)
f.layer.register_forward_hook(first)""",
    "two that raise, one called always": """
def first(m, a, o):
    log.append('first')
    raise KeyError('first')
def second(m, a, o):
    log.append('second')
    raise KeyError('second')
f.layer.register_forward_hook(first)
f.layer.register_forward_hook(second, always_call=True)""",
    "added and removed inside": """
class Around(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
    def forward(self, x):
        with self.model.layer.register_forward_pre_hook(lambda m, a: log.append('inside') or (a[0] * 2,)):
            y = self.model(x)
        return y + self.model(x)
f = Around(f)""",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", CHANGE_HOOKS)
def test_hooks_that_change_hooks(name, backend):
    same(
        Source(HEAD + CHANGE_HOOKS[name]), T(2, 4, grad=True), fullgraph=False, calls=3, stateful=True, backend=backend,
        tolerance=1e-5, compare_dynamo=False,
    )  # fmt: skip


def test_order_of_all_kinds():
    same(
        Source(HEAD + """
def f(x, model=f):
    return model(x)
model = f.__defaults__[0]
for place in (model, model.layer):
    place.register_forward_pre_hook(lambda m, a: log.append(('pre', type(m).__name__)))
    place.register_forward_hook(lambda m, a, o: log.append(('post', type(m).__name__)))
    place.register_forward_hook(lambda m, a, k, o: log.append(('kwargs', len(k))), with_kwargs=True)
"""),
        T(2, 4), compare_dynamo=False,
    )  # fmt: skip


def test_an_error_inside_with_a_hook_that_is_always_called():
    same(
        Source("""
log = []
class Model(nn.Module):
    def forward(self, x): raise ValueError('no')
model = Model()
model.register_forward_hook(lambda m, a, o: log.append('always'), always_call=True)
model.register_forward_hook(lambda m, a, o: log.append('never'))
def f(x):
    x = x + 1
    try: model(x)
    except ValueError as error: return x * 2, str(error)
"""),
        T(2, 4), fullgraph=False, compare_dynamo=False,
    )  # fmt: skip
