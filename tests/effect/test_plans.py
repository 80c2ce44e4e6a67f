"""Plans: every operation is printed and executed, aliases and cycles are preserved, and no user code runs."""

import collections
import gc
import sys
import time
from typing import Any, NamedTuple

import pytest
import torch

from stator import _testing


class Builder:
    """A plan under construction."""

    def __init__(self) -> None:
        self.plan = _testing.Plan()
        self.constant = self.plan.constant
        self.output = self.plan.output
        self.fetch = self.plan.fetch
        self.reserve = self.plan.reserve
        self.known = self.plan.known

    def add(self, op: str, *registers: int, object: Any = NotImplemented, to: int = -1) -> int:
        return self.plan.add(op, list(registers), object, to)

    def returning(self, register: int) -> Any:
        self.add("Return", register)
        self.plan.finish()
        return self.plan


class Point(NamedTuple):
    x: int
    y: int


class Refuses:
    """Nothing of this class may be run when an instance is rebuilt."""

    def __new__(cls) -> "Refuses":
        raise AssertionError("__new__")

    def __init__(self) -> None:
        raise AssertionError("__init__")

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError("__setattr__")


class RefusingDict(dict):
    def __init__(self) -> None:
        raise AssertionError("__init__")

    def __setitem__(self, key: object, value: object) -> None:
        raise AssertionError("__setitem__")


class RefusingList(list):
    def __init__(self) -> None:
        raise AssertionError("__init__")

    def append(self, item: object) -> None:
        raise AssertionError("append")


class Slotted:
    __slots__ = ("a", "b")


def print_and_run(plan: Any, expected: str, outputs: tuple = (), fetched: tuple = ()) -> Any:
    assert plan.print() == expected
    return plan.run(outputs, fetched)


def test_one_output() -> None:
    build = Builder()
    x = torch.ones(2)
    plan = build.returning(build.output(object()))
    assert print_and_run(plan, "r0 = output 0\nreturn r0", (x,)) is x


def test_tuple_of_outputs_inputs_and_constants() -> None:
    build = Builder()
    first, second = object(), object()
    parts = [build.output(first), build.fetch(0), build.constant("text"), build.output(second), build.output(first)]
    plan = build.returning(build.add("Tuple", *parts))
    text = """\
r0 = output 0
r1 = fetched 0
r2 = constant 'text'
r3 = output 1
r4 = tuple(r0, r1, r2, r3, r0)
return r4"""
    a, b, c = object(), object(), object()
    assert print_and_run(plan, text, (a, b), (c,)) == (a, c, "text", b, a)


def test_containers() -> None:
    build = Builder()
    one, two, three = build.constant(1), build.constant(2), build.constant(3)
    parts = [
        build.add("Tuple", one, two),
        build.add("Tuple", one, two, object=Point),
        build.add("Tuple", one, two, object=torch.Size),
        build.add("List", two, one),
        build.add("Dict", one, two, two, three),
        build.add("Dict", two, one, one, three, object=collections.OrderedDict),
        build.add("Set", one, two),
        build.add("Frozenset", one, two),
        build.add("Slice", one, two, three),
    ]
    plan = build.returning(build.add("List", *parts))
    text = f"""\
r0 = constant 1
r1 = constant 2
r2 = constant 3
r3 = tuple(r0, r1)
r4 = tuple(r0, r1) of class {__name__}.Point
r5 = tuple(r0, r1) of class torch.Size
r6 = list(r1, r0)
r7 = dict(r0: r1, r1: r2)
r8 = dict(r1: r0, r0: r2) of class collections.OrderedDict
r9 = set(r0, r1)
r10 = frozenset(r0, r1)
r11 = slice(r0, r1, r2)
r12 = list(r3, r4, r5, r6, r7, r8, r9, r10, r11)
return r12"""
    expected = [(1, 2), Point(1, 2), torch.Size([1, 2]), [2, 1], {1: 2, 2: 3}, collections.OrderedDict({2: 1, 1: 3}),
                {1, 2}, frozenset([1, 2]), slice(1, 2, 3)]  # fmt: skip
    result = print_and_run(plan, text)
    assert result == expected
    assert [type(part) for part in result] == [type(part) for part in expected]
    again = plan.run((), ())
    assert again == expected
    assert all(mine is not theirs for mine, theirs in zip(result, again)), "each run makes its own"
    result[5].move_to_end(2)
    assert list(result[5]) == [1, 2]


