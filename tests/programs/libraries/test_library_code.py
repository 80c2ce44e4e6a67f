"""The style of Python in which model libraries are written: configurations, outputs, decorators, registries."""

import pytest

from tests.programs.libraries.library import PREAMBLE
from tests.support.harness import Source, T, same

PROGRAMS = {
    "config_is_read": """
def f(x, config=Config(8, output_scores=True, custom=3)):
    hidden = x * config.hidden_size + config.width
    if config.use_scores and getattr(config, "missing", None) is None:
        hidden = hidden + config.custom
    return hidden, config.activation, getattr(config, "chunk", getattr(config, "layers", 0)), hasattr(config, "nothing")
""",
    "config_is_made": """
def f(x):
    config = Config(width=6, layers=3, custom=[1, 2])
    config.use_scores = True
    other = config.copy_with(layers=5)
    return x * config.hidden_size + other.layers, sorted(other.to_dict()), config.use_scores, other.custom is config.custom
""",
    "config_attribute_error": """
def f(x, config=Config()):
    try:
        return x + config.absent
    except AttributeError as error:
        return x - 1, str(error)
""",
    "output_is_returned": """
def f(x):
    output = LayerOutput(hidden=x + 1, scores=x * 2)
    return output
""",
    "output_by_int_and_str": """
def f(x):
    output = LayerOutput(x + 1, extra=(x - 1,))
    first = output[0] + output["hidden"] + output.hidden
    output.scores = first
    output["extra"] = (first,)
    return first, list(output.keys()), len(output), output[-1][0], "scores" in output, output.scores
""",
    "output_to_tuple": """
def f(x):
    hidden, scores = LayerOutput(x + 1, x * 2).to_tuple()
    return hidden - scores, LayerOutput(hidden=scores)[:1]
""",
    "layer_by_decorator": """
def f(x, layer=Layer(Config(output_scores=True))):
    output = layer(x)
    tuple_output = layer.forward(x, mask=x > 0, return_dict=False)
    return output.hidden, tuple_output[-1], len(tuple_output), layer.forward.__name__
""",
    "stack_of_layers": """
def f(x, config=Config(layers=3, activation="silu")):
    layers = [Layer(config, index) for index in range(config.layers)]
    collected = ()
    for layer in layers:
        collected += (x,)
        x = layer(x)[0]
    return x, collected, layers[1].factor, "factor" in vars(layers[1])
""",
    "signature_filters_kwargs": """
@takes_known
def inner(t, by=2, *, shift=0):
    return t * by + shift


def f(x, n):
    return inner(x, by=n, shift=1, unknown=5), inner.__name__, inner.__wrapped__(x)
""",
    "wraps_inside": """
def f(x):
    def times(by):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs) * by
            wrapper.by = by
            return wrapper
        return decorate

    @times(3)
    def shift(t, by=1):
        "Shifts."
        return t + by

    return shift(x, by=2), shift.__name__, shift.__doc__, shift.by, shift.__wrapped__(x), shift.__qualname__.split(".")[-1]
""",
    "registry_of_functions": """
def f(x, s="rectified"):
    chosen = ACTIVATIONS.get(s, F.gelu)
    return chosen(x) + ACTIVATIONS["scaled"](x, by=3), s in ACTIVATIONS, sorted(ACTIVATIONS)
""",
    "isinstance_dispatch": """
def convert(value):
    if isinstance(value, torch.Tensor):
        return value + 1
    if isinstance(value, (list, tuple)):
        return type(value)(convert(one) for one in value)
    if isinstance(value, dict):
        return {key: convert(one) for key, one in value.items()}
    if is_dataclass(value):
        return convert(vars(value))
    if isinstance(value, str) or value is None:
        return value
    return value + 1


def f(x):
    return convert([x, (x, 2), {"a": x, "b": "text"}, None])
""",
    "single_dispatch_by_table": """
HANDLERS = {int: lambda v: v + 1, float: lambda v: v * 2, torch.Tensor: lambda v: v - 1}


def f(x, n, r):
    return [HANDLERS[type(value)](value) for value in (x, n, r)]
""",
    "typing_costs_nothing": """
Number = Union[int, float]


def scale(t: torch.Tensor, by: Optional[Number] = None) -> torch.Tensor:
    by = cast(float, by if by is not None else 2.0)
    result: torch.Tensor = t * by
    return cast("torch.Tensor", result)


def f(x, r):
    return scale(x) + scale(x, r)
""",
    "protocols_and_abstract_classes": """
@runtime_checkable
class Scales(Protocol):
    def scale(self, t): ...


class Base(abc.ABC):
    factor: ClassVar[int] = 3

    @abc.abstractmethod
    def scale(self, t): ...

    @classmethod
    def make(cls, *args):
        return cls(*args)

    @staticmethod
    def double(t):
        return t * 2


class Child(Base):
    def __init__(self, by=1):
        self.by = by

    def scale(self, t):
        return self.double(t) * self.by * self.factor


def f(x):
    child = Child.make(4)
    return child.scale(x), isinstance(child, Scales), isinstance(child, Base), issubclass(Child, Base)
""",
    "generic_container": """
Item = TypeVar("Item")


class Stack(Generic[Item]):
    def __init__(self, *items: Item):
        self.items: list[Item] = list(items)

    def push(self, item: Item) -> "Stack[Item]":
        self.items.append(item)
        return self

    def __len__(self):
        return len(self.items)


def f(x):
    stack = Stack(x).push(x + 1)
    return sum(stack.items), len(stack)
""",
    "named_tuple_with_methods": """
class Sizes(NamedTuple):
    batch: int
    width: int = 4

    @property
    def total(self):
        return self.batch * self.width

    def wider(self, by=2):
        return self._replace(width=self.width * by)


def f(x):
    sizes = Sizes(*x.shape).wider()
    return x.new_zeros(sizes) + sizes.total, sizes, sizes._asdict(), Sizes._fields
""",
    "enum_with_methods": """
class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"

    @property
    def is_training(self):
        return self is Mode.TRAIN

    def scale(self, t):
        return t * (2 if self.is_training else 1)

    @classmethod
    def parse(cls, text):
        return cls(text.lower())

    def __str__(self):
        return f"mode {self.value}"


def f(x, s="EVAL"):
    mode = Mode.parse(s)
    return mode.scale(x) + Mode.TRAIN.scale(x), str(mode), [one.name for one in Mode]
""",
    "dataclass_in_full": """
@dataclass(order=True)
class Options:
    name: str = "n"
    sizes: list = field(default_factory=list)
    hidden: Any = field(default=None, repr=False, compare=False)
    kind: ClassVar[str] = "options"

    def __post_init__(self):
        self.sizes.append(1)


@dataclass(frozen=True)
class Key:
    layer: int
    name: str = "k"


def f(x):
    options = Options("a", hidden=x)
    changed = dataclasses.replace(options, name="b")
    cache = {Key(1): x + 1, Key(2): x + 2}
    return (
        options.hidden + cache[Key(2)], repr(options), options == changed, options < changed, changed.sizes,
        [each.name for each in fields(Options)], dataclasses.asdict(Key(3)), Key(1) in cache, hash(Key(1)) == hash(Key(1)),
    )
""",
    "cache_object": """
class Cache:
    def __init__(self):
        self.keys, self.values = [], []
        self._seen = 0

    def update(self, key, value, layer):
        if layer == 0:
            self._seen += key.shape[-2]
        if len(self.keys) <= layer:
            self.keys.append(key)
            self.values.append(value)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=-2)
            self.values[layer] = torch.cat([self.values[layer], value], dim=-2)
        return self.keys[layer], self.values[layer]

    def __getitem__(self, layer):
        if layer < len(self):
            return self.keys[layer], self.values[layer]
        raise KeyError(f"only {len(self)} layers")

    def __iter__(self):
        for layer in range(len(self)):
            yield self.keys[layer], self.values[layer]

    def __len__(self):
        return len(self.keys)


def f(x):
    cache = Cache()
    for _ in range(2):
        for layer in range(2):
            key, value = cache.update(x + layer, x - layer, layer)
    return [k.sum() for k, v in cache], cache[1][0], cache._seen, cache
""",
    "context_managers": """
class Scope:
    stack = ()

    def __init__(self, name, log):
        self.name, self.log = name, log

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return kind is KeyError


@contextlib.contextmanager
def scope(name, log):
    log.append(f"+{name}")
    try:
        yield name.upper()
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append(f"-{name}")


def f(x):
    log = []
    with Scope("a", log) as outer, scope("b", log) as inner:
        x = x + len(inner)
    with Scope("c", log):
        raise KeyError("swallowed")
    with scope("d", log):
        raise ValueError("caught")
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    with contextlib.nullcontext(x) as same:
        x = same * 2
    return x, log
""",
    "exit_stack": """
@contextlib.contextmanager
def scope(name, log):
    log.append(name)
    yield name
    log.append(f"-{name}")


def f(x):
    log = []
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(scope(name, log)) for name in "ab"]
        x = x + len(names)
    return x, log
""",
    "lazy_attribute": """
class Rotary:
    _table = None

    def __init__(self, base):
        self.base = base

    @property
    def table(self):
        if self._table is None:
            self._table = torch.arange(4) * self.base
        return self._table

    def __call__(self, t):
        return t * self.table + self.table.sum()


def f(x):
    rotary = Rotary(3.0)
    return rotary(x), rotary._table
""",
    "kwargs_pass_through": """
class Attention:
    def __init__(self, heads=2, **kwargs):
        self.heads = heads
        self.options = {"scale": 1.0, **kwargs}

    def __call__(self, t, *args, **kwargs):
        return self.run(t, *args, **{**self.options, **kwargs})

    def run(self, t, bias=None, *, scale, causal=False, **rest):
        t = t * scale
        if bias is not None:
            t = t + bias
        return t.tril() if causal else t, sorted(rest)


def f(x):
    attention = Attention(causal=True, name="a")
    return attention(x), attention(x, x, scale=3.0, causal=False, more=1)
""",
    "partials_everywhere": """
class Blocks:
    def block(self, t, by, *, shift=0):
        return t * by + shift

    double = functools.partialmethod(block, 2)
    shifted = functools.partialmethod(block, by=3, shift=1)


class Named(functools.partial):
    def label(self):
        return self.func.__name__


def f(x):
    blocks = Blocks()
    relu = Named(scaled, by=5)
    nested = functools.partial(functools.partial(scaled, x), by=2)
    return blocks.double(x), blocks.shifted(x), relu(x), relu.label(), nested(), nested.keywords, functools.partial(scaled, x)
""",
    "descriptors_of_a_library": """
class Typed:
    def __init__(self, kind, default=None):
        self.kind, self.default = kind, default

    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name[1:]} must be {self.kind.__name__}, not {type(value).__name__}")
        instance.__dict__[self.name] = value


class Settings:
    size = Typed(int, 4)
    ratio = Typed((int, float), 0.5)


def f(x):
    settings = Settings()
    settings.size = 8
    try:
        settings.size = "no"
    except TypeError as error:
        text = str(error)
    return x * settings.size + settings.ratio, text, vars(settings), Settings.size.default
""",
    "init_subclass_registry": """
class Block:
    kinds = {}

    def __init_subclass__(cls, /, kind=None, **kwargs):
        super().__init_subclass__(**kwargs)
        Block.kinds[kind or cls.__name__.lower()] = cls

    @classmethod
    def create(cls, kind, *args, **kwargs):
        if kind not in cls.kinds:
            raise ValueError(f"unknown kind {kind!r}: {', '.join(sorted(cls.kinds))}")
        return cls.kinds[kind](*args, **kwargs)


class Plus(Block, kind="plus"):
    def __init__(self, by=1):
        self.by = by

    def __call__(self, t):
        return t + self.by


class Twice(Block):
    def __call__(self, t):
        return t * 2


def f(x):
    try:
        Block.create("nothing")
    except ValueError as error:
        text = error.args[0]
    return Block.create("plus", by=3)(x) + Block.create("twice")(x), text
""",
    "metaclass_counts_fields": """
class Meta(type):
    def __new__(mcls, name, bases, namespace, **kwargs):
        made = super().__new__(mcls, name, bases, namespace)
        made.field_names = tuple(key for key in namespace if key.startswith("f_"))
        return made

    def __len__(cls):
        return len(cls.field_names)

    def __getattr__(cls, name):
        if name.startswith("get_"):
            return f"{cls.__name__}.{name[4:]}"
        raise AttributeError(name)

    def __contains__(cls, name):
        return name in cls.field_names


class Table(metaclass=Meta):
    f_one = 1
    f_two = 2


def f(x):
    return x + len(Table), Table.field_names, Table.get_name, "f_one" in Table, hasattr(Table, "other")
""",
    "dict_with_attributes": """
class AttributeDict(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Same(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


def f(x):
    table = AttributeDict(a=x, size=2)
    table.more = table.a + table.size
    other = Same(a=3)
    other.c = table.more * other.a
    other["d"] = 4
    return table.more, sorted(table), hasattr(table, "nothing"), other["c"], other.d, len(other)
""",
    "numbers_with_names": """
class Size(int):
    unit = "px"

    def __new__(cls, value, unit=None):
        made = super().__new__(cls, value)
        made.label = unit or cls.unit
        return made

    def doubled(self):
        return type(self)(self * 2, self.label)

    def __repr__(self):
        return f"{int(self)}{self.label}"


class Path(str):
    def __truediv__(self, other):
        return Path(f"{self}/{other}")

    @property
    def last(self):
        return self.rsplit("/", 1)[-1]


def f(x):
    size = Size(3).doubled()
    path = Path("a") / "b" / "c"
    return x * size, repr(size), size.label, size + 1, path, path.last, path.startswith("a/"), {size: 1}[6], f"{size:>4}"
""",
    "visitor_by_name": """
class Visitor:
    def visit(self, node):
        method = getattr(self, f"visit_{type(node).__name__.lower()}", self.visit_other)
        return method(node)

    def visit_list(self, node):
        return sum(self.visit(one) for one in node)

    def visit_dict(self, node):
        return self.visit(list(node.values()))

    def visit_tensor(self, node):
        return node * 2

    def visit_other(self, node):
        return node


def f(x):
    return Visitor().visit([x, {"a": x, "b": [1, x]}, 2.5])
""",
    "generator_of_layers": """
def layers(count):
    try:
        for index in range(count):
            factor = yield index
            if factor is not None:
                yield factor * 10
    finally:
        LOG.append("closed")


LOG = []


def f(x):
    LOG_BEFORE = len(LOG)
    steps = layers(5)
    total = x + next(steps) + steps.send(3) + next(steps)
    try:
        steps.throw(KeyError("stop"))
    except KeyError as error:
        return total, str(error), len(LOG) - LOG_BEFORE
""",
    "errors_with_causes": """
class LibraryError(RuntimeError):
    def __init__(self, message, *, code=0):
        super().__init__(message)
        self.code = code

    def __str__(self):
        return f"[{self.code}] {super().__str__()}"


def load(name):
    try:
        return {"a": 1}[name]
    except KeyError as error:
        raise LibraryError(f"no {name}", code=7) from error


def f(x):
    out = []
    for name in ("a", "b"):
        try:
            out.append(load(name))
        except LibraryError as error:
            out.append((str(error), error.code, repr(error.__cause__), error.args, type(error.__context__).__name__))
    try:
        raise FileNotFoundError(2, "No such file", "weights.bin")
    except OSError as error:
        out.append((error.errno, error.filename, str(error), isinstance(error, FileNotFoundError)))
    try:
        int("x")
    except ValueError as error:
        out.append(str(error))
    return x + 1, out
""",
    "text_of_everything": """
class Shape:
    def __init__(self, *sizes):
        self.sizes = sizes

    def __repr__(self):
        return f"Shape{self.sizes}"

    def __format__(self, how):
        return "x".join(map(str, self.sizes)) if how == "x" else repr(self)


def f(x):
    shape = Shape(*x.shape)
    return x + 1, f"{shape}", f"{shape:x}", "%s and %r" % (shape, shape), "{0} {0:x} {0.sizes[1]} {name!r:>20}".format(shape, name=shape)
""",
    "match_on_structures": """
@dataclass
class Point:
    a: int
    c: int = 0


def f(x):
    out = []
    for value in (1, "s", [1, 2, 3], {"kind": "k", "rest": 5}, Point(1, 2), (x, 3), None):
        match value:
            case int() as number:
                out.append(number)
            case str("s" | "t"):
                out.append("text")
            case {"kind": kind, **others}:
                out.append((kind, others))
            case Point(a=1, c=c) if c > 1:
                out.append(c)
            case (torch.Tensor() as tensor, by):
                out.append(tensor * by)
            case [1, *rest]:
                out.append(rest)
            case _:
                out.append("else")
    return out
""",
}

# These programs mutate outside objects, so they can't be captured in one graph.
UNCAPTURED = {"generator_of_layers"}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in UNCAPTURED])
def test_library_programs(name: str) -> None:
    arguments = {"n": 3, "r": 0.5}
    text = PROGRAMS[name]
    parameters = [name for name in arguments if f", {name}" in text.split("def f(")[1].split(")")[0]]
    same(Source(PREAMBLE + text), T(4, 4), *(arguments[name] for name in parameters), compare_dynamo=False)


@pytest.mark.parametrize("name", sorted(UNCAPTURED))
def test_library_programs_with_effects(name: str) -> None:
    same(Source(PREAMBLE + PROGRAMS[name]), T(4, 4), fullgraph=False, compare_dynamo=False)
