"""Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict: every way to use and to mutate them."""

import pytest

from tests.support.harness import Source, T, same

HEAD = """
class Double(nn.Module):
    def forward(self, x): return x * 2
"""

PROGRAMS = {
    "slice of a Sequential": ("nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Double(), nn.Tanh())", """
    return m[:2](x) + m[-1](x) + m[1:3](x), len(m[1:])"""),
    "Sequential iterated and indexed": ("nn.Sequential(nn.Linear(4, 4), Double())", """
    for k, layer in enumerate(m): x = layer(x) + k
    return m[0](x) + m[-1](x), [n for n, _ in m.named_children()]"""),
    "Sequential with names": ("nn.Sequential(collections.OrderedDict(a=nn.Linear(4, 4), b=Double()))", """
    return m.a(x) + m.b(x) + m(x)"""),
    "nested Sequentials": ("nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Sequential(Double())), nn.Sequential())", """
    return m(x) + m[0][1][0](x)"""),
    "subclassed Sequential": ("Residual(nn.Linear(4, 4), Double())", """
    return m(x)"""),
    "ModuleList": ("nn.ModuleList([nn.Linear(4, 4), Double(), nn.Linear(4, 4)])", """
    for layer in m: x = layer(x)
    for layer in reversed(m): x = layer(x)
    for a, b in zip(m[:-1], m[1:]): x = a(x) + b(x)
    return x * len(m), m[1] in m, nn.Identity() in m, [type(l).__name__ for l in m[::2]]"""),
    "index out of a ModuleList": ("nn.ModuleList([Double()])", """
    try: return m[3](x)
    except IndexError as error: return x + 1, str(error)"""),
    "subclassed ModuleList": ("Stack([nn.Linear(4, 4), Double()])", """
    return m(x) + m.last(x)"""),
    "ModuleList of ModuleLists": ("nn.ModuleList([nn.ModuleList([Double(), nn.Linear(4, 4)]) for _ in range(2)])", """
    for row in m:
        for one in row: x = one(x)
    return x"""),
    "ModuleDict": ("nn.ModuleDict({'a': nn.Linear(4, 4), 'b': Double()})", """
    for name, layer in m.items(): x = layer(x) + len(name)
    for name in m: x = m[name](x)
    for layer in m.values(): x = layer(x)
    return x, list(m.keys()), 'a' in m, 'c' in m, len(m)"""),
    "key out of a ModuleDict": ("nn.ModuleDict({'a': Double()})", """
    try: return m['z'](x)
    except KeyError as error: return x + 1, str(error)"""),
    "ModuleDict by attribute": ("nn.ModuleDict({'a': nn.Linear(4, 4), 'b': Double()})", """
    return m.a(x) + getattr(m, 'b')(x)"""),
    "ParameterList": ("nn.ParameterList([torch.ones(4), nn.Parameter(torch.randn(4)), 3])", """
    for p in m[:2]: x = x * p
    return x + m[-1] + m[0], len(m), [type(p).__name__ for p in m]"""),
    "ParameterDict": ("nn.ParameterDict({'a': torch.ones(4), 'b': nn.Parameter(torch.randn(4))})", """
    for name, p in m.items(): x = x * p + len(name)
    for p in m.values(): x = x + p
    return x + m['a'] + m.b, 'a' in m, 'z' in m, list(m.keys()), len(m), m.get('z', 1)"""),
    "tensors in a BufferList-like module": ("Buffers()", """
    return sum(getattr(m, f'b{k}') for k in range(3)) + x"""),
    "containers in containers": ("nn.ModuleDict({'l': nn.ModuleList([nn.Sequential(nn.Linear(4, 4))]), 'p': nn.ParameterList([torch.ones(4)])})", """
    return m['l'][0][0](x) * m['p'][0]"""),
}  # fmt: skip

CLASSES = """
class Residual(nn.Sequential):
    def forward(self, x): return super().forward(x) + x
class Stack(nn.ModuleList):
    def forward(self, x):
        for layer in self: x = layer(x)
        return x
    @property
    def last(self): return self[len(self) - 1]
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        for k in range(3): self.register_buffer(f'b{k}', torch.full((4,), float(k)))
"""


def program(name):
    make, body = PROGRAMS[name]
    return Source(f"{HEAD}{CLASSES}m = {make}\ndef f(x):{body}\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_containers(name):
    same(program(name), T(2, 4))


CHANGES = {
    "Sequential iterated and indexed": ["m.append(Double())", "m.insert(0, nn.ReLU())", "m.pop(1)", "m[0] = nn.Tanh()", "del m[0]", "m.extend([nn.Tanh()])", "m += nn.Sequential(nn.ReLU())"],
    "Sequential with names": ["m.b = nn.Tanh()", "m.add_module('c', Double())", "m.a.weight = nn.Parameter(torch.zeros(4, 4))"],
    "ModuleList": ["m.append(nn.ReLU())", "m.insert(1, nn.Tanh())", "m.extend([Double()])", "m[0] = Double()", "del m[1]", "m.pop(-1)", "m += [nn.ReLU()]"],
    "subclassed ModuleList": ["m.append(nn.ReLU())", "m[0].bias = None"],
    "ModuleDict": ["m['c'] = nn.ReLU()", "del m['a']", "m.update({'b': nn.Tanh()})", "m.pop('c')", "m.clear(); m['q'] = Double()"],
    "ParameterList": ["m[0] = torch.zeros(4)", "m.append(7)", "m[1].requires_grad_(False)"],
    "ParameterDict": ["m['c'] = torch.ones(4)", "m['a'] = torch.zeros(4)", "m.z = torch.ones(4)"],
    "nested Sequentials": ["m[0][1].append(nn.ReLU())", "m[1].append(Double())", "m[0] = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_containers_after_changes(name):
    same(program(name), T(2, 4), mutate=CHANGES[name], compare_dynamo=False)


HOOKED = """
log = []
m = MAKE
m.register_forward_pre_hook(lambda module, args: log.append(('before', type(module).__name__)))
m.register_forward_hook(lambda module, args, output: log.append(('after', len(module))) or output + 1)
m[0].register_forward_hook(lambda module, args, output: log.append('first'))
def f(x): return m(x)
"""


@pytest.mark.parametrize(
    "make", ["nn.Sequential(nn.Linear(4, 4), nn.Sequential(Double()))", "Stack([nn.Linear(4, 4), Double()])"]
)
def test_hooks_of_containers_fire_in_order(make):
    same(
        Source(HEAD + CLASSES + HOOKED.replace("MAKE", make)), T(2, 4),
        mutate=["m[1].register_forward_hook(lambda module, args, output: log.append('second'))", "m[0]._forward_hooks.clear()"],
        compare_dynamo=False,
    )  # fmt: skip


def test_container_made_inside():
    same(
        Source(HEAD + CLASSES + """
layers = [nn.Linear(4, 4), Double()]
def f(x):
    return nn.Sequential(*layers)(x)
"""),
        T(2, 4), fullgraph=False, compare_dynamo=False,
    )  # fmt: skip
