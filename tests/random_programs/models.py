"""A random model: classes of modules put together from features, and steps that change the model between calls.

A feature is what a user writes into a module: lines for `__init__`, one of several ways to use it in `forward`, lines
for the class, and changes that somebody may make to it later. In its texts `{i}` is a number that no other feature of
the class has, `{m}` the way to an instance, `{C}` the name of the class, `{sub}` a module, `{n}` a small number.
"""

import random
from dataclasses import dataclass

from .choices import chances

PREAMBLE = """\
SEEN = []
HANDLES = []
def pre_hook(module, args):
    SEEN.append(type(module).__name__)
    return (args[0] + 1,)
def quiet_pre_hook(module, args):
    SEEN.append(len(args))
def named_pre_hook(module, args, kwargs):
    SEEN.append(sorted(kwargs))
    return (args[0] - 1, *args[1:]), kwargs
def hook(module, args, result):
    return result * 2 if torch.is_tensor(result) else None
def quiet_hook(module, args, result):
    SEEN.append(module.training)
def named_hook(module, args, kwargs, result):
    SEEN.append(len(kwargs))
def backward_hook(module, grad_input, grad_output):
    SEEN.append(len(grad_output))
def backward_pre_hook(module, grad_output):
    return tuple(g and g * 2 if g is None else g * 2 for g in grad_output)
def counted(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        SEEN.append(function.__name__)
        return function(self, *args, **kwargs)
    return wrapper
class Doubled(torch.nn.Module):
    def forward(self, t):
        return t * 2
    def right_inverse(self, t):
        return t / 2
class Config:
    def __init__(self):
        self.scale, self.depth, self.names = 2.0, 1, ['a', 'b']
"""


@dataclass
class Feature:
    init: str = ""
    forward: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    members: str = ""
    weight: int = 2