@pytest.mark.parametrize(
    "seen",
    [torch.ones(2, 3).max(dim=0), torch.ones(2, 3).sort(), time.gmtime(0), sys.version_info[:2]],
    ids=lambda seen: type(seen).__name__,
)
def test_structseqs(seen: Any) -> None:
    build = Builder()
    plan = build.returning(build.add("Tuple", *[build.constant(item) for item in seen], object=type(seen)))
    result = plan.run((), ())
    assert type(result) is type(seen)
    assert all(mine is theirs for mine, theirs in zip(result, seen, strict=True))


def test_subclasses_of_containers_run_no_user_code() -> None:
    build = Builder()
    one, two = build.constant(1), build.constant(2)
    made = build.add("NewObject", object=RefusingDict)
    build.add("SetItem", made, one, two)
    items = build.add("List", one, two, object=RefusingList)
    build.add("Append", items, one)
    empty = build.add("NewObject", object=RefusingList)
    plan = build.returning(build.add("Tuple", made, items, empty))
    text = f"""\
r0 = constant 1
r1 = constant 2
r2 = new {__name__}.RefusingDict()
r2[r0] = r1
r3 = list(r0, r1) of class {__name__}.RefusingList
r3.append(r0)
r4 = new {__name__}.RefusingList()
r5 = tuple(r2, r3, r4)
return r5"""
    result = print_and_run(plan, text)
    assert result == ({1: 2}, [1, 2, 1], [])
    assert [type(part) for part in result] == [RefusingDict, RefusingList, RefusingList]


def test_defaultdict_and_counter() -> None:
    build = Builder()
    factory, one = build.constant(list), build.constant(1)
    made = build.add("Dict", one, one, object=collections.defaultdict)
    build.add("SetAttribute", made, factory, object="default_factory")
    counted = build.add("Dict", one, one, object=collections.Counter)
    plan = build.returning(build.add("Tuple", made, counted))
    default, counter = plan.run((), ())
    assert default == {1: 1}
    assert default["new"] == []
    assert counter == collections.Counter({1: 1})
    assert counter["missing"] == 0


def test_instances() -> None:
    build = Builder()
    value = build.output(object())
    made = build.add("NewObject", object=Refuses)
    build.add("SetAttribute", made, value, object="a")
    build.add("SetAttribute", made, value, object="b")
    build.add("SetAttribute", made, -1, object="b")
    slotted = build.add("NewObject", object=Slotted)
    build.add("SetAttribute", slotted, value, object="a")
    error = build.add("NewObject", build.constant("message"), object=KeyError)
    plan = build.returning(build.add("Tuple", made, slotted, error))
    text = f"""\
r0 = output 0
r1 = new {__name__}.Refuses()
r1.a = r0
r1.b = r0
delete r1.b
r2 = new {__name__}.Slotted()
r2.a = r0
r3 = constant 'message'
r4 = new KeyError(r3)
r5 = tuple(r1, r2, r4)
return r5"""
    x = torch.ones(1)
    instance, slots, exception = print_and_run(plan, text, (x,))
    assert type(instance) is Refuses
    assert vars(instance) == {"a": x}
    assert slots.a is x
    assert not hasattr(slots, "b")
    assert repr(exception) == "KeyError('message')"


def test_an_attribute_behind_a_property() -> None:
    class Careful:
        @property
        def a(self) -> int:
            return 1

        @a.setter
        def a(self, value: object) -> None:
            raise AssertionError("setter")

    build = Builder()
    made = build.add("NewObject", object=Careful)
    build.add("SetAttribute", made, build.constant(5), object="a")
    assert vars(build.returning(made).run((), ())) == {"a": 5}


def test_attributes_of_classes_and_modules() -> None:
    class Target:
        pass

    build = Builder()
    module = type(sys)("made")
    build.add("SetAttribute", build.constant(Target), build.constant(5), object="a")
    build.add("SetAttribute", build.constant(module), build.constant(6), object="a")
    assert build.returning(build.constant(None)).run((), ()) is None
    assert Target.a == 5
    assert module.a == 6


