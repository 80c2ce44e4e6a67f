"""Calls of functions: all forms of argument binding, closures, methods, wrappers, recursion."""

import functools

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


def plain(a, c):
    return a * 2 + c


def with_defaults(a, c=2, d=3):
    return a * c + d


def positional_only(a, c, /, d, e=5):
    return a + c * d - e


def keyword_only(a, *, c, d=4):
    return a * c + d


def everything(a, c=1, /, d=2, *args, e, f=6, **kwargs):
    return a + c * d, args, e, f, kwargs


def collects(*args, **kwargs):
    return args, kwargs


def no_arguments():
    return 7


# Each line is one program: what a call gives, however its arguments are spelled.
core.lines('operator.attrgetter("shape")(x + 1)', compare_dynamo=False)  # nothing for a graph to do

core.lines(
    """
    plain(x, 1)
    plain(c=1, a=x)
    plain(x, c=y)
    plain(*[x, y])
    plain(*(x,), **{"c": y})
    plain(**{"a": x, "c": 3})
    plain(*(v for v in (x, y)))
    with_defaults(x)
    with_defaults(x, 5)
    with_defaults(x, d=1)
    with_defaults(x, *(), **{})
    with_defaults(*[x], d=y)
    positional_only(x, 1, 2)
    positional_only(x, 1, d=y)
    positional_only(x, 1, e=2, d=3)
    keyword_only(x, c=2)
    keyword_only(d=1, c=y, a=x)
    everything(x, e=1)
    everything(x, 2, 3, 4, 5, e=6, f=7, g=8, h=9)
    everything(x, e=1, a=2, c=3)
    everything(*[x, 2, 3], *[4], **{"e": 5}, **{"z": y})
    everything(x, e=y, **named)
    collects(x + 1)
    collects(x + 1, 2, k=3)
    collects(*range(3), x + 1, *"ab")
    collects(x + 1, **{"a b": 1})
    collects(x + 1, **dict(zip("ab", (1, 2))))
    plain(x, no_arguments())
    (lambda a, *, k=2: a * k)(x, k=3)
    (lambda *a: a)(x + 1, 2)
    """,
    using=globals(),
)

# Calls that do not bind raise Python's own error in the program.
WRONG_CALLS = """
    plain(x)
    plain()
    plain(x, 1, 2)
    plain(x, 1, c=2)
    plain(x, d=2)
    plain(x, **{"c": 1, "e": 2})
    with_defaults()
    with_defaults(1, 2, 3, 4)
    positional_only(x, c=1, d=2)
    positional_only(a=x, c=1, d=2)
    keyword_only(x)
    keyword_only(x, 1)
    everything(x)
    everything()
    no_arguments(1)
    no_arguments(k=1)
    plain(x, *[1, 2, 3])
    plain(*3)
    plain(x, **3)
    plain(x, **{1: 2})
    collects(a=1, **{"a": 2})
    (3)(x)
    None()
    "text"(1)
"""


def wrong_call_text(thunk):
    try:
        thunk()
    except TypeError as error:
        return str(error)
    return "no error"


core.lines(WRONG_CALLS, using=globals(), wrap="(x + 1, wrong_call_text(lambda: {}))", compare_dynamo=False)
later_effects.lines(WRONG_CALLS, using=globals(), wrap="[x + 1, {}]")


def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * factor

        return wrapper

    return decorate


@scaled(3)
def decorated(a, c=1):
    return a + c


@scaled(2)
@scaled(5)
def decorated_twice(a):
    return a - 1


class Counter:
    calls = 0
    factor = 4

    def __init__(self, value, *, offset=1):
        self.value = value
        self.offset = offset

    def method(self, a, k=2):
        return a * self.value + k

    @classmethod
    def make(cls, value):
        return cls(value, offset=cls.factor)

    @classmethod
    def scale(cls, a):
        return a * cls.factor

    @staticmethod
    def still(a, c):
        return a - c

    def __call__(self, a, *rest, k=0):
        return a + self.value + len(rest) + k

    doubled = functools.partialmethod(method, k=20)
    method_alias = method


class Sub(Counter):
    factor = 6

    def method(self, a, k=2):
        return super().method(a, k) - 1

    @classmethod
    def scale(cls, a):
        return super().scale(a) + 1