FEATURES = [
    Feature(
        "self.w{i} = torch.nn.Parameter(torch.tensor([1.0, 2.0, -1.0]))",
        ("t = t * self.w{i}", "t = t + self._parameters['w{i}']", "t = t * getattr(self, 'w{i}', 1)",
         "t = t * self.get_parameter('w{i}')", "if self.w{i} is not None:\n    t = t + self.w{i}",
         "t = t * (self.w{i} if self.w{i}.requires_grad else 3)", "with torch.no_grad():\n    self.w{i}.mul_(1.5)\nt = t + self.w{i}"),
        ("{m}.w{i} = torch.nn.Parameter(torch.ones(3))", "{m}.w{i}.requires_grad_(False)", "{m}.w{i}.data = torch.full((3,), 2.0)",
         "{m}.w{i}.data = torch.ones(1)", "{m}.w{i} = None", "del {m}.w{i}", "{m}.w{i}.detach_()", "{m}._parameters['w{i}'] = torch.nn.Parameter(torch.zeros(3))",
         "{m}._parameters['w{i}'] = None", "del {m}.w{i}\n{m}.w{i} = torch.full((3,), 3.0)", "{m}.w{i} = torch.ones(3)", "{m}.w{i}.grad = None",
         "{m}.__dict__['w{i}'] = 7", "{m}.w{i}.data = {m}.w{i}.data.double()", "{m}.w{i}.marked = True", "torch.utils.swap_tensors({m}.w{i}, torch.nn.Parameter(torch.ones(3) * 4))"),
        weight=6,
    ),
    Feature("self.register_parameter('q{i}', None)", ("t = t + 1 if self.q{i} is None else t * self.q{i}", "t = t * (2 if 'q{i}' in dict(self.named_parameters()) else 1)"),
            ("{m}.q{i} = torch.nn.Parameter(torch.ones(3))", "{m}.register_parameter('q{i}', torch.nn.Parameter(torch.zeros(3)))")),
    Feature(
        "self.register_buffer('b{i}', torch.tensor([0.5, 0.0, 2.0]), persistent={n} > 1)",
        ("t = t + self.b{i}", "self.b{i} = self.b{i} + 1\nt = t + self.b{i}", "self.b{i}.add_(1)\nt = t * self.b{i}", "t = t + self._buffers['b{i}']",
         "with torch.no_grad():\n    self.b{i}.copy_(t.reshape(-1, 3).mean(0))\nt = t - self.b{i}", "t = t + sum(b.sum() for b in self.buffers())",
         "self.b{i} = self.b{i} * 0.5 + t.detach().reshape(-1, 3).mean(0)", "if self.b{i} is not None:\n    t = t * self.get_buffer('b{i}')"),
        ("{m}.b{i} = None", "{m}.b{i} = torch.ones(3)", "{m}.b{i}.fill_(3)", "del {m}.b{i}", "{m}.register_buffer('b{i}', torch.zeros(1))",
         "{m}.b{i} = {m}.b{i}.double()", "{m}._buffers['b{i}'] = torch.full((3,), -1.0)", "{m}._non_persistent_buffers_set.add('b{i}')", "del {m}.b{i}\n{m}.b{i} = 2.5"),
        weight=5,
    ),
    Feature(
        "self.lin{i} = torch.nn.Linear(3, 3, bias={n} > 0)",
        ("t = self.lin{i}(t)", "t = self._modules['lin{i}'](t)", "t = torch.nn.functional.linear(t, self.lin{i}.weight, self.lin{i}.bias)", "t = getattr(self, 'lin{i}')(t)",
         "t = self.get_submodule('lin{i}')(t)", "t = self.lin{i}(input=t)", "t = self.lin{i}.forward(t)", "layer = self.lin{i}\nt = layer(t) if isinstance(layer, torch.nn.Linear) else t",
         "t = t * self.lin{i}.in_features + sum(p.sum() for p in self.lin{i}.parameters())", "self.lin{i}.weight.data.mul_(0.5)\nt = self.lin{i}(t)"),
        ("{m}.lin{i} = torch.nn.Identity()", "{m}.lin{i} = torch.nn.Linear(3, 3)", "{m}.lin{i}.weight.requires_grad_(False)", "{m}.lin{i}.bias = None", "{m}.lin{i} = {sub}",
         "HANDLES.append({m}.lin{i}.register_forward_hook(hook))", "HANDLES.append({m}.lin{i}.register_forward_pre_hook(pre_hook))", "HANDLES.append({m}.lin{i}.register_forward_hook(quiet_hook, prepend=True))",
         "HANDLES.append({m}.lin{i}.register_forward_pre_hook(named_pre_hook, with_kwargs=True))", "HANDLES.append({m}.lin{i}.register_forward_hook(named_hook, with_kwargs=True, always_call=True))",
         "HANDLES.append({m}.lin{i}.register_full_backward_hook(backward_hook))", "HANDLES.append({m}.lin{i}.register_full_backward_pre_hook(backward_pre_hook))",
         "{m}.lin{i}.forward = lambda input: input + 1", "{m}.lin{i}.__dict__.pop('forward', None)", "{m}.__dict__['lin{i}'] = lambda t, **rest: t - 1", "{m}.__dict__.pop('lin{i}', None)",
         "torch.nn.utils.parametrize.register_parametrization({m}.lin{i}, 'weight', Doubled())", "torch.nn.utils.parametrize.remove_parametrizations({m}.lin{i}, 'weight')",
         "torch.nn.utils.parametrizations.weight_norm({m}.lin{i})", "del {m}.lin{i}", "{m}.lin{i} = None", "{m}._modules['lin{i}'] = torch.nn.ReLU()", "{m}.lin{i}.double()"),
        weight=7,
    ),
    Feature("self.lin{i} = torch.nn.Linear(3, 3)\nself.tied{i} = self.lin{i}", ("t = self.tied{i}(self.lin{i}(t))", "t = self.tied{i}(t) + len(list(self.parameters()))"),
            ("{m}.tied{i} = torch.nn.Linear(3, 3)", "{m}.lin{i}.weight = {m}.tied{i}.weight", "{m}.tied{i}.weight = torch.nn.Parameter(torch.ones(3, 3))")),
    Feature(
        "self.layers{i} = torch.nn.ModuleList([{sub}, {sub}])",
        ("for layer in self.layers{i}:\n    t = layer(t)", "t = self.layers{i}[0](t)", "t = self.layers{i}[-1](t) + len(self.layers{i})", "for layer in self.layers{i}[1:]:\n    t = layer(t)",
         "for number, layer in enumerate(self.layers{i}):\n    t = layer(t) + number", "for layer in reversed(self.layers{i}):\n    t = layer(t)",
         "for first, second in zip(self.layers{i}, self.layers{i}):\n    t = second(first(t))", "t = functools.reduce(lambda value, layer: layer(value), self.layers{i}, t)", "t = t + ({sub} in self.layers{i})"),
        ("{m}.layers{i}.append({sub})", "del {m}.layers{i}[0]", "{m}.layers{i}[0] = {sub}", "{m}.layers{i}.insert(0, {sub})", "{m}.layers{i}.pop(0)", "{m}.layers{i}.extend([{sub}])",
         "{m}.layers{i} = torch.nn.ModuleList([{sub}])", "{m}.layers{i} = [torch.nn.ReLU(), torch.relu]", "{m}.layers{i}[0].requires_grad_(False)", "{m}.layers{i}[0].eval()",
         "HANDLES.append({m}.layers{i}[0].register_forward_hook(hook))"),
        weight=4,
    ),
    Feature(
        "self.seq{i} = torch.nn.Sequential({sub}, torch.nn.ReLU(), {sub})",
        ("t = self.seq{i}(t)", "t = self.seq{i}[:2](t)", "t = self.seq{i}[0](t) + len(self.seq{i})", "for layer in self.seq{i}:\n    t = layer(t)", "for name, layer in self.seq{i}.named_children():\n    t = layer(t) + len(name)"),
        ("{m}.seq{i}.append({sub})", "{m}.seq{i}[0] = {sub}", "del {m}.seq{i}[1]", "{m}.seq{i}.insert(0, {sub})", "{m}.seq{i} = torch.nn.Sequential(collections.OrderedDict(a={sub}, b={sub}))",
         "HANDLES.append({m}.seq{i}.register_forward_pre_hook(pre_hook))", "HANDLES.append({m}.seq{i}.register_forward_hook(hook))", "{m}.seq{i}.add_module('late', {sub})"),
        weight=4,
    ),
    Feature(
        "self.table{i} = torch.nn.ModuleDict({{'a': {sub}, 'b': {sub}}})",
        ("t = self.table{i}['a'](t)", "for name, layer in self.table{i}.items():\n    t = layer(t) + len(name)", "if 'b' in self.table{i}:\n    t = self.table{i}['b'](t)", "for name in self.table{i}:\n    t = self.table{i}[name](t)",
         "t = t + len(self.table{i}.keys())", "t = self.table{i}.a(t)", "for layer in self.table{i}.values():\n    t = layer(t)"),
        ("{m}.table{i}['a'] = {sub}", "{m}.table{i}['c'] = {sub}", "del {m}.table{i}['a']", "{m}.table{i}.pop('b')", "{m}.table{i}.update({{'b': {sub}, 'd': {sub}}})", "{m}.table{i}.clear()"),
        weight=3,
    ),
    Feature(
        "self.ps{i} = torch.nn.ParameterList([torch.ones(3), torch.full((3,), 2.0)])",
        ("for p in self.ps{i}:\n    t = t * p", "t = t + self.ps{i}[0] * len(self.ps{i})", "t = t * self.ps{i}[-1]", "for p in self.ps{i}[1:]:\n    t = t - p"),
        ("{m}.ps{i}.append(torch.ones(3))", "{m}.ps{i}[0] = torch.zeros(3)", "{m}.ps{i} = torch.nn.ParameterList([torch.ones(3)])", "{m}.ps{i}[0].requires_grad_(False)"),
    ),
    Feature(
        "self.pd{i} = torch.nn.ParameterDict({{'a': torch.ones(3), 'b': torch.zeros(3)}})",
        ("t = t * self.pd{i}['a']", "for name, p in self.pd{i}.items():\n    t = t + p * len(name)", "t = t + ('c' in self.pd{i})", "t = t + self.pd{i}.a"),
        ("{m}.pd{i}['a'] = torch.full((3,), 5.0)", "{m}.pd{i}['c'] = torch.ones(3)", "del {m}.pd{i}['b']", "{m}.pd{i}.pop('a')"),
    ),
    Feature("self.norm{i} = torch.nn.BatchNorm1d(3)", ("t = self.norm{i}(t)",), ("{m}.norm{i}.eval()", "{m}.norm{i}.momentum = 0.5", "{m}.norm{i}.reset_running_stats()", "{m}.norm{i}.track_running_stats = False", "{m}.norm{i}.running_mean = None",
            "{m}.norm{i} = torch.nn.LayerNorm(3)", "{m}.norm{i}.num_batches_tracked = None")),
    Feature("self.drop{i} = torch.nn.Dropout(0.5)", ("t = self.drop{i}(t)", "t = self.drop{i}(t) if self.training else t"), ("{m}.drop{i}.p = 0.0", "{m}.drop{i}.eval()", "{m}.drop{i}.p = 1.0", "{m}.drop{i} = torch.nn.Identity()")),
    Feature(
        "self.count{i} = 0",
        ("self.count{i} += 1", "self.count{i} += 1\nt = t + self.count{i}", "if self.count{i} % 2:\n    t = t + 1\nself.count{i} += 1", "setattr(self, 'count{i}', self.count{i} + 2)", "self.__dict__['count{i}'] += 1\nt = t * self.count{i}"),
        ("{m}.count{i} = {n}", "{m}.count{i} = {n}.5", "{m}.count{i} = True", "{m}.count{i} = torch.tensor(2)", "del {m}.count{i}"), weight=4,
    ),
    Feature(
        "self.kept{i} = []",
        ("self.kept{i}.append(t.sum())", "self.kept{i}.append(t.detach())\nt = t + len(self.kept{i})", "self.kept{i} = [*self.kept{i}, t.shape]", "if self.kept{i}:\n    t = t + self.kept{i}[-1]\nself.kept{i}[:] = [t.detach().mean()]"),
        ("{m}.kept{i}.clear()", "{m}.kept{i} = []", "{m}.kept{i} = ()"), weight=3,
    ),
    Feature(
        "self.cache{i} = {{}}",
        ("self.cache{i}['last'] = t.detach()", "if 'k' not in self.cache{i}:\n    self.cache{i}['k'] = t.detach() * 2\nt = t + self.cache{i}['k'].sum()", "self.cache{i}[len(self.cache{i})] = t.shape[0]\nt = t + len(self.cache{i})",
         "t = t + self.cache{i}.setdefault('s', {n})", "t = t * self.cache{i}.get('scale', 1)"),
        ("{m}.cache{i}.clear()", "{m}.cache{i}['scale'] = {n}", "{m}.cache{i}['scale'] = 0.5", "{m}.cache{i} = {{'k': torch.ones(3)}}"), weight=3,
    ),
    Feature("self.config{i} = Config()", ("t = t * self.config{i}.scale", "for _ in range(self.config{i}.depth):\n    t = t + 1", "t = t + len(self.config{i}.names) if getattr(self.config{i}, 'extra', None) is None else t - 1", "self.config{i}.depth += 1"),
            ("{m}.config{i}.scale = 3.0", "{m}.config{i}.depth = {n}", "{m}.config{i}.extra = 1", "{m}.config{i} = Config()", "Config.scale2 = 1", "{m}.config{i}.names.append('c')")),
    Feature("self.mode{i} = 'add'", ("t = t + 1 if self.mode{i} == 'add' else t * 2", "t = {{'add': torch.sin, 'mul': torch.cos}}[self.mode{i}](t)", "match self.mode{i}:\n    case 'add':\n        t = t + 2\n    case _:\n        t = t - 2"),
            ("{m}.mode{i} = 'mul'", "{m}.mode{i} = 'add'", "{m}.mode{i} = None")),
    Feature("self.act{i} = torch.nn.functional.relu", ("t = self.act{i}(t)",), ("{m}.act{i} = torch.tanh", "{m}.act{i} = lambda t: t * 3", "{m}.act{i} = torch.nn.ReLU()", "{m}.act{i} = functools.partial(torch.clamp, min=0)", "del {m}.act{i}")),
    Feature("", ("t = t * self.scaled{i}", "t = t + self.scaled{i}.sum()"), ("{C}.scaled{i} = property(lambda self: torch.ones(3) * 5)", "{C}.scaled{i} = 2", "{m}.__dict__['scaled{i}'] = 9", "del {C}.scaled{i}"),
            "@property\ndef scaled{i}(self):\n    return torch.full((3,), 2.0) + self.training"),
    Feature("self._held{i} = 2", ("t = t * self.held{i}", "self.held{i} = self.held{i} + 1\nt = t + self.held{i}"), ("{m}.held{i} = 5", "{m}._held{i} = 7"),
            "@property\ndef held{i}(self):\n    SEEN.append('get')\n    return self._held{i}\n@held{i}.setter\ndef held{i}(self, value):\n    SEEN.append('set')\n    self._held{i} = value"),
    Feature("", ("t = t * self.level{i}", "t = t * type(self).level{i}", "{C}.level{i} += 1\nt = t + self.level{i}"), ("{C}.level{i} = 4", "{m}.level{i} = 6", "{C}.level{i} = torch.ones(3)", "{C}.level{i} = torch.nn.Parameter(torch.ones(3))", "del {m}.level{i}"), "level{i} = 2"),
    Feature("", ("t = t + self.missing{i}", "t = t + getattr(self, 'missing{i}', 0)", "try:\n    t = t * self.missing{i}\nexcept AttributeError:\n    t = t - 1", "if hasattr(self, 'missing{i}'):\n    t = t + 3"), ("{m}.missing{i} = 3", "del {m}.missing{i}", "{C}.missing{i} = 4"), weight=3),
    Feature("", ("t = t + self.made_up{i}",), ("del {C}.__getattr__", "{C}.__getattr__ = lambda self, name: 3", "{m}.made_up{i} = 1"),
            "def __getattr__(self, name):\n    if name.startswith('made_up'):\n        return len(name)\n    return super().__getattr__(name)", weight=1),
    Feature("", ("self.noted{i} = {n}\nt = t + self.noted{i}",), ("del {C}.__setattr__", "{m}.noted{i} = 7"), "def __setattr__(self, name, value):\n    SEEN.append(name)\n    super().__setattr__(name, value)", weight=1),
    Feature("", (), ("del {C}.__call__",), "def __call__(self, *args, **kwargs):\n    SEEN.append('call')\n    return super().__call__(*args, **kwargs)", weight=1),
    Feature("", ("t = self.helper{i}(t)", "t = self.helper{i}(t, n=2)"), ("{C}.helper{i} = lambda self, t, n=1: t * n", "{m}.helper{i} = lambda t, n=1: t - n", "{C}.helper{i} = staticmethod(lambda t, n=1: t + 10)"), "@counted\ndef helper{i}(self, t, n=1):\n    return t + n if self.training else t - n"),
    Feature("", ("t = self.plain{i}(t)", "t = {C}.plain{i}(t)"), ("{C}.plain{i} = staticmethod(torch.abs)",), "@staticmethod\ndef plain{i}(t):\n    return t * t"),
    Feature("", ("t = self.of_class{i}(t)",), ("{C}.factor{i} = 9",), "factor{i} = 3\n@classmethod\ndef of_class{i}(cls, t):\n    return t * cls.factor{i}"),
    Feature("", ("t = t + sum(p.sum() for p in self.parameters())", "for name, p in self.named_parameters():\n    t = t + p.mean() * len(name)", "t = t + len(list(self.children()))", "for name, module in self.named_modules():\n    t = t + len(name)",
                 "t = t + sum(isinstance(m, torch.nn.Linear) for m in self.modules())", "t = t + len(self.state_dict())", "for name, b in self.named_buffers(recurse=False):\n    t = t + b.sum()", "t = t + len(dict(self.named_children()))",
                 "t = t + sum(p.numel() for p in self.parameters() if p.requires_grad)", "t = t + sum(1 for _ in self.named_parameters(recurse=False, remove_duplicate=False))", "t = t + len(vars(self))"),
            ("{m}.extra = {sub}", "{m}.extra_parameter = torch.nn.Parameter(torch.ones(3))", "{m}.requires_grad_(False)", "{m}.requires_grad_(True)"), weight=5),
    Feature("", ("if self.training:\n    t = t * 2", "t = torch.nn.functional.dropout(t, 0.5, self.training)", "t = t + (1 if self.training else 5)"), ("{m}.train()", "{m}.eval()", "{m}.training = False"), weight=3),
    Feature("", ("if torch.is_grad_enabled():\n    t = t + 1", "with torch.no_grad():\n    t = t + 1", "t = torch.utils.checkpoint.checkpoint(torch.sin, t, use_reentrant=False)", "torch._dynamo.graph_break()", "print(type(self).__name__)", "if t.sum() > 0:\n    t = t - 1"), (), weight=3),
    Feature("", ("if not hasattr(self, 'late{i}'):\n    self.late{i} = torch.nn.Linear(3, 3)\nt = self.late{i}(t)", "if 'late{i}' not in self._buffers:\n    self.register_buffer('late{i}', t.detach()[:1].sum(0))\nt = t + self.late{i}",
                 "self.late{i} = t.detach()\nt = t + self.late{i}\ndel self.late{i}", "self.late{i} = torch.nn.Parameter(torch.ones(3))\nt = t * self.late{i}"), ("del {m}.late{i}",)),
    Feature("self.hooked{i} = {sub}\nself.hooked{i}.register_forward_hook(hook)\nself.hooked{i}.register_forward_pre_hook(quiet_pre_hook)", ("t = self.hooked{i}(t)", "handle = self.hooked{i}.register_forward_hook(quiet_hook)\nt = self.hooked{i}(t)\nhandle.remove()"),
            ("{m}.hooked{i}._forward_hooks.clear()", "HANDLES.append({m}.hooked{i}.register_forward_hook(quiet_hook, always_call=True))", "{m}.hooked{i} = {sub}", "{m}.hooked{i}._forward_pre_hooks.popitem()")),
    Feature("self.lazy{i} = torch.nn.LazyLinear(3)", ("t = self.lazy{i}(t)",), ("{m}.lazy{i} = torch.nn.LazyLinear(3)",), weight=1),
    Feature("self.rnn{i} = torch.nn.GRU(3, 3)", ("t = self.rnn{i}(t.reshape(-1, 1, 3))[0].reshape(-1, 3)",), ("{m}.rnn{i}.weight_ih_l0 = torch.nn.Parameter(torch.ones(9, 3))", "{m}.rnn{i}.flatten_parameters()"), weight=1),
    Feature("self.attention{i} = torch.nn.MultiheadAttention(3, 1, batch_first=True)", ("t = self.attention{i}(t[None], t[None], t[None], need_weights={n} > 1)[0][0]",), ("{m}.attention{i}.in_proj_bias = None",), weight=1),
    Feature("self.emb{i} = torch.nn.Embedding(4, 3)", ("t = t + self.emb{i}(torch.arange(2)).sum(0)",), ("{m}.emb{i}.weight.data.fill_(1)", "{m}.emb{i}.padding_idx = 0"), weight=1),
    Feature("self.forward = functools.partial(type(self).forward, self)", (), ("{m}.__dict__.pop('forward', None)",), weight=1),
]  # fmt: skip