def test_functions_cells_and_methods() -> None:
    def outer() -> Any:
        shared = 0

        def inner(x: int = 5, *, y: int = 6) -> Any:
            return shared, x, y

        return inner

    code = outer().__code__
    build = Builder()
    everywhere = {"__name__": "elsewhere"}
    cell = build.add("Cell")
    function = build.add(
        "Function",
        build.constant(everywhere),
        build.constant("renamed"),
        build.add("Tuple", build.constant(7)),
        build.add("Dict", build.constant("y"), build.constant(8)),
        build.add("Tuple", cell),
        build.add("Dict", build.constant("x"), build.constant(int)),
        object=code,
    )
    build.add("SetCell", cell, function)
    method = build.add("Method", function, build.constant(9))
    plan = build.returning(build.add("Tuple", function, method, cell))
    text = f"""\
r0 = cell()
r1 = constant <dict>
r2 = constant 'renamed'
r3 = constant 7
r4 = tuple(r3)
r5 = constant 'y'
r6 = constant 8
r7 = dict(r5: r6)
r8 = tuple(r0)
r9 = constant 'x'
r10 = constant int
r11 = dict(r9: r10)
r12 = function {code.co_qualname} with globals r1, name r2, defaults r4, keyword defaults r7, closure r8, annotations r11
r0.cell_contents = r12
r13 = constant 9
r14 = method(r12, r13)
r15 = tuple(r12, r14, r0)
return r15"""
    made, bound, shared = print_and_run(plan, text)
    assert made() == (made, 7, 8)
    assert bound() == (made, 9, 8)
    assert shared.cell_contents is made
    assert (made.__name__, made.__qualname__, made.__module__) == ("renamed", code.co_qualname, "elsewhere")
    assert made.__globals__ is everywhere
    assert made.__annotations__ == {"x": int}
    again, *_ = plan.run((), ())
    assert again is not made


def test_a_function_without_extras_and_an_emptied_cell() -> None:
    build = Builder()
    function = build.add("Function", build.constant({}), -1, -1, -1, -1, -1, object=(lambda: 3).__code__)
    cell = build.add("Cell", function)
    build.add("SetCell", cell, -1)
    result, emptied = build.returning(build.add("Tuple", function, cell)).run((), ())
    assert result() == 3
    assert result.__defaults__ is None
    with pytest.raises(ValueError, match="empty"):
        emptied.cell_contents  # noqa: B018


def test_calls_of_constructors() -> None:
    build = Builder()
    plan = build.returning(build.add("Call", build.constant(1), build.constant(10), object=range))
    assert print_and_run(plan, "r0 = constant 1\nr1 = constant 10\nr2 = call range(r0, r1)\nreturn r2") == range(1, 10)
    build = Builder()
    plan = build.returning(build.add("Call", build.constant("no number"), object=int))
    with pytest.raises(ValueError, match="no number"):
        plan.run((), ())


def test_items_added_and_deleted() -> None:
    build = Builder()
    one, two, zero = build.constant(1), build.constant(2), build.constant(0)
    table = build.add("Dict", one, one, two, two)
    build.add("SetItem", table, one, -1)
    items = build.add("List", one, two)
    build.add("SetItem", items, zero, two)
    elements = build.add("Set")
    build.add("Add", elements, one)
    plan = build.returning(build.add("Tuple", table, items, elements))
    text = """\
r0 = constant 1
r1 = constant 2
r2 = constant 0
r3 = dict(r0: r0, r1: r1)
delete r3[r0]
r4 = list(r0, r1)
r4[r2] = r1
r5 = set()
r5.add(r0)
r6 = tuple(r3, r4, r5)
return r6"""
    assert print_and_run(plan, text) == ({2: 2}, [2, 2], {1})


def test_aliases_and_cycles() -> None:
    build = Builder()
    mine, theirs = object(), object()
    loop = build.reserve(mine)
    assert build.known(mine) == loop
    assert build.known(theirs) == -1
    build.add("List", object=NotImplemented, to=loop)
    pair = build.add("Tuple", loop, loop)
    build.add("Append", loop, pair)
    build.add("Append", loop, loop)
    result = build.returning(pair).run((), ())
    assert result[0] is result[1]
    assert result[0][0] is result
    assert result[0][1] is result[0]


def test_a_plan_need_not_return() -> None:
    build = Builder()
    target: list = []
    build.add("Append", build.constant(target), build.constant(1))
    build.plan.finish()
    assert build.plan.run((), ()) is NotImplemented
    assert target == [1]


def test_more_registers_than_fit_on_the_stack() -> None:
    build = Builder()
    register = build.constant(0)
    for _ in range(100):
        register = build.add("List", register)
    result = build.returning(register).run((), ())
    depth = 0
    while isinstance(result, list):
        (result,) = result
        depth += 1
    assert (depth, result) == (100, 0)


