"""Programs whose sizes change from call to call: those of the other files with arguments of other sizes, and programs of
their own, which compute with sizes."""

import ast
import random
import re

from .choices import chances

# Where a program of the other files makes a tensor for a call. All of them take part in arithmetic with tensors of 3.
MADE = re.compile(
    r"torch\.(?:ones|zeros)\(\d, 3\)|torch\.tensor\(\[\[[^\]]*\], \[[^\]]*\]\](?=[,)])|torch\.tensor\(\[[-\d., ]*\](?=[,)])"
)
COMMON = [2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17]
RARE = [0, 1, 1, 31, 64]


def resized(text: str, seed: int) -> str:
    """The program with each call made several times, with tensors of more rows."""
    chance = random.Random(seed)
    head, tail = text.split("STEPS = ", 1)
    steps = []
    for change, arguments in ast.literal_eval(tail):
        for number in range(chance.choice([1, 2, 3])):
            rows = some_size(chance)

            def made(match: re.Match, rows: int = rows) -> str:
                if chance.random() < 0.1:
                    return match[0]
                shape = f"{rows}, 3" if chance.random() < 0.8 else f"{some_size(chance)}, {rows}, 3"
                if match[0].startswith("torch.tensor"):
                    return f"torch.arange({shape.replace(', ', ' * ')} * 1.0).reshape({shape}"
                return f"torch.ones({shape})"

            steps.append((change if number == 0 else "pass", with_grad(MADE.sub(made, arguments))))
    return head + "STEPS = [\n" + "".join(f"    {step!r},\n" for step in steps) + "]\n"


def with_grad(arguments: str) -> str:
    """`reshape(2, 3, requires_grad=True)` as PyTorch takes it."""
    return re.sub(r"(reshape\([^()]*?), requires_grad=True\)", r"\1).requires_grad_()", arguments)


def some_size(chance: random.Random) -> int:
    return chance.choice(COMMON if chance.random() < 0.85 else RARE)


# ---- Programs that compute with sizes ---------------------------------------------------------------------------------
# `{n}` is an int, `{x}` a tensor of any rank but 0, `{y}` another, `{k}` a small constant.
INTS = [
    "{x}.shape[0]", "{x}.shape[0]", "{x}.shape[-1]", "{x}.size(0)", "{x}.size(-1)", "len({x})", "{x}.numel()", "{x}.stride(0)",
    "{x}.shape.numel()", "sum({x}.shape)", "math.prod({x}.shape)", "max({x}.shape)", "min({x}.shape[0], {k})", "{n} + {k}", "{n} - {k}",
    "{n} * {k}", "{n} // {k}", "{n} % {k}", "-{n}", "abs({n} - {m})", "{n} + {m}", "{n} - {m}", "{n} * {m}", "min({n}, {m})",
    "max({n}, {m})", "max({n} - {k}, 0)", "min({n}, {m}, {k})", "math.ceil({n} / {k})", "math.floor({n} / {k})", "int({n} * 0.5)", "round({n} / {k})",
    "int(math.sqrt(abs({n})))", "({n} + {k} - 1) // {k} * {k}", "{n} << 1", "{n} >> 1", "{n} & 7", "{n} | 1", "{n} ^ {k}", "~{n}", "divmod({n}, {k})[0]",
    "divmod({n}, {k})[1]", "{n} ** 2", "{n} // max({m}, 1)", "{n} % max({m}, 1)", "({n} if {n} > {m} else {m})", "({n} and {m})", "({n} or {k})", "int({n} == {m})",
    "torch.Size([{n}, {k}])[0]", "{x}.t().shape[0] if {x}.dim() == 2 else {n}", "next(iter({x}.shape))", "[*{x}.shape][-1]", "len(range({k}, 8))", "{x}.storage_offset()", "{x}.dim()",
    "int(bool({n}))", "int({n} in (2, 3, {m}))", "sorted([{n}, {m}])[0]", "functools.reduce(lambda a, b: a * b, {x}.shape, 1)", "len([1] * min(max({n}, 0), 4))", "hash({n})",
]  # fmt: skip

