"""Writes random text by a grammar of templates, keeping track of which variables there are.

A template is Python with places in angle brackets:
    <tensor>    an expression of that kind
    <@tensor>   a variable that exists
    <~tensor>   a variable of this very function
    <=tensor>   a variable to assign, new or the function's own; it can be used from the next line on
    <&tensor>   a new variable that exists between <{> and <}> alone, as in a comprehension
    <!int>      a global variable to assign
    <^int>      a variable of an enclosing function to assign
    <?>         a new name that nobody else uses
    <block>     statements, on a line of its own
A digit behind the kind names the same text again: `<@tensors1>[len(<@tensors1>) - 1]`.
A line that begins with `def` opens a function; its parameters have the kinds that their names begin with.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .choices import chances

PLACE = re.compile(r"<([@~=&!^?{}]?)([a-z_]*)(\d*)>")
BREAKS = re.compile(
    r"<cond>|opaque|print\(|_logger|warn|item\(\)|tolist|nonzero|stack\(\)|locals|_getframe|line_of|graph_break"
    r"|(int|float|bool)\(<tensor>"
)
ERRORS = re.compile(
    r"raise|refuse|assert|popleft\(\)|pop\(\)|\.remove\(|% \(<int>\)|// \(|torch.ones\(<int>|del |\[<str>\](?! =)"
    r"|<@tensors>\[|<@ints>\[|len\(<@\w+1>\)\]|<@obj>\[|reduce|out="
)
DEFINITION = re.compile(r"(?:async )?def (\w+)\((.*)\)(?: -> .*)?:$")

# What a parameter or a variable is called, for each kind.
PREFIXES = {
    "tensor": "t", "int": "n", "float": "r", "bool": "c", "str": "s", "tensors": "ts", "ints": "ns", "table": "d",
    "named": "named", "pair": "pair", "queue": "q", "marks": "marks", "counts": "counts", "obj": "obj", "fn": "fn",
    "module": "mod", "gen": "gen", "self": "self",
}  # fmt: skip
KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}


class Unavailable(Exception):
    """A template needs a variable that does not exist here."""


@dataclass
class Variable:
    name: str
    kind: str
    owner: "Function | None"
    made_here: bool = False


@dataclass
class Function:
    """A function being written, and what it may contain."""

    parent: "Function | None" = None
    returns_value: bool = True
    is_generator: bool = False
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)


NOBODY = Function()


@dataclass
class Grammar:
    leaves: dict[str, Sequence[str]]
    expressions: dict[str, Sequence[tuple[int, str]]]
    statements: Sequence[tuple[int, str, str]]


class Writer:
    """One program in the making."""

    def __init__(self, grammar: Grammar, seed: int | random.Random, statements: int = 26) -> None:
        self.grammar = grammar
        self.random = chances(seed)
        self.variables: list[Variable] = []
        self.function: Function | None = None
        self.in_loop = False
        self.blocks = 0
        self.names = 0
        self.statements_left = statements
        self.forbidden: re.Pattern | None = None
        # How many graph breaks are written: programs without any are captured in one graph.
        self.break_rate = self.random.choice([0.0, 0.0, 0.1, 0.3, 1.0])
        self.error_rate = self.random.choice([0.0, 0.0, 0.1, 0.5])
        # Whether outside objects are mutated, or only those that the function made.
        self.changes_outside = self.chance(0.6)
        self.only_made_here = False

    # ---- choosing ----------------------------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def wanted(self, template: str) -> bool:
        """Whether a template suits the program: some have no breaks, some have no errors."""
        for pattern, rate in ((BREAKS, self.break_rate), (ERRORS, self.error_rate)):
            if rate < 1 and pattern.search(template) and not self.chance(rate):
                return False
        return True

    def fresh(self, kind: str) -> str:
        self.names += 1
        return f"{PREFIXES.get(kind, kind)}{self.names}"

    def variable(self, kind: str) -> str:
        found = [one.name for one in self.variables if one.kind == kind and (one.made_here or not self.only_made_here)]
        if not found:
            raise Unavailable(kind)
        # Later variables are chosen more often.
        return found[-1 - int(len(found) * self.random.random() ** 2)]

    def own_variable(self, kind: str) -> str:
        found = [one.name for one in self.variables if one.kind == kind and one.owner is self.function]
        if not found or self.function is None:
            raise Unavailable(kind)
        return self.random.choice(found)

    def global_variable(self, kind: str) -> str:
        found = [one.name for one in self.variables if one.kind == kind and one.owner is None]
        if not found or self.function is None:
            raise Unavailable(kind)
        name = self.random.choice(found)
        self.function.globals.add(name)
        return name

    def enclosing_variable(self, kind: str) -> str:
        enclosing, function = set(), self.function and self.function.parent
        while function is not None:
            enclosing.add(id(function))
            function = function.parent
        own = {one.name for one in self.variables if one.owner is self.function}
        found = [
            one.name
            for one in self.variables
            if one.kind == kind and id(one.owner) in enclosing and one.name not in own
        ]
        if not found or self.function is None:
            raise Unavailable(kind)
        name = self.random.choice(found)
        self.function.nonlocals.add(name)
        return name

    def target(self, kind: str) -> str:
        own = [one.name for one in self.variables if one.kind == kind and one.owner is self.function]
        if own and self.function is not None and self.chance(0.5):
            return self.random.choice(own)
        return self.fresh(kind)

    # ---- expressions -------------------------------------------------------------------------------------------------
    def expression(self, kind: str, depth: int = 2) -> str:
        if self.chance(0.45 if depth > 0 else 0.8):
            try:
                return self.variable(kind)
            except Unavailable:
                pass
        choices = self.grammar.expressions.get(kind, ())
        if depth > 0 and choices:
            for _ in range(5):
                (template,) = self.random.choices([text for _, text in choices], [weight for weight, _ in choices])
                if not self.wanted(template):
                    continue
                try:
                    return self.filled(template, depth - 1)
                except Unavailable:
                    continue
        return self.filled(self.random.choice(self.grammar.leaves[kind]), depth - 1)

    def filled(self, template: str, depth: int = 2, known: dict[str, str] | None = None) -> str:
        """One line of a template with its places filled; `known` are the numbered places of the lines before."""
        if self.forbidden and self.forbidden.search(template):
            raise Unavailable(template)
        known = {} if known is None else known
        before = len(self.variables)
        inner: list[Variable] = []
        targets: list[Variable] = []
        for sigil, kind, digit in PLACE.findall(template):
            if sigil == "&":
                known[kind + digit] = name = self.fresh(kind)
                inner.append(Variable(name, kind, NOBODY))

        def fill(place: re.Match) -> str:
            sigil, kind, digit = place.groups()
            if sigil in ("{", "}"):
                self.variables[before:] = inner if sigil == "{" else []
                return ""
            key = kind + digit
            if sigil == "&" or (digit and key in known):
                return known[key]
            if sigil == "@":
                text = self.variable(kind)
            elif sigil == "~":
                text = self.own_variable(kind)
            elif sigil == "=":
                text = self.target(kind)
                targets.append(Variable(text, kind, self.function, made_here=True))
            elif sigil == "!":
                text = self.global_variable(kind)
            elif sigil == "^":
                text = self.enclosing_variable(kind)
            elif sigil == "?":
                text = self.fresh("k")
            else:
                text = self.expression(kind, depth)
                if not text.isidentifier() and (digit or template[place.end() : place.end() + 1] in (".", "[")):
                    text = f"({text})"
            if digit:
                known[key] = text
            return text

        try:
            text = PLACE.sub(fill, template)
        finally:
            del self.variables[before:]
        for target in targets:
            if all(one.name != target.name for one in self.variables):
                self.variables.append(target)
        return text

    # ---- statements --------------------------------------------------------------------------------------------------
    def block(self, size: int) -> list[str]:
        """A block of statements; the variables they make are not used after it."""
        variables = list(self.variables)
        self.blocks += 1
        lines: list[str] = []
        for _ in range(size):
            if self.statements_left <= 0 and lines:
                break
            lines += self.statement()
            if lines[-1].split(" ")[0] in ("return", "raise", "break", "continue"):
                break
        self.blocks -= 1
        self.variables = variables
        return lines or ["pass"]

    def statement(self) -> list[str]:
        self.statements_left -= 1
        choices = self.grammar.statements
        weights = [weight for weight, _, _ in choices]
        for _ in range(8):
            ((_, needs, template),) = self.random.choices(choices, weights)
            if not self.allowed(needs, template) or not self.wanted(template):
                continue
            if "change" in needs and not self.changes_outside:
                if "<!" in template or "<^" in template or "<@self" in template or "<@module" in template:
                    continue
                self.only_made_here = True
            known = len(self.variables)
            try:
                return self.lines(template)
            except Unavailable:
                del self.variables[known:]
            finally:
                self.only_made_here = False
        return self.lines("<=tensor> = <tensor>")

    def allowed(self, needs: str, template: str) -> bool:
        function = self.function
        if "<block>" in template and (self.blocks > 3 or self.statements_left <= 0):
            return False
        if "loop" in needs and not self.in_loop:
            return False
        if "generator" in needs and not (function and function.is_generator):
            return False
        if "value" in needs and (function is None or function.is_generator or not function.returns_value):
            return False
        return "nested" not in needs or (function is not None and function.parent is not None)

    def lines(self, template: str) -> list[str]:
        """The lines of a template of one or more lines, with blocks and functions inside."""
        return self.section(template.strip("\n").split("\n"), {})

    def section(self, template: list[str], places: dict[str, str]) -> list[str]:
        written: list[str] = []
        at = 0
        while at < len(template):
            line = template[at].strip()
            indent = len(template[at]) - len(template[at].lstrip())
            at += 1
            margin = " " * indent
            if line == "<block>":
                inside_loop = self.in_loop
                self.in_loop = inside_loop or self.opens_loop(template, at - 1, indent)
                written += [margin + one for one in self.block(self.random.randint(1, 3))]
                self.in_loop = inside_loop
            elif line.startswith(("def ", "async def ")):
                known = len(self.variables)
                line = self.filled(line, known=places)
                # A function must not recurse forever: it can be called only after its body.
                defined = self.variables[known:]
                del self.variables[known:]
                end = at
                while end < len(template) and len(template[end]) - len(template[end].lstrip()) > indent:
                    end += 1
                body = [one[indent + 4 :] for one in template[at:end]]
                written.append(margin + line)
                written += [margin + "    " + one for one in self.body(line, body, places)]
                self.variables += defined
                at = end
            else:
                written.append(margin + self.filled(line, known=places))
        return written

    @staticmethod
    def opens_loop(template: list[str], at: int, indent: int) -> bool:
        """Whether the block stands in a loop of this template."""
        for line in reversed(template[:at]):
            depth = len(line) - len(line.lstrip())
            if depth < indent:
                indent = depth
                if line.strip().startswith(("for ", "while ")):
                    return True
        return False

    def body(self, definition: str, template: list[str], places: dict[str, str]) -> list[str]:
        match = DEFINITION.match(definition)
        assert match, definition
        outer_variables, outer_loop = list(self.variables), self.in_loop
        self.in_loop = False
        text = "\n".join(template)
        yields, is_asynchronous = "yield" in text, definition.startswith("async ")
        # An asynchronous generator returns nothing, and does not delegate.
        returns_value = match[1] != "__init__" and not (yields and is_asynchronous)
        function = Function(self.function, returns_value, yields and not is_asynchronous)
        self.function = function
        for parameter in filter(None, (part.strip() for part in match[2].split(","))):
            name = parameter.split("=")[0].split(":")[0].strip()
            if not name.startswith("*"):
                kind = KINDS.get(name.rstrip("0123456789"))
                if kind:
                    self.variables.append(Variable(name, kind, function))
        try:
            lines = self.section(template, places)
        finally:
            self.function, self.variables, self.in_loop = function.parent, outer_variables, outer_loop
        declared = []
        if function.globals:
            declared.append(f"global {', '.join(sorted(function.globals))}")
        if function.nonlocals:
            declared.append(f"nonlocal {', '.join(sorted(function.nonlocals))}")
        return declared + lines
