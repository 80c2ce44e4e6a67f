"""Short programs on containers: each runs uncompiled and compiled in one graph, and everything that it created is
compared."""

import textwrap

from tests.support.harness import Source, T, same

PRELUDE = """
import collections, copy, functools, itertools, math, operator, types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
Point = namedtuple("Point", "x y", defaults=[7])

class Same:
    def __init__(self, value): self.value = value
    def __eq__(self, other): return isinstance(other, Same) and self.value == other.value
    __hash__ = None
    def __lt__(self, other): return self.value < other.value

class Plain: pass

class Countdown:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n == 0: raise StopIteration
        self.n -= 1
        return self.n

def count_to(n):
    i = 0
    while i < n:
        yield i
        i += 1

def fails_after(n):
    yield from range(n)
    raise LookupError("spent")
"""


def program(statements: str) -> str:
    """A function that runs the statements and gives back `r`, or what was raised, with a tensor captured around it."""
    lines = textwrap.dedent(statements).strip().split("\n")
    # Classes come first in a snippet, and are made when its world is.
    inside = False
    first = 0
    while first < len(lines) and (lines[first].startswith("class ") or (inside and lines[first].startswith(" "))):
        inside = True
        first += 1
    classes = "\n".join(lines[:first])
    body = textwrap.indent("\n".join(lines[first:]), "        ")
    return f"""{PRELUDE}
{classes}
def f(x):
    r = None
    try:
{body}
    except Exception as error:
        r = (r, type(error).__name__, str(error), len(error.args))
    return x + 1, r
"""


def check(statements: str) -> None:
    """The statements do the same, captured whole, as uncompiled. An expression stands for its value."""
    if "\n" not in statements.strip() and not statements.lstrip().startswith(("r =", "import ")):
        try:
            compile(statements.strip(), "<snippet>", "eval")
            statements = f"r = {statements.strip()}"
        except SyntaxError:
            pass
    same(Source(program(statements)), T(3), compare_dynamo=False)


def cases(text: str) -> list[str]:
    """Snippets separated by empty lines; a paragraph of expressions gives one snippet for each line."""
    found = []
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        lines = paragraph.split("\n")
        try:
            for line in lines:
                compile(line.strip(), "<snippet>", "eval")
            found += [line.strip() for line in lines]
        except SyntaxError:
            found.append(paragraph)
    return found