TENSORS = [
    "{x} + 1", "{x} * {n}", "{x} / ({n} + 0.5)", "{x}.relu()", "{x}.sum(0, keepdim=True)", "{x}.sum(-1, keepdim=True) + {x}", "{x}.softmax(-1)", "{x}.cumsum(0)", "{x}.flatten()",
    "{x}.transpose(0, -1)", "{x}.transpose(0, -1).contiguous()", "{x}.unsqueeze(0)", "{x}.unsqueeze(-1)", "{x}[None]", "{x}.reshape(-1)", "{x}.reshape({x}.shape[0], -1)", "{x}.view({x}.shape)",
    "{x}.view(-1, {x}.shape[-1])", "{x}.expand(2, *{x}.shape)", "{x}[: {n}]", "{x}[{n} :]", "{x}[-{n} :]", "{x}[1:]", "{x}[:-1]", "{x}[::2]", "{x}[{k} : {n}]", "{x}[..., : {n}]", "{x}[..., -1:]", "{x}[: {n} // 2]",
    "{x}[: len({y})]", "{x}[: min(len({x}), len({y}))] if {x}.dim() == 1 else {x}", "torch.cat([{x}, {x}])", "torch.cat([{x}, {x}[: {n}]])", "torch.cat([{x}.flatten(), {y}.flatten()])", "torch.stack([{x}, {x} + 1])",
    "torch.arange({n})", "torch.arange(abs({n}) % 50).float()", "torch.zeros(abs({n}) % 40)", "torch.ones(abs({n}) % 9, {k})", "torch.full((abs({n}) % 7, 2), {m} * 1.0)", "{x}.new_zeros(len({x}), 2)", "torch.zeros_like({x})",
    "torch.arange({x}.shape[0] * 1.0)", "torch.linspace(0, 1, {x}.shape[0])", "{x}.flatten() @ {x}.flatten().unsqueeze(-1)", "{x}.reshape({x}.shape[0], -1) @ {x}.reshape({x}.shape[0], -1).t()",
    "torch.nn.functional.pad({x}, (1, 2))", "torch.nn.functional.pad({x}, (0, abs({n}) % 5))", "torch.nn.functional.layer_norm({x}, {x}.shape[-1:])", "torch.nn.functional.linear({x}, {x}.new_ones(3, {x}.shape[-1]))",
    "torch.where({x} > 0, {x}, -{x})", "{x}.masked_fill({x} > {n}, 0.0)", "{x}.clamp(max={n})", "{x}.flip(0)", "{x}.roll({n}, 0)", "{x}.repeat(2, *[1] * ({x}.dim() - 1))", "{x}.repeat(*[1] * {x}.dim())", "{x}.mean(0, keepdim=True)",
    "{x}.amax(-1, keepdim=True)", "{x}.narrow(0, 0, {x}.shape[0] // 2)", "{x}.narrow(0, {x}.shape[0] // 2, {x}.shape[0] - {x}.shape[0] // 2)", "{x}.split({x}.shape[0] // 2 + 1)[0]", "{x}.chunk(2)[-1]", "{x}.select(0, {x}.shape[0] - 1).reshape(-1)",
    "{x}[{x}.shape[0] - 1 :]", "{x}[{x}.shape[0] // 2][None]", "{x}[-1:]", "{x}.reshape(-1)[: {n}]", "{x}.diff(dim=0)", "{x}.unfold(0, 2, 1)", "{x}.tril() if {x}.dim() >= 2 else {x}", "{x}.movedim(0, -1)", "{x}.squeeze()[None]", "{x}.squeeze(0)[None]",
    "torch.broadcast_to({x}[:1], {x}.shape)", "{x}.index_select(0, torch.arange({x}.shape[0] - 1, -1, -1))", "{x}[torch.arange({x}.shape[0]) % 2 == 0]", "{x}[torch.arange(len({x}))]", "{x}.gather(0, torch.zeros_like({x}, dtype=torch.long))",
    "{x}.sort(0)[0]", "{x}.topk(1, 0)[0]", "{x}.argmax(-1, keepdim=True) * 1.0", "torch.einsum('i,j->ij', {x}.flatten(), {x}.flatten()[: {k}])", "{x} + {x}[:1]", "{x} * {x}.shape[0] ** -0.5", "{x} + {y}", "{x} * {y}[:1]", "{x} - {y}.flatten()[0]",
    "{x}.add_({n})", "{x}.mul_(2)", "{x}.as_strided((max({x}.numel() // 2, 1),), (1,)) if {x}.is_contiguous() and {x}.numel() > 1 else {x}", "{x}.contiguous(memory_format=torch.contiguous_format)", "{x}.detach().clone()", "{x}.double().float()",
    "{x}.unbind(0)[0][None]", "torch.tensor([{n} * 1.0, {m} * 1.0])", "torch.tensor({n} * 1.0)[None]", "torch.nn.functional.dropout({x}, 0.5)", "torch.rand({x}.shape[0])", "torch.nn.functional.interpolate({x}.flatten()[None, None], scale_factor=2).flatten()",
    "torch.nn.functional.avg_pool1d({x}.flatten()[None], 2).flatten()", "torch.nn.functional.one_hot(torch.arange({x}.shape[0]) % 3, 3) * 1.0", "torch.meshgrid({x}.flatten(), torch.arange(2.0), indexing='ij')[0]",
]  # fmt: skip