core.lines(
    """
    decorated(x)
    decorated(x, c=y)
    decorated_twice(x)
    (x + 1, decorated.__name__, decorated.__wrapped__(1))
    Counter(2).method(x)
    Counter(value=2, offset=3).method(x, k=4)
    Counter.method(Counter(2), x)
    Counter(2).method_alias(x)
    Counter(2).doubled(x)
    Counter.scale(x)
    Counter(1).scale(x)
    Counter.still(x, 1)
    Counter(1).still(x, c=2)
    Counter.make(3).method(x) + Counter.make(3).offset
    Counter(2)(x)
    Counter(2)(x, 1, 2, k=3)
    Sub(3).method(x)
    Sub.scale(x)
    Sub.make(2)(x) + Sub.make(2).offset
    [t(x) for t in (Counter(1), Counter(2).method, Counter.scale, functools.partial(plain, c=2), abs)]
    functools.partial(plain, x)(1)
    functools.partial(plain, c=2)(x)
    functools.partial(plain, c=2)(x, c=5)
    functools.partial(functools.partial(with_defaults, d=7), x)(3)
    functools.partial(everything, x, 1, e=2)(3, 4, z=5)
    functools.partial(Counter, offset=9)(3).method(x)
    functools.partial(torch.add, alpha=2)(x, y)
    (x + 1, functools.partial(plain, 1).func is plain, functools.partial(plain, 1, c=2).keywords, functools.partial(plain, 1).args)
    functools.reduce(torch.add, tensors)
    functools.reduce(lambda a, c: a * c, tensors, x)
    operator.methodcaller("sum", 0)(x)
    operator.itemgetter(0)(x) + 1
    (x + 1, operator.itemgetter(0, 2)(numbers), operator.attrgetter("value", "offset")(Counter(1)))
    list(map(plain, tensors, [1, 2]))
    [f(x) for f in map(lambda k: lambda a: a * k, range(3))]
    (x + 1, list(itertools.starmap(with_defaults, [(1,), (1, 2), (1, 2, 3)])))
    (lambda f: f(f, 5))(lambda f, k: x if k == 0 else f(f, k - 1) + k)
    """,
    using=globals(),
)


@functools.lru_cache(maxsize=None)
def cached_power(k):
    return 2**k


@functools.cache
def cached_shape(shape):
    return shape[0] * 10


@functools.singledispatch
def dispatched(value):
    return "other"


@dispatched.register
def _(value: int):
    return "int"


@later_effects
def calls_lru_cache(x, n):
    return x * cached_power(n) + cached_power(n) + cached_shape(tuple(x.shape))


@core
def even_and_odd(x, n):
    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)

    return x + 1 if odd(n) else x - 1


def recursive(a, depth):
    return a if depth == 0 else recursive(a + depth, depth - 1) * 2


@core
def recursion_with_tensors(x):
    return recursive(x, 12)


@core
def recursion_of_fifty(x):
    return recursive(x * 0, 50)


@core
def function_made_inside_is_returned_result(x, n):
    def add(a):
        return a + n

    return add(x), add.__name__


@core
def function_attributes(x):
    def inner(a):
        return a

    inner.factor = 3
    return x * inner.factor


@core
def defaults_are_evaluated_once(x):
    def grow(item, into=[]):
        into.append(item)
        return into

    grow(1)
    return x + 1, grow(2), grow(3) is grow(4)


@core
def defaults_hold_tensors(x):
    def shifted(a, by=x * 2, *, scale=x + 1):
        return a + by * scale

    return shifted(x), shifted(x, 1, scale=2)


@core
def method_of_local_object_passed_on(x):
    def apply(function, *args):
        return function(*args)

    counter = Counter(5)
    return apply(counter.method, x), apply(counter, x, 1), apply(Counter.still, x, 2), apply(x.add, 1)


@core
def bound_method_facts(x):
    counter = Counter(5)
    method = counter.method
    return (
        x + 1,
        method.__self__ is counter,
        method.__func__ is Counter.method,
        method == counter.method,
        method.__name__,
    )


@core
def call_through_dict(x):
    table = {"add": torch.add, "mul": lambda a, c: a * c, "method": Counter(2).method}
    return [table[name](x, 3) for name in ("add", "mul", "method")]


@core
def argument_names_shadow_builtins(x):
    def shadow(len, list=3, type=4):
        return len + list + type

    return shadow(x)


@core
def star_arguments_are_new_objects(x):
    given = [1, 2]
    table = {"k": 1}

    def take(*args, **kwargs):
        kwargs["k"] = 2
        return args, kwargs

    args, kwargs = take(*given, **table)
    return x + 1, args, kwargs, table, given


@core
def list_argument_is_shared(x):
    def grow(items):
        items.append(4)
        items = [0]

    given = [1]
    grow(given)
    return x + 1, given


@core
def many_arguments(x):
    def many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, *, q=1, r=2, s=3, t=4, u=5):
        return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u

    return many(x, *range(15), u=9, q=x)


@core
def callable_checks(x):
    return x + 1, callable(plain), callable(3), callable(Counter), callable(Counter(1)), callable(x.sum), callable(len)


@core
def function_identity(x):
    first = plain
    return x + 1, first is plain, plain == decorated, plain.__name__, plain.__defaults__, with_defaults.__defaults__


@core
def returns_several(x):
    def several():
        return x, 1, [x + 1]

    a, c, [d] = several()
    return a + d, c


@core
def yields_from_called_generator_to_call(x):
    def spread():
        yield x
        yield 3

    return plain(*spread())


@later_effects
def recursion_error_caught(x):
    def endless(k):
        return endless(k + 1)

    try:
        endless(0)
    except RecursionError:
        return x + 1


@later_effects
def recursion_error_leaves(x):
    def endless(k):
        return endless(k + 1) + 1

    return endless(x)


@later_effects
def dispatch_function(x):
    return x + 1, dispatched(1), dispatched("a")


@later_effects
def eval_and_exec(x):
    scope = {}
    exec("a = 5", scope)
    return x + eval("2 + 3") + scope["a"]


@later_effects
def locals_and_vars(x):
    a = 3
    return x + 1, sorted(locals())


test_programs = corpus.test()
