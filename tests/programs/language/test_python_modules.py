"""Python modules as values, including instances of module subclasses."""

import pytest
import torch

from tests.support.harness import Source, T, same

HEAD = """
class Own(types.ModuleType):
    factor = 3
    def __init__(self, name):
        super().__init__(name)
        self.held = torch
    def __getattr__(self, name):
        if name.startswith('no_'):
            raise AttributeError(f'{name} is not there')
        return getattr(self.held, name)
    def doubled(self, x): return x * 2
    @property
    def size(self): return 4
    @staticmethod
    def plus(x): return x + 1
_own = Own('own')
_plain = types.ModuleType('plain')
_lazy = types.ModuleType('lazy')
def _find(name):
    if name == 'answer': return 42
    raise AttributeError(name)
_lazy.__getattr__ = _find
"""

LINES = {
    "found by the class's __getattr__": "return _own.relu(x) + _own.pi",
    "methods, properties and attributes of the class": "return _own.doubled(x) + _own.size + _own.factor + _own.plus(x)",
    "missing": "return x + 1, hasattr(_own, 'no_such'), hasattr(_own, 'sigmoid'), getattr(_own, 'no_such', 5)",
    "missing, caught": """
    try: _own.no_such
    except AttributeError as error: return x + 1, str(error)""",
    "missing in a plain module, caught": """
    try: _plain.absent
    except AttributeError as error: return x + 1, str(error)""",
    "a __getattr__ of the module": "return x + _lazy.answer, hasattr(_lazy, 'question')",
    "class and name": "return x + 1, _plain.__class__.__name__, _own.__class__.__name__, _own.__name__, isinstance(_own, types.ModuleType)",
    "dict": "return x + len(torch.__name__), 'held' in _own.__dict__, 'nn' in vars(torch)",
}


@pytest.mark.parametrize("name", LINES)
def test_modules(name):
    same(Source(f"{HEAD}\ndef f(x):\n    {LINES[name].strip()}\n"), T(2, 4))


def test_ids():
    same(
        Source("""
table = {}
class Model(nn.Module):
    def forward(self, x):
        table.setdefault(id(self) == id(self), len(table))
        return x + 1, id(self) in _by_id, id(torch) == id(self), id(Model) == id(type(self))
f = Model()
_by_id = {id(f)}
"""),
        T(2, 4), compare_dynamo=False, stateful=True, mutate=["_by_id.clear()"],
    )  # fmt: skip
    same(Source("def f(x): return x + 1, id(x) == id(x)"), T(2, 4), fullgraph=False, compare_dynamo=False)


def test_changes_between_calls():
    same(
        Source(f"{HEAD}\ndef f(x):\n    return _own.doubled(x) + _own.factor, hasattr(_own, 'no_such')\n"), T(2, 4),
        mutate=["_own.factor = 9", "_own.doubled = torch.neg", "_own.no_such = 1", "Own.__getattr__ = lambda s, n: 1; del _own.no_such"],
    )  # fmt: skip


def test_methods_that_modules_inherit():
    """Modules of torch.backends find attributes with `module.__getattribute__`."""

    def program(x):
        import math

        floor = math.__getattribute__("floor")
        is_enabled = torch.backends.cudnn.is_available()
        try:
            math.__getattribute__("nothing")
        except AttributeError as error:
            return x * floor(2.5), is_enabled, str(error), hasattr(math, "__getattribute__"), hasattr(math, "nothing")

    same(program, T(3), compare_dynamo=False)
