"""The definitions at the top of a random program, which its statements and expressions call by name.

A program takes along those that it names. Their bodies are templates too, so each program has its own.
"""

FIXED = {
    "SEEN": "SEEN = []",
    "Custom": """
class Custom(Exception):
    pass
""",
    "Point": "Point = collections.namedtuple('Point', 'value weight')",
    "opaque": """
@torch._dynamo.disable
def opaque(t, n=1):
    return t * 2 + n
""",
    "opaque_change": """
@torch.compiler.disable
def opaque_change(ts):
    ts.append(torch.zeros(3))
    SEEN.append(len(ts))
""",
    "opaque_raise": """
@torch._dynamo.disable
def opaque_raise(n):
    if n > 1:
        raise Custom('opaque', n)
    return n
""",
    "opaque_call": """
@torch._dynamo.disable
def opaque_call(fn, t):
    return fn(t).dim()
""",
    "Cubed": """
class Cubed(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return x * x * x
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.factor = 5
    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * x * ctx.factor
""",
    "hooked": """
def hooked(t):
    t = t * 2
    if t.requires_grad:
        t.register_hook(lambda gradient: gradient * 3)
    return t.sum()
""",
    "stack": """
def stack():
    frame, found = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename == stack.__code__.co_filename:
            found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found
""",
    "line_of_caller": """
def line_of_caller():
    return sys._getframe(1).f_lineno
""",
    "warn_caller": """
def warn_caller(n):
    warnings.warn(f'caller {n}', stacklevel=2)
""",
    "listed_once": """
@functools.lru_cache(maxsize=3)
def listed_once(n, n1=1):
    SEEN.append(n)
    return [n, n1]
""",
    "filled_once": """
@functools.cache
def filled_once(n):
    return torch.full((3,), float(n))
""",
    "_logger": """
class _Keep(logging.Handler):
    def emit(self, record):
        SEEN.append((record.getMessage(), record.funcName, record.lineno))
_logger = logging.Logger('program')
_logger.addHandler(_Keep())
""",
    "pause": """
@types.coroutine
def pause(n):
    if n > 1:
        SEEN.append((yield n))
    return n
""",
    "drive": """
def drive(coroutine):
    try:
        n = coroutine.send(None)
        for n1 in range(20):
            n = coroutine.send(n1)
        coroutine.close()
    except StopIteration as stop:
        return stop.value
    return torch.zeros(3)
""",
}

