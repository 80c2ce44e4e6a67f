"""A whole random program: definitions, outside state, the function or model `f`, and the steps that call it."""

import random
import re

from .definitions import FIXED, FUNCTIONS, NEEDS, WRITTEN
from .expressions import EXPRESSIONS, LEAVES
from .models import generate_model
from .sizes import generate_sized, resized
from .statements import STATEMENTS
from .writer import PREFIXES, Grammar, Unavailable, Variable, Writer

GRAMMAR = Grammar(LEAVES, EXPRESSIONS, STATEMENTS)
WORD = re.compile(r"[A-Za-z_]\w*")

STATE = ["tensor", "tensor", "int", "tensors", "ints", "table", "named", "queue", "marks", "counts", "float"]

PARAMETERS = {
    "tensor": ["torch.tensor([1.0, -2.0, 3.0])", "torch.tensor([0.0, 1.0, 2.0], requires_grad=True)", "torch.ones(2, 3)",
               "torch.tensor([2.0, 2.0, -5.0])", "torch.zeros(3)", "<@tensor>"],
    "int": ["0", "1", "2", "3"],
    "bool": ["True", "False"],
    "tensors": ["[torch.ones(3), torch.arange(3.0)]", "[]", "<@tensors>"],
    "ints": ["[1, 2, 3]", "[2]", "<@ints>"],
    "table": ["{'a': 1, 'b': 2}", "{}", "<@table>"],
    "obj": ["<@obj>", "Thing(2, torch.ones(3))"],
    "module": ["<@module>"],
}  # fmt: skip

BETWEEN_CALLS = [
    (4, "pass"),
    (3, "<@int1> = <int>"),
    (2, "<@tensor1> = <tensor>"),
    (1, "<@tensor>.add_(1)"),
    (1, "<@tensor>.requires_grad_(True)"),
    (2, "<@tensors>.append(<tensor>)"),
    (1, "<@tensors>.clear()"),
    (1, "<@tensors1> = <tensors>"),
    (2, "<@ints>.append(<int>)"),
    (1, "<@ints>[:] = <ints>"),
    (2, "<@table>['a'] = <int>"),
    (1, "<@table>.pop('a', None)"),
    (1, "<@table>.clear()"),
    (2, "<@named>['a'] = <tensor>"),
    (1, "<@named>['a'] = torch.ones(2, 3)"),
    (2, "<@obj>.n = <int>"),
    (2, "<@obj>.t = <tensor>"),
    (1, "<@obj1>.__class__ = Sub if type(<@obj1>) is Thing else Thing"),
    (1, "<@obj>.apply = lambda t, n=1: t + 7"),
    (1, "Thing.level = <int>"),
    (1, "Thing.apply = lambda self, t, n=1: t * self.n"),
    (1, "Thing.scaled = property(lambda self: self.t + 5)"),
    (1, "<@fn1> = lambda t, n=1: t - n"),
    (1, "<@module1>.train(not <@module1>.training)"),
    (1, "<@module>.weight.requires_grad_(False)"),
    (1, "<@module>.weight = torch.nn.Parameter(torch.ones(3))"),
    (1, "<@module>.register_forward_hook(hook)"),
    (1, "<@module>.n = <int>"),
    (1, "len = lambda c: 12"),
    (1, "opaque = lambda t, n=1: t - 3"),
]


# The expressions and statements that name a definition or one below it.
BELOW = {
    name: re.compile(rf"(?<!def )(?<!class )\b({'|'.join(list(WRITTEN)[number:])})\(")
    for number, name in enumerate(WRITTEN)
}