SUBMODULES = ["torch.nn.ReLU()", "torch.nn.Linear(3, 3)", "torch.nn.Linear(3, 3)", "torch.nn.Identity()", "torch.nn.LayerNorm(3)", "torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())", "torch.nn.Dropout(0.5)", "Doubled()"]  # fmt: skip

OF_ANY = [
    "{m}.train()", "{m}.eval()", "{m}.zero_grad()", "{m}.requires_grad_(False)", "{m}.requires_grad_(True)", "{m}.double()", "{m}.float()", "{m}.to(torch.float64)",
    "{m}.load_state_dict({{name: value + 1 for name, value in {m}.state_dict().items()}})", "{m}.load_state_dict({{name: value * 2 for name, value in {m}.state_dict().items()}}, assign=True)",
    "HANDLES.append({m}.register_forward_hook(hook))", "HANDLES.append({m}.register_forward_pre_hook(pre_hook))", "HANDLES.append({m}.register_forward_hook(quiet_hook, prepend=True))", "HANDLES and HANDLES.pop().remove()", "HANDLES and HANDLES.pop(0).remove()",
    "HANDLES.append({m}.register_forward_pre_hook(named_pre_hook, with_kwargs=True))", "HANDLES.append({m}.register_full_backward_hook(backward_hook))",
    "{C}.forward = counted({C}.forward)", "{m}.forward = counted(type({m}).forward).__get__({m})", "{m}.__dict__.pop('forward', None)", "{m}.forward = lambda t, *rest: t + 1", "{m}.__class__ = Other",
    "{C}.forward = lambda self, t, *rest: t * 2", "with torch.no_grad():\n    for p in {m}.parameters():\n        p.sub_(0.1 if p.grad is None else p.grad * 0.1)", "{m}.apply(lambda module: setattr(module, 'touched', True))", "{m}.extra = {sub}",
    "{m}._apply(lambda value: value * 2)", "for p in {m}.parameters():\n    p.data = p.data.clone()", "{m}.share_memory()", "{m}.half().float()", "pickle.loads(pickle.dumps({m}.state_dict()))", "{m}.__dict__ = dict({m}.__dict__)",
    "{m}.__setstate__({m}.__dict__.copy())", "{m}.compiled = None", "{m}.add_module('extra', None)", "for module in {m}.modules():\n    module.training = not module.training", "{m}._forward_hooks = collections.OrderedDict()",
    "{m}._parameters.move_to_end(next(iter({m}._parameters)))" , "copy.deepcopy({m})", "{m}.forward = {m}.forward",
]  # fmt: skip

