"""`parameters`, `named_modules` and similar methods of modules, called in traced code."""

import pytest

from tests.support.harness import Source, T, same

MODEL = """
class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_parameter("bias", None)
        self.register_buffer("offset", torch.ones(4))
        self.register_buffer("absent", None)
        self.register_buffer("temporary", torch.zeros(4), persistent=False)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(torch.randn(4))
        self.first, self.second = Leaf(), Leaf()
        self.again = self.first
        self.second.weight = self.first.weight
        self.second.offset = self.first.offset
        self.nothing = None
        self.register_module("empty", None)
        self.box = nn.ModuleDict({"a": nn.Sequential(Leaf(), nn.Identity())})
    def forward(self, x):
        LINE
        return x + 1, answer
f = Model()
"""

# Expressions over the model; each answer is names, shapes and counts, which the harness compares.
WALKS = {
    "named_parameters": "answer = [(n, tuple(p.shape)) for n, p in self.named_parameters()]",
    "named_parameters, prefix": "answer = [n for n, p in self.named_parameters('top')]",
    "named_parameters, prefix by keyword": "answer = [n for n, p in self.named_parameters(prefix='top', recurse=True)]",
    "named_parameters, own": "answer = [n for n, p in self.named_parameters(recurse=False)]",
    "named_parameters, own by position": "answer = [n for n, p in self.named_parameters('', False)]",
    "named_parameters, duplicates": "answer = [n for n, p in self.named_parameters(remove_duplicate=False)]",
    "named_parameters, all by position": "answer = [n for n, p in self.named_parameters('p', True, False)]",
    "parameters": "answer = len(list(self.parameters())); x = x + sum(p.sum() for p in self.parameters())",
    "parameters, own": "answer = [tuple(p.shape) for p in self.parameters(False)]; x = x * next(self.parameters(recurse=False))",
    "named_buffers": "answer = [n for n, b in self.named_buffers()]; x = x + dict(self.named_buffers())['first.offset']",
    "named_buffers, duplicates": "answer = [n for n, b in self.named_buffers(prefix='b', remove_duplicate=False)]",
    "named_buffers, own": "answer = [n for n, b in self.first.named_buffers('b', recurse=False)]",
    "buffers": "answer = len(list(self.buffers())), len(list(self.buffers(recurse=False))); x = x + next(iter(self.buffers()))",
    "children": "answer = [type(c).__name__ for c in self.children()]",
    "named_children": "answer = [(n, type(c).__name__) for n, c in self.named_children()]",
    "modules": "answer = [type(m).__name__ for m in self.modules()], [type(m).__name__ for m in self.modules(remove_duplicate=False)] if False else 0",
    "named_modules": "answer = [(n, type(m).__name__) for n, m in self.named_modules()]",
    "named_modules, prefix": "answer = [n for n, m in self.named_modules(prefix='m')]",
    "named_modules, duplicates": "answer = [n for n, m in self.named_modules(None, 'm', False)]",
    "named_modules, memo": "answer = [n for n, m in self.named_modules(memo={self.first})]",
    "named_modules of a submodule": "answer = dict(self.box.named_modules()).keys() >= {'a', 'a.0'}",
    "get_parameter": "answer = self.get_parameter('second.weight') is self.first.weight; x = x * self.get_parameter('box.a.0.weight')",
    "get_buffer": "answer = 0; x = x + self.get_buffer('box.a.0.offset')",
    "get_submodule": "answer = self.get_submodule('') is self, self.get_submodule('box.a.1').__class__.__name__",
    "get_submodule, absent": """
        try:
            self.get_submodule('box.b')
        except AttributeError as error:
            answer = str(error)""",
    "get_parameter of what is a buffer": """
        try:
            self.get_parameter('first.offset')
        except AttributeError as error:
            answer = str(error)""",
    "an iterator is consumed once": """
        walk = self.named_parameters()
        first = next(walk)[0]
        rest = [n for n, _ in walk]
        answer = first, rest, list(walk), next(walk, 'end')""",
    "an iterator is lazy": """
        answer = []
        for name, module in self.named_modules():
            answer.append(name)
            if isinstance(module, nn.Sequential):
                break
            if name == 'first':
                self.late = 3
        x = x * self.late
        del self.late""",
    "two iterators at once": "answer = [(a[0], b[0]) for a, b in zip(self.named_parameters(), self.named_children())]",
    "a walk over what it builds": "answer = {n: p.numel() for n, p in self.named_parameters()}; x = x * sum(answer.values())",
    "state of the module": "answer = sorted(self._modules), list(self._parameters), [len(m._buffers) for m in self.modules()]",
    "not binding": """
        try:
            self.named_parameters(unknown=1)
        except TypeError as error:
            answer = str(error)""",
    "requires_grad in a walk": "answer = [p.requires_grad for p in self.parameters()]; x = x + sum(p.sum() for p in self.parameters() if p.requires_grad)",
}


def model(line):
    return Source(MODEL.replace("LINE", line.strip()))


@pytest.mark.parametrize("name", WALKS)
def test_walks(name):
    same(model(WALKS[name]), T(2, 4))


CHANGES = [
    "PROGRAM.late_module = Leaf()",
    "PROGRAM.first.extra = nn.Parameter(torch.ones(2))",
    "PROGRAM.box['b'] = nn.Linear(1, 1)",
    "del PROGRAM.again",
    "PROGRAM.first.absent = torch.ones(3)",
    "PROGRAM.own.requires_grad_(False)",
]


@pytest.mark.parametrize(
    "name", ["named_parameters", "parameters", "buffers", "named_children", "named_modules", "requires_grad in a walk"]
)
def test_walks_after_changes(name):
    same(model(WALKS[name]), T(2, 4), compare_dynamo=False, mutate=CHANGES)


OVERRIDDEN = {
    "parameters": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    def parameters(self, recurse=True):
        yield self.b
        yield from super().parameters(recurse)
    def forward(self, x):
        for k, p in enumerate(self.parameters()):
            x = x + p * k
        return x
f = Model()
""",
    "named_modules": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def named_modules(self, memo=None, prefix='', remove_duplicate=True):
        for name, module in super().named_modules(memo, prefix, remove_duplicate):
            yield name.upper(), module
    def forward(self, x):
        names = [n for n, _ in self.named_modules()]
        return self.get_submodule('a')(x), names, [n for n, _ in self.named_parameters()], len(list(self.modules()))
f = Model()
""",
    "_named_members": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def _named_members(self, get_members_fn, prefix='', recurse=True, remove_duplicate=True):
        return list(super()._named_members(get_members_fn, prefix, recurse, remove_duplicate))[::-1]
    def forward(self, x):
        return x + 1, [n for n, _ in self.named_parameters()]
f = Model()
""",
    "children of a submodule": """
class Hides(nn.Sequential):
    def children(self): return iter(())
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Hides(nn.Linear(4, 4))
    def forward(self, x):
        return self.a(x), len(list(self.a.children())), len(list(self.a.parameters()))
f = Model()
""",
}


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_overridden_walks_are_inlined(name):
    same(Source(OVERRIDDEN[name]), T(2, 4))


def test_walk_from_a_function():
    same(
        Source("""
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
def f(x):
    norm = sum(p.square().sum() for p in model.parameters())
    return model(x) / norm, [n for n, _ in model.named_buffers()]
"""),
        T(3, 4),
    )