def generate(seed: int, sizes: bool = False) -> str:
    """The text of the program of this seed: every other one is a model. With `sizes`, the sizes of its arguments change
    between calls, and every other one computes with them."""
    if sizes:
        return generate_sized(seed) if seed % 2 else resized(generate(seed // 2), seed)
    return generate_model(seed) if seed % 2 else generate_function(seed)


def generate_function(seed: int | random.Random) -> str:
    writer = Writer(GRAMMAR, seed)
    chance, choose = writer.chance, writer.random.choice
    body: list[str] = []
    writer.statements_left = 9
    bodies = written_definitions(writer)
    for kind in writer.random.sample(STATE, writer.random.randint(2, 6)):
        name = f"G{len(body) + 1}"
        body.append(f"{name} = {writer.expression(kind, 1)}")
        writer.variables.append(Variable(name, kind, None))
    writer.statements_left = 8
    for _ in range(writer.random.randint(0, 2)):
        body += writer.lines(choose(FUNCTIONS))
    if chance(0.5):
        body.append(f"G_obj = {writer.filled('<obj>')}")
        writer.variables.append(Variable("G_obj", "obj", None))
    if chance(0.4):
        body.append(f"G_mod = {choose(['Net', 'Net', 'Stack'])}({choose('012')})")
        writer.variables.append(Variable("G_mod", "module", None))
        if chance(0.3):
            body.append(f"G_mod.{choose(['register_forward_hook(hook)', 'eval()', 'requires_grad_(False)'])}")

    kinds = ["tensor"] + [kind for kind in PARAMETERS if chance(0.3) and (kind != "module" or "G_mod" in str(body))]
    parameters = [f"{name}{number}" for number, name in enumerate((PREFIXES[kind] for kind in kinds), start=1)]
    writer.statements_left = writer.random.randint(6, 18)
    blocks = "\n".join(["    <block>"] * writer.random.randint(2, 5))
    body += writer.lines(f"def f({', '.join(parameters)}):\n{blocks}\n    return <result>")
    steps = written_steps(writer, kinds)
    return "\n".join([*preamble([*body, *(text for step in steps for text in step)], bodies), *body, "STEPS = [",
                      *(f"    ({change!r}, {arguments!r})," for change, arguments in steps), "]"]) + "\n"  # fmt: skip


def written_definitions(writer: Writer) -> dict[str, list[str]]:
    """A definition refers only to those above it, so that nothing recurses forever."""
    bodies = {}
    for name, text in WRITTEN.items():
        keep = writer.chance(0.6)
        lines = [line for line in text.strip().split("\n") if keep or line.strip() != "<block>"]
        writer.forbidden = BELOW[name]
        bodies[name] = writer.section(lines, {})
        writer.variables.clear()
    writer.forbidden = None
    return bodies


def written_steps(writer: Writer, kinds: list[str]) -> list[tuple[str, str]]:
    """Changes of the state with the arguments of the call that follows; no arguments means those of the last call."""
    steps = []
    writer.function = None
    for number in range(writer.random.randint(2, 5)):
        change = "pass"
        if number:
            for _ in range(5):
                texts, weights = [text for _, text in BETWEEN_CALLS], [weight for weight, _ in BETWEEN_CALLS]
                try:
                    change = writer.filled(writer.random.choices(texts, weights)[0], 1)
                    break
                except Unavailable:
                    continue
        arguments = ""
        if number == 0 or writer.chance(0.6):
            arguments = "".join(f"{argument(writer, kind)}, " for kind in kinds).strip()
        steps.append((change, arguments))
    return steps


def argument(writer: Writer, kind: str) -> str:
    for _ in range(5):
        try:
            return writer.filled(writer.random.choice(PARAMETERS[kind]))
        except Unavailable:
            continue
    return PARAMETERS[kind][0] if kind != "obj" else "Thing(2, torch.ones(3))"


def preamble(body: list[str], bodies: dict[str, list[str]]) -> list[str]:
    """The definitions that the program names, and those that these name."""
    wanted: set[str] = set()
    texts = ["\n".join(body)]
    while texts:
        for word in set(WORD.findall(texts.pop())):
            if word not in wanted and (word in FIXED or word in bodies):
                wanted.add(word)
                texts.append(FIXED[word] if word in FIXED else "\n".join(bodies[word]))
                texts += NEEDS.get(word, [])
    return [line for name in (*FIXED, *WRITTEN) if name in wanted
            for line in (FIXED[name].strip().split("\n") if name in FIXED else bodies[name])]  # fmt: skip
