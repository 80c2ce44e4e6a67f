"""Comparisons whose truth value is tested."""

import pytest

from tests.support.harness import Source, T, same

# From 3.13 on a comparison and the question for its truth are one opcode. Between the two the program may break, so
# that what goes on there can't be left to CPython as it is.
COMPARED = """
import sys
class Number:
    def __init__(self, n): self.n = n
    def __lt__(self, other):
        print("compared", self.n)
        return Answer(self.n < other.n)
class Answer:
    def __init__(self, yes): self.yes = yes
    def __bool__(self):
        print("asked")
        if self.yes is None: raise ValueError("unsure")
        return self.yes
class Unsure(Number):
    def __lt__(self, other): return Answer(None)
"""
COMPARISONS = {
    "breaks in both": """
def f(x):
    y = x + 1
    if Number(1) < Number(2):
        y = y * 2
    return y, 3 if Number(5) < Number(4) else 4
""",
    "in a loop": """
def f(x):
    n = 0
    while Number(n) < Number(3):
        x = x * 2 + n
        n += 1
    return x
""",
    "the truth fails": """
def f(x):
    y = x + 1
    try:
        if Unsure(1) < Number(2):
            y = y * 2
    except ValueError as error:
        return y + 3, str(error), error.__traceback__.tb_lineno
    return y
""",
    "the failure leaves": """
def f(x):
    y = x + 1
    if Unsure(1) < Number(2):
        y = y * 2
    return y
""",
    "tensors": """
def f(x):
    y = x + 1
    if y.sum() > 100:
        y = y * 2
    while y.abs().max() < 50:
        y = y * 3
    return y
""",
    "a tensor of several": """
def f(x):
    y = x + 1
    if y > 1:
        y = y * 2
    return y
""",
    "a debugger comes": """
def tracer(frame, event, argument): return None
class Debugged(Number):
    def __lt__(self, other):
        sys.settrace(tracer)
        return Answer(True)
def f(x):
    y = x + 1
    try:
        if Debugged(1) < Number(2):
            y = y * 2
    finally:
        sys.settrace(None)
    return y + 1
""",
    "many in a row, without tensors": """
def f(x):
    count = 0
    for i in range(150):
        if Number(i) < Number(75):
            count += 1
    return x + count
""",
    "in a generator": """
def items(x):
    for i in range(3):
        if Number(i) < Number(2):
            yield x * i
def f(x):
    return list(items(x))
""",
    "chained": """
def f(x):
    return x + (1 if Number(1) < Number(2) < Number(3) else 2), Number(1) < Number(0) < Number(5)
""",
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_asked_for_their_truth(name):
    same(Source(COMPARED + COMPARISONS[name]), T(3), calls=3, fullgraph=False, compare_dynamo=False)