MISTAKES = {
    "read before it is filled": lambda build: build.add("Tuple", build.reserve(build)),
    "read one that does not exist": lambda build: build.add("Tuple", 7),
    "a missing part that is needed": lambda build: build.add("Append", build.constant([]), -1),
    "too few parts": lambda build: build.add("Slice", build.constant(1)),
    "half a pair": lambda build: build.add("Dict", build.constant(1)),
    "no class": lambda build: build.add("NewObject"),
    "filled twice": lambda build: build.add("List", to=build.constant(1)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_plans_are_refused(mistake: str) -> None:
    build = Builder()
    MISTAKES[mistake](build)
    with pytest.raises(RuntimeError, match=r"plan|pairs"):
        build.plan.finish()


def test_running_leaks_nothing() -> None:
    x = torch.ones(1)
    build = Builder()
    made = build.add("NewObject", object=Slotted)
    build.add("SetAttribute", made, build.output(build), object="a")
    items = build.add("List", made, build.fetch(0))
    build.add("Append", items, items)
    failing = build.add("Dict", items, items)
    plan = build.returning(failing)
    good = Builder()
    fine = good.returning(good.add("Tuple", good.output(good), good.fetch(0), good.add("List", good.fetch(0))))

    def once() -> None:
        with pytest.raises(TypeError, match="unhashable"):
            plan.run((x,), (x,))
        assert fine.run((x,), (x,))[2] == [x]

    once()
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(Slotted), sys.getallocatedblocks()
    for _ in range(200):
        once()
    gc.collect()
    after = sys.getrefcount(x), sys.getrefcount(Slotted), sys.getallocatedblocks()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 50


# --- effects: changes of objects that were there before ---------------------------------------------------------------


class Intercepted:
    """Effects bypass methods of the class: those were traced."""

    shared = 1

    @property
    def a(self) -> int:
        raise AssertionError("property")

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError("__setattr__")

    def __delattr__(self, name: str) -> None:
        raise AssertionError("__delattr__")


class RefusingDeque(collections.deque):
    def append(self, item: object) -> None:
        raise AssertionError("append")


def test_methods_are_called_for_their_effect() -> None:
    build = Builder()
    numbers, queue, order, seen = (build.fetch(i) for i in range(4))
    build.add("Call", numbers, build.constant(0), build.constant("new"), object=list.insert)
    build.add("SetItem", numbers, build.constant(1), -1)
    build.add("Call", queue, build.constant("q"), object=collections.deque.append)
    build.add("Call", order, build.constant("a"), build.constant(True), object=collections.OrderedDict.move_to_end)
    build.add("Call", seen, build.constant(1), object=set.discard)
    plan = build.returning(numbers)
    a, q, d, s = [1, 2], RefusingDeque([0], maxlen=1), collections.OrderedDict(a=1, b=2), {1, 2}
    assert plan.run((), (a, q, d, s)) is a
    assert (a, list(q), list(d), s) == (["new", 2], ["q"], ["b", "a"], {2})
    assert plan.print().count("call ") == 4


def test_effects_are_in_order_and_share_what_they_store() -> None:
    build = Builder()
    first, second = build.fetch(0), build.fetch(1)
    made = build.add("List")
    build.add("Append", first, made)
    build.add("SetItem", second, build.constant("k"), made)
    build.add("Append", made, first)
    build.add("SetItem", second, build.constant("gone"), -1)
    plan = build.returning(made)
    a: list = []
    d = {"gone": 1}
    result = plan.run((), (a, d))
    assert a[0] is result and d == {"k": result} and result[0] is a


def test_attributes_are_set_past_the_class() -> None:
    build = Builder()
    thing = build.fetch(0)
    build.add("SetAttribute", thing, build.constant(5), object="a")
    build.add("SetAttribute", thing, build.constant(6), object="b")
    build.add("SetAttribute", thing, -1, object="b")
    build.add("SetAttribute", build.constant(Intercepted), build.constant(7), object="shared")
    plan = build.returning(thing)
    one = Intercepted()
    try:
        assert plan.run((), (one,)) is one
        assert vars(one) == {"a": 5} and Intercepted.shared == 7
    finally:
        Intercepted.shared = 1


def test_what_a_plan_keeps() -> None:
    build = Builder()
    kept = Slotted()
    references = sys.getrefcount(kept)
    plan = build.returning(build.constant(kept))
    assert kept in plan.held()
    assert sys.getrefcount(kept) == references + 1
    del build, plan
    assert sys.getrefcount(kept) == references


def test_returning_outputs_takes_nanoseconds() -> None:
    build = Builder()
    plan = build.returning(build.output(build))
    several = Builder()
    tuple_plan = several.returning(several.add("Tuple", *[several.output(node) for node in (1, 2.5, "c")]))
    objects = (object(), object(), object())
    one = min(plan.nanoseconds(objects, (), 1000) for _ in range(20))
    three = min(tuple_plan.nanoseconds(objects, (), 1000) for _ in range(20))
    print(f"one output {one:.0f} ns, a tuple of three {three:.0f} ns")
    assert one < 1000
    assert three < 2000


def offset_of_first_yield(function: Any) -> int:
    import dis

    return next(each.offset for each in dis.get_instructions(function) if each.opname == "YIELD_VALUE")


def test_generators_wait_where_the_plan_puts_them() -> None:
    def function(own, first, *, second=None):
        yield own
        yield first, second, own

    build = Builder()
    generator = build.add("Generator", build.constant(function))
    one, two = build.constant(1), build.constant(2)
    where = offset_of_first_yield(function)
    build.plan.add("FillGenerator", [generator, -1, generator, one, two], NotImplemented, -1, where)
    fresh = build.add("Generator", build.constant(function))
    build.plan.add("FillGenerator", [fresh, -1, one, -1, two], NotImplemented, -1, -1)
    ended = build.add("Generator", build.constant(function))
    build.add("EndGenerator", ended)
    plan = build.returning(build.add("Tuple", generator, fresh, ended))
    text = plan.print().splitlines()
    assert text[1] == "r1 = generator of r0"
    assert text[4] == f"r1 holds (r1, r2, r3) and waits at {where}"
    assert text[6] == "r4 holds (r2, nothing, r3) and did not start"
    assert text[8] == "r5 has ended"
    waiting, fresh, ended = plan.run((), ())
    assert next(waiting) == (1, 2, waiting)
    assert list(waiting) == []
    assert next(fresh) == 1
    if sys.version_info < (3, 12):  # a parameter always has a value
        with pytest.raises(UnboundLocalError):
            next(fresh)
    assert ended.gi_frame is None and list(ended) == []


def test_a_generator_that_handles_an_exception() -> None:
    def function():
        yield
        raise  # noqa: PLE0704

    build = Builder()
    error = ValueError("handled")
    generator = build.add("Generator", build.constant(function))
    where = offset_of_first_yield(function)
    build.plan.add("FillGenerator", [generator, build.constant(error)], NotImplemented, -1, where)
    plan = build.returning(generator)
    assert plan.print().splitlines()[3] == f"r1 holds () and waits at {where} handling r2"
    with pytest.raises(ValueError, match="handled") as raised:
        next(plan.run((), ()))
    assert raised.value is error


def test_tracebacks() -> None:
    code = test_tracebacks.__code__
    build = Builder()
    namespace = build.constant(globals())
    outer = build.plan.add("EnteredFrame", [namespace], code, -1, 4)
    inner = build.plan.add("Frame", [namespace], offset_of_first_yield.__code__, -1, 2)
    below = build.plan.add("Traceback", [inner, -1], NotImplemented, -1, 2)
    trace = build.plan.add("Traceback", [outer, below], NotImplemented, -1, 4)
    plan = build.returning(trace)
    assert plan.print().splitlines()[1:] == [
        "r1 = the frame of test_tracebacks at 4",
        "r2 = frame of offset_of_first_yield at 2",
        "r3 = traceback of r2 at 2",
        "r4 = traceback of r1 at 4, then r3",
        "return r4",
    ]
    made = plan.run((), ())
    assert made.tb_frame.f_code is code and made.tb_lasti == 4
    assert made.tb_lineno == made.tb_frame.f_lineno
    assert made.tb_next.tb_frame.f_code is offset_of_first_yield.__code__
    assert made.tb_next.tb_frame.f_globals is globals()
    assert made.tb_next.tb_next is None


def test_calls_with_keywords() -> None:
    build = Builder()
    named = build.add("Dict", build.constant("strict"), build.constant(True))
    plan = build.returning(build.add("CallNamed", build.constant("ab"), build.constant("c"), named, object=zip))
    assert plan.print().splitlines()[-2] == "r5 = call zip(r3, r4, r2) with keywords in the last"
    pairs = plan.run((), ())
    assert next(pairs) == ("a", "c")
    with pytest.raises(ValueError, match="shorter"):
        next(pairs)