CONDITIONS = [
    "{n} > {m}", "{n} == {m}", "{n} % 2 == 0", "{n} < {k}", "{x}.shape == {y}.shape", "{x}.shape[0] == {y}.shape[0]", "{n}", "not {n}", "{x}.is_contiguous()", "{x}.dim() > 1", "{x}.numel() > 20",
    "0 < {n} < {m}", "{n} in (2, 3, 4)", "isinstance({n}, int)", "{x}.shape[-1] != 1", "len({x}) >= {k}", "{n} > {k} and {m} > {k}", "{x}.stride(0) == 1", "{x}.requires_grad",
]  # fmt: skip

EFFECTS = ["SEEN.append({n})", "TABLE['n'] = {n}", "HOLDER.n = {n}", "TABLE[{n}] = 1", "print({n})", "print(f'{{{n}:>3}}')", "SEEN.append(str({n}))", "torch._dynamo.graph_break()", "HOLDER.t = {x}", "SEEN.append(list({x}.shape))",
           "SEEN.append({x}.shape)", "SEEN.append({x}.stride())", "assert {n} != 12345", "SEEN[:] = [{n}] * min(max({m}, 0), 3)", "HOLDER.n += {n}", "TABLE.setdefault('m', {n})"]  # fmt: skip


class Body:
    """The statements of one program."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.tensors, self.ints, self.count = ["t1"], ["n1"], 1

    def late(self, names: list[str]) -> str:
        return names[-1 - int(len(names) * self.chance.random() ** 2)]

    def filled(self, text: str) -> str:
        number = lambda: self.late(self.ints)  # noqa: E731
        return text.format(
            n=number(),
            m=number(),
            k=self.chance.choice([1, 2, 3, 4, 8]),
            x=self.late(self.tensors),
            y=self.late(self.tensors),
        )

    def one(self, depth: int) -> list[str]:
        draw = self.chance.random()
        self.count += 1
        if draw < 0.3:
            line = f"n{self.count} = {self.filled(self.chance.choice(INTS))}"
            self.ints.append(f"n{self.count}")
            return [line]
        if draw < 0.78 or depth > 2:
            line = f"t{self.count} = {self.filled(self.chance.choice(TENSORS))}"
            self.tensors.append(f"t{self.count}")
            return [line]
        if draw < 0.86:
            return [self.filled(self.chance.choice(EFFECTS))]
        if draw < 0.93:
            head = f"if {self.filled(self.chance.choice(CONDITIONS))}:"
        elif draw < 0.97:
            head = self.filled(f"for i{self.count} in range(min(max({{n}}, 0), 3)):")
        else:
            head = f"for n{self.count} in {self.late(self.tensors)}.shape:"
        lines = [head, *self.inner(depth)]
        if head.startswith("if") and self.chance.random() < 0.5:
            lines += ["else:", *self.inner(depth)]
        return lines

    def inner(self, depth: int) -> list[str]:
        """What a block defines may not exist behind it: it assigns what exists."""
        tensors, ints = list(self.tensors), list(self.ints)
        lines = [line for _ in range(self.chance.choice([1, 1, 2])) for line in self.one(depth + 1)]
        changed = [f"{self.chance.choice(tensors)} = {self.tensors[-1]}"] if len(self.tensors) > len(tensors) else []
        self.tensors, self.ints = tensors, ints
        return ["    " + line for line in (*lines, *changed)]


def shaped(chance: random.Random, shape: list[int]) -> str:
    numel = " * ".join(map(str, shape))
    plain = f"torch.arange({numel} * 1.0).reshape({', '.join(map(str, shape))})"
    draw = chance.random()
    if draw < 0.7:
        return plain
    if draw < 0.78:
        return f"{plain}.requires_grad_()"
    if draw < 0.86:
        return f"torch.ones({', '.join(map(str, reversed(shape)))}).transpose(0, -1)"
    if draw < 0.9:
        return f"torch.ones({', '.join(map(str, [2 * shape[0], *shape[1:]]))})[::2]"
    if draw < 0.94:
        return f"torch.ones({', '.join(map(str, [shape[0] + 2, *shape[1:]]))})[1:-1]"
    if draw < 0.97:
        return f"torch.ones(1).expand({', '.join(map(str, shape))})"
    return f"-{plain}"


def steps_of(chance: random.Random, shapes: list[list[int]]) -> list[tuple[str, str]]:
    """Calls with the shapes of the first one, of which some sizes change; equal ones often stay equal."""
    steps = []
    varies = [[chance.random() < 0.6 for _ in shape] for shape in shapes]
    for _ in range(chance.randint(4, 9)):
        together = {size: some_size(chance) for shape in shapes for size in shape}
        now = [
            [
                size if not vary else together[size] if chance.random() < 0.8 else some_size(chance)
                for size, vary in zip(shape, which, strict=True)
            ]
            for shape, which in zip(shapes, varies, strict=True)
        ]
        change = chance.choice(
            ["pass", "pass", "pass", f"HOLDER.n = {some_size(chance)}", f"HOLDER.t = torch.ones({some_size(chance)})"]
        )
        number = chance.choice([2, 3, 3, 4, 5, 7, 0, -1, 100])
        steps.append((change, ", ".join([*(shaped(chance, shape) for shape in now), str(number)])))
    return steps


def generate_sized(seed: int | random.Random) -> str:
    """A program that computes with the sizes of its arguments."""
    chance = chances(seed)
    shapes = [
        [chance.choice([2, 3, 4, 5, 6, 8]) for _ in range(chance.choice([1, 2, 2, 3]))]
        for _ in range(chance.choice([1, 1, 2]))
    ]
    body = Body(chance)
    parameters = [f"a{number}" for number in range(len(shapes))]
    body.tensors = [*parameters]
    if chance.random() < 0.3:
        body.tensors.append("HOLDER.t")
        body.ints.append("HOLDER.n")
    lines = [line for _ in range(chance.randint(3, 12)) for line in body.one(0)]
    results = [*body.tensors[-3:], *body.ints[-3:]]
    return "\n".join(
        [
            "SEEN, TABLE = [], {}",
            "class Holder:\n    n = 3",
            "HOLDER = Holder()",
            "HOLDER.t = torch.arange(4.0)",
            f"def f({', '.join([*parameters, 'n1'])}):",
            *(f"    {line}" for line in lines),
            f"    return {', '.join(results)}",
            "STEPS = [",
            *(f"    {step!r}," for step in steps_of(chance, shapes)),
            "]",
            "",
        ]
    )
