"""Exceptions that leave the compiled function, from each kind of instruction, from it and from a function that it
calls: the instruction is then executed with all its operands."""

import pytest

from tests.support.harness import Source, T, same

FAILING = {
    "unpacking too many": "a, b = (1, 2, 3)",
    "unpacking too few": "a, b, c = [x, x]",
    "unpacking a number": "a, b = 5",
    "unpacking a dict": "a, b = {1: 2}",
    "unpacking a generator": "a, b = (i for i in range(4))",
    "starred": "a, b, *c = (1,)",
    "starred from an iterator": "a, *b, c = iter([1])",
    "rows of a tensor": "a, b = torch.zeros(3, 2) + x.sum()",
    "missing key": "y = {'a': x}['b']",
    "missing item": "y = [x, x][5]",
    "item set": "(1, 2)[0] = x",
    "item deleted": "d = {}; del d['a']",
    "operator": "y = [x] + 5",
    "operator in place": "y = 5; y += [x]",
    "comparison": "y = [] < 5",
    "membership": "y = 1 in 5",
    "unary": "y = -[x]",
    "call of a number": "y = (5)(x)",
    "missing argument": "y = (lambda a, b: a)(x)",
    "keyword twice": "y = (lambda a: a)(x, **{'a': x})",
    "argument of a builtin": "y = len(x, x)",
    "builtin": "y = max([])",
    "missing attribute": "y = [].nothing",
    "attribute set": "(5).a = x",
    "attribute deleted": "class C: pass\nc = C(); del c.a",
    "iteration": "for i in 5: pass",
    "iteration without an iterator": "for i in NoIterator(): pass",
    "iteration that fails": "for i in Failing(): pass",
    "comprehension": "y = [i.a for i in (1, 2)]",
    "comprehension that unpacks": "y = [a for a, b in [(1, 2), (3,)]]",
    "format": "y = f'{x.shape:d}'",
    "text joined": "y = ','.join([1])",
    "slice": "y = [1, 2][::0]",
    "star call": "y = print(*5)",
    "double star call": "y = dict(**5)",
    "set of lists": "y = {[1]}",
    "raise": "raise LookupError('here')",
    "raise from": "raise LookupError('here') from KeyError(1)",
    "raise nothing": "raise 5",
    "assertion": "assert x.shape[0] == 100, 'too short'",
    "generator that fails": "y = list(fails())",
    "generator that stops": "y = next(iter(()))",
    "with": "with 5: pass",
    "with that fails to enter": "with Failing(): pass",
    "unbound local": "if x.shape[0] == 100: z = 1\ny = z",
    "unknown name": "y = nothing_of_this_name",
    "import": "import nothing_of_this_name",
    "import from": "from math import nothing_of_this_name",
    "tensor operation": "y = x @ torch.zeros(7, 7)",
    "tensor index": "y = x[10]",
}

PRELUDE = """
import torch

class NoIterator:
    def __iter__(self): return self

class Failing:
    def __iter__(self): raise LookupError("no iterator")
    def __enter__(self): raise LookupError("not entered")
    def __exit__(self, *error): return True

def fails():
    yield 1
    raise LookupError("in the generator")
"""


def indented(statements, depth):
    return "\n".join(" " * depth + line for line in statements.split("\n"))


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("place", ["itself", "called", "called with operands", "caught above", "finally"])
def test_errors_that_leave(name, place):
    statements = FAILING[name]
    inner = f"def inner(x):\n    x = x + 1\n{indented(statements, 4)}\n    return x\n"
    programs = {
        "itself": f"def f(x):\n    x = x + 1\n{indented(statements, 4)}\n    return x\n",
        "called": f"{inner}\ndef f(x):\n    x = x * 2\n    return inner(x) + 1\n",
        "called with operands": f"{inner}\ndef f(x):\n    return [x, (x * 2, inner(x * 3)), x]\n",
        "caught above": (
            f"{inner}\ndef f(x):\n    try:\n        return inner(x * 2)\n    except Exception as error:\n"
            "        return x * 3, type(error), str(error)\n"
        ),
        "finally": (
            f"log = []\n{inner}\ndef f(x):\n    y = x * 2\n    try:\n        inner(y)\n    finally:\n"
            "        log.append(y * 2)\n        y = y + 1\n    return y\n"
        ),
    }
    same(Source(PRELUDE + programs[place]), T(3), fullgraph=False, compare_dynamo=False)