ARGUMENTS = ["torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, 2.0]])", "torch.ones(4, 3)", "torch.tensor([[0.0, 1.0, 2.0], [2.0, 2.0, -5.0]], requires_grad=True)", "torch.ones(2, 3, dtype=torch.float64)", "torch.zeros(2, 3)"]  # fmt: skip

# How the program calls its model.
ENTRIES = [
    "f = model",
    "f = model",
    "def f(t):\n    return model(t)",
    "def f(t):\n    t = model(t) + 1\n    return model(t)",
    "def f(t):\n    with torch.no_grad():\n        return model(t)",
    "def f(t):\n    try:\n        return model(t), model.training\n    except (AttributeError, TypeError) as error:\n        return t, type(error)",
    "def f(t):\n    model.train()\n    first = model(t)\n    model.eval()\n    return first, model(t)",
]


class Class:
    """One class being written: its lines, and what may change of its instances."""

    def __init__(self, name: str, base: str, chance: random.Random, submodules: list[str]) -> None:
        self.name, self.chance, self.submodules = name, chance, submodules
        self.steps: list[str] = list(OF_ANY)
        init, body, members = ["super().__init__()"], [], []
        weights = [feature.weight for feature in FEATURES]
        for number, feature in enumerate(chance.choices(FEATURES, weights, k=chance.randint(2, 5))):
            fill = lambda text, i=number: self.filled(text, i)  # noqa: E731
            init += fill(feature.init).splitlines()
            members += fill(feature.members).splitlines()
            for text in chance.sample(feature.forward, min(len(feature.forward), chance.choice([1, 1, 2]))):
                body += fill(text).splitlines()
            # Changes of a feature are chosen more often than changes that all modules have.
            self.steps += [text.replace("{i}", str(number)) for text in feature.steps] * 4
        if base != "torch.nn.Module" and chance.random() < 0.7:
            body.insert(
                chance.randint(0, len(body)) if all(not line.startswith(" ") for line in body) else 0,
                "t = super().forward(t)",
            )
        self.lines = [f"class {name}({base}):", "    def __init__(self):", *(" " * 8 + line for line in init),
                      *(" " * 4 + line for line in members), "    def forward(self, t):", *(" " * 8 + line for line in body),
                      " " * 8 + chance.choice(["return t", "return t", "return t + 0", "return torch.sin(t)"])]  # fmt: skip

    def filled(self, text: str, number: int | str = "", path: str = "") -> str:
        while "{sub}" in text:
            text = text.replace("{sub}", self.chance.choice(self.submodules), 1)
        return text.format(i=number, n=self.chance.randint(0, 3), C=self.name, m=path)


