"""A corpus is many small programs written compactly: arguments come from the names of the parameters.

    corpus = Corpus()

    @corpus.core
    def loop_with_else(x, n): ...           # x is a tensor, n is 3: see ARGUMENTS

    corpus.core.lines("x + y", "x.sum(0)")  # each line is the result of one program

    test_programs = corpus.test()

`core` programs are captured in one graph. So are `effects`, but they mutate outside objects, perhaps those they depend on
themselves. `later_effects` can't be captured as one graph: there only results count. An argument is given another maker by keyword: `@corpus.core(x=T(2))`.
"""

import ast
import builtins
import collections
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tests.support.harness import T, same
from tests.support.worlds import IMPORTED, compile_source

ARGUMENTS: dict[str, Any] = {
    "x": T(3, 4),
    "y": T(3, 4),
    "z": T(4),
    "w": T(3, 4, grad=True),
    "v": T(4, grad=True),
    "m": T(4, 5),
    "u": T(2, 3, 4),
    "i": T(3, dtype=torch.int64),
    "b": T(3, 4, dtype=torch.bool),
    "n": 3,
    "k": 2,
    "r": 0.5,
    "s": "abc",
    "flag": True,
    "none": None,
    "numbers": lambda: [3, 1, 2],
    "table": lambda: {"a": 1, "b": 2},
    "pair": lambda: (4, 5),
    "tensors": lambda: [torch.ones(3, 4), torch.full((3, 4), 2.0)],
    "named": lambda: {"a": torch.ones(3, 4), "b": torch.full((3, 4), 2.0)},
}

OPTIONS = set(inspect.signature(same).parameters) - {"program", "make_args"}


@dataclass
class Case:
    """One program with the makers of its arguments and the options of the check."""

    name: str
    program: Any
    makers: list[Any]
    options: dict[str, Any]

    def check(self) -> None:
        same(self.program, *self.makers, **self.options)


class Group:
    """The programs of a corpus that are checked with the same options."""

    def __init__(self, corpus: "Corpus", defaults: dict[str, Any]) -> None:
        self.corpus, self.defaults = corpus, defaults

    def add(self, name: str, program: Any, makers: list[Any], options: dict[str, Any]) -> None:
        self.corpus.names[name] += 1
        if self.corpus.names[name] > 1:
            name = f"{name} (again {self.corpus.names[name] - 1})"
        case = Case(name, program, makers, {**self.defaults, **options})
        self.corpus.cases.append(pytest.param(case, id=name))

    def __call__(self, program: Callable | None = None, /, **overrides: Any) -> Callable:
        """Registers a function; its parameters name its arguments."""
        if program is None:
            return lambda late: self(late, **overrides)
        options = {name: overrides.pop(name) for name in list(overrides) if name in OPTIONS}
        makers = []
        for name, parameter in inspect.signature(program).parameters.items():
            if name in overrides:
                makers.append(overrides[name])
            elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                makers.append(ARGUMENTS[name])
        self.add(program.__name__, program, makers, options)
        return program

    def lines(self, *texts: str, using: dict[str, Any] | None = None, wrap: str = "{}", **overrides: Any) -> None:
        """Registers each non-empty line as a program that returns it; `wrap` puts every line into an expression."""
        options = {name: overrides.pop(name) for name in list(overrides) if name in OPTIONS}
        for line in (line.strip() for text in texts for line in text.splitlines()):
            if not line or line.startswith("#"):
                continue
            expression = wrap.format(line)
            known = ARGUMENTS | overrides
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                nodes = list(ast.walk(ast.parse(expression)))
            free = {node.id for node in nodes if isinstance(node, ast.Name)}
            parameters = [name for name in known if name in free and name not in (using or {})]
            namespace: dict[str, Any] = {"__name__": "program", **IMPORTED, **(using or {})}
            unknown = {
                name for name in free if name not in known and name not in namespace and not hasattr(builtins, name)
            }
            bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
            assert unknown <= bound, f"no argument for {unknown} in {line}"
            parameters = [name for name in parameters if name not in bound]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                code = compile_source(f"def f({', '.join(parameters)}):\n    return {expression}\n")
            exec(code, namespace)
            self.add(line, namespace["f"], [known[name] for name in parameters], options)

    def values(self, *texts: str, **overrides: Any) -> None:
        """Registers plain Python, each beside one tensor operation, so that there is a graph to capture.

        A line holds any number of expressions separated by commas, each a program of its own. The graph is always
        the same, so there is no use in comparing it with torch._dynamo's.
        """
        overrides = {"compare_dynamo": False, **overrides}
        for line in (line.strip() for text in texts for line in text.splitlines()):
            if not line or line.startswith("#"):
                continue
            row = f"({line},)"
            for element in ast.parse(row, mode="eval").body.elts:
                self.lines(ast.get_source_segment(row, element), wrap="(x + 1, {})", **overrides)


class Corpus:
    """The programs of one test file."""

    def __init__(self) -> None:
        self.cases: list[Any] = []
        self.names: collections.Counter[str] = collections.Counter()
        self.core = Group(self, {})
        self.effects = Group(self, {"stateful": True, "compare_dynamo": False})
        self.later_effects = Group(self, {"fullgraph": False, "compare_dynamo": False})

    def test(self) -> Callable:
        """The parametrized test of everything registered so far."""

        @pytest.mark.parametrize("case", self.cases)
        def test_program(case: Case) -> None:
            case.check()

        return test_program