WRITTEN = {
    "scaled_once": """
@functools.lru_cache(maxsize=4)
def scaled_once(t, n=2):
    <block>
    return <tensor> * n
""",
    "make_adder": """
def make_adder(n):
    n9 = <int>
    def add(t, n1=1):
        nonlocal n9
        n9 += n1
        return t + n + n9
    return add
""",
    "produce": """
def produce(t, n):
    for n1 in range(n):
        yield t + n1
        <block>
    return n
""",
    "echo": """
def echo(t):
    n1 = yield t
    for n2 in range(3):
        n1 = yield t * (n1 or n2)
""",
    "slowly": """
async def slowly(t, n):
    <block>
    n = await pause(n)
    <block>
    return <tensor>
""",
    "produce_slowly": """
async def produce_slowly(t, n):
    for n1 in range(n % 4):
        n = await pause(n1)
        yield t + n1
        <block>
""",
    "Held": """
class Held:
    def __init__(self, n):
        self.n = n
    async def __aenter__(self):
        SEEN.append('enter')
        return await pause(self.n)
    async def __aexit__(self, kind, error, trace):
        SEEN.append(kind and kind.__name__)
        await pause(<int>)
        return self.n > <int>
""",
    "gather_slowly": """
async def gather_slowly(t, n):
    async with Held(n) as n1:
        async for t1 in produce_slowly(t, n):
            t = t + t1 * n1
            <block>
    ts = [t1 async for t1 in produce_slowly(t, n)]
    return await slowly(t, n) + len(ts)
""",
    "refuse": """
def refuse(n):
    if n > <int>:
        raise Custom(n)
    <block>
    return n
""",
    "marked": """
@contextlib.contextmanager
def marked(n):
    SEEN.append(n)
    try:
        yield n + 1
    finally:
        SEEN.append(-n)
""",
    "Watching": """
class Watching(torch.overrides.TorchFunctionMode):
    def __init__(self, n):
        self.n = n
    def __torch_function__(self, function, types, args=(), kwargs=None):
        SEEN.append((self.n, function.__name__, len(types), len(args)))
        return function(*args, **(kwargs or {}))
""",
    "Thing": """
class Thing:
    level = 1
    def __init__(self, n, t):
        self.n = n
        self.t = t
        self.items = [t]
        <block>
    def apply(self, t, n=1):
        <block>
        return <tensor>
    def __call__(self, t):
        return <tensor> + self.level
    @property
    def scaled(self):
        return <tensor>
    @scaled.setter
    def scaled(self, t):
        self.t = <tensor>
    def __mul__(self, t):
        return t * self.n
    def __rsub__(self, t):
        <block>
        return t - self.t
    def __getitem__(self, n):
        return self.items[n]
    def __setitem__(self, n, t):
        self.items[n % len(self.items)] = t
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        for t in list(self.items):
            yield t
    def __eq__(self, other):
        return isinstance(other, Thing) and self.n == other.n
""",
    "Sub": """
class Sub(Thing):
    def __init__(self, n, t):
        super().__init__(n + 1, t)
        self.extra = <int>
    def apply(self, t, n=1):
        t1 = super().apply(t, n)
        <block>
        return <tensor>
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == 'n':
            SEEN.append(value)
""",
    "Guarded": """
class Guarded(Thing):
    def __init__(self, n):
        self.n = n
        self.t = torch.ones(3)
        self.items = []
    def __enter__(self):
        SEEN.append('enter')
        return self
    def __exit__(self, kind, error, trace):
        SEEN.append(kind and kind.__name__)
        return self.n > <int>
""",
    "Net": """
class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, -1.0]))
        self.register_buffer('offset', torch.ones(3))
        self.n = n
        self.seen = 0
    def forward(self, t):
        <block>
        return <tensor> * self.weight + self.offset
""",
    "Stack": """
class Stack(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = torch.nn.ModuleList([Net(n), torch.nn.Sequential(Net(n + 1), torch.nn.ReLU())])
        self.seen = 0
    def forward(self, t):
        for layer in self.layers:
            t = layer(t)
            <block>
        return <tensor>
""",
    "hook": """
def hook(module, args, t):
    <block>
    return <tensor>
""",
}

# Which other definitions a definition names.
NEEDS = {
    "listed_once": ["SEEN"],
    "opaque_change": ["SEEN"], "opaque_raise": ["Custom"], "_logger": ["SEEN"], "refuse": ["Custom"], "marked": ["SEEN"],
    "pause": ["SEEN"], "slowly": ["pause"], "produce_slowly": ["pause"], "Held": ["pause"],
    "gather_slowly": ["slowly", "produce_slowly", "Held"], "Sub": ["Thing", "SEEN"], "Guarded": ["Thing", "SEEN"], "Watching": ["SEEN"],
    "Stack": ["Net"],
}  # fmt: skip

FUNCTIONS = [
    """
def <=fn>(t, n=<int>):
    <block>
    return <tensor>
""",
    """
def <=fn>(t, n=<int>, *, n3=2):
    <block>
    return <tensor> + n3
""",
    """
def <=fn>(t, *rest, **named):
    <block>
    return <tensor> + sum(rest) + len(named)
""",
    """
def <?1>(t, n):
    if n <= 0:
        return <tensor>
    <block>
    return <?1>(<tensor>, n - 1) + <tensor>
<=fn> = lambda t, n=1: <?1>(t, min(n, 4))
""",
]