def generate_model(seed: int | random.Random) -> str:
    """The text of the program of this seed."""
    chance = chances(seed)
    submodules, classes = list(SUBMODULES), []
    for number in range(chance.randint(1, 3)):
        base = chance.choice([*(one.name for one in classes), "torch.nn.Module", "torch.nn.Module", "torch.nn.Module"])
        classes.append(Class(f"Part{number}", base, chance, list(submodules)))
        submodules += [f"Part{number}()"] * 4
    top = Class("Model", "torch.nn.Module", chance, list(submodules))
    parts = [f"self.part{number} = {one.name}()" for number, one in enumerate(classes)]
    uses = [f"t = self.part{number}(t)" for number, one in enumerate(classes)]
    at_init, at_end = top.lines.index("        super().__init__()") + 1, len(top.lines) - 1
    top.lines[at_end:at_end] = [" " * 8 + line for line in uses]
    top.lines[at_init:at_init] = [" " * 8 + line for line in parts]
    places = [(top, "model"), (top, "model"), *((one, f"model.part{number}") for number, one in enumerate(classes))]
    steps = [("pass", ARGUMENTS[0] + ",")]
    for _ in range(chance.randint(2, 6)):
        owner, path = chance.choice(places)
        change = owner.filled(chance.choice(owner.steps), path=path) if chance.random() < 0.85 else "pass"
        steps.append((change, chance.choice(["", "", "", *ARGUMENTS])))
    lines = [*PREAMBLE.splitlines(), *(line for one in (*classes, top) for line in one.lines),
             f"class Other({classes[0].name}):", "    def forward(self, t):", "        return super().forward(t) - 1",
             "model = Model()", *chance.choice(ENTRIES).splitlines(), "STEPS = ["]  # fmt: skip
    lines += [
        f"    ({change!r}, {arguments + ',' if arguments and not arguments.endswith(',') else arguments!r}),"
        for change, arguments in steps
    ]
    return "\n".join([*lines, "]"]) + "\n"
