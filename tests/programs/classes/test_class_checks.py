"""isinstance and issubclass with metaclasses, abstract classes, protocols and instances that define `__class__`."""

import pytest

from tests.support.harness import Source, T, same, unrelated

HEAD = """
import abc, collections, collections.abc, numbers, typing, unittest.mock, weakref
@typing.runtime_checkable
class HasSize(typing.Protocol):
    size: int
@typing.runtime_checkable
class Walks(typing.Protocol):
    def walk(self): ...
class Stands(Walks):
    def walk(self): return 1
class Plain: pass
class Sized:
    def __init__(self): self.size = 3
class Walker:
    def __init__(self): self.walk = lambda: 1
class Abstract(abc.ABC): pass
class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other): return hasattr(other, "magic") or NotImplemented
class Registered: pass
Abstract.register(Registered)
class Negative(type):
    def __instancecheck__(cls, instance): return False
    def __subclasscheck__(cls, other): return False
class Never(metaclass=Negative): pass
class Beneath(Never): pass
class Adding(type):
    def __instancecheck__(cls, instance): return super().__instancecheck__(instance) or instance == 3
class OrThree(metaclass=Adding): pass
class Quiet(type): pass
class Spoken(metaclass=Quiet): pass
class Disguised:
    @property
    def __class__(self): return int
class Left: pass
class Right: pass
class Child(Left): pass
plain, child = Plain(), Child()
marked = torch.ones(2)
marked._is_param = True
"""

CHECKS = {
    "a protocol with data": ("HasSize", "Sized(), plain, 3"),
    "a protocol with methods": ("Walks", "Walker(), Stands(), plain"),
    "a class that follows a protocol": ("Stands", "Stands(), Walker(), 3"),
    "an abstract class": ("Abstract", "Registered(), plain, 3"),
    "an abstract class with a hook": ("Hooked", "plain, 3"),
    "a metaclass that says no": ("Never", "Never(), Beneath(), 3"),
    "a metaclass that says more": ("OrThree", "OrThree(), 3, 4"),
    "a class of a metaclass": ("Spoken", "Spoken(), 3"),
    "an instance that says otherwise": ("int", "Disguised(), plain, True"),
    "an instance that says otherwise to an abstract class": ("numbers.Number", "Disguised(), plain, 3"),
    "a proxy": ("Child", "weakref.proxy(child), child"),
    "a mock": ("Child", "unittest.mock.Mock(spec=Child)"),
    "abstract containers": ("collections.abc.Mapping", "{}, collections.OrderedDict(), collections.UserDict(), []"),
    "a union": ("int | Abstract", "Registered(), 3, plain"),
    "a union of typing": ("typing.Union[int, Abstract]", "Registered(), 3, plain"),
    "optional": ("typing.Optional[int]", "None, 3, plain"),
    "nested tuples": ("(str, (Left, (Abstract,)))", "child, Registered(), plain"),
    "a parameter": ("nn.Parameter", "nn.Parameter(torch.ones(2)), marked, torch.ones(2)"),
    "a buffer": ("nn.Buffer", "nn.Buffer(torch.ones(2)), torch.ones(2), 3"),
    "an old name of tensors": ("torch.FloatTensor", "torch.ones(2), torch.ones(2).long(), 3"),
    "an old name of integers": ("torch.LongTensor", "torch.ones(2), torch.ones(2).long(), nn.Parameter(torch.ones(2))"),
}

# Checks that read frames, or that are written in C: they break the graph.
BREAKS = ("protocol", "proxy", "generic", "mock")


def is_whole(name):
    return not any(word in name for word in BREAKS)


@pytest.mark.parametrize("name", CHECKS)
def test_instances(name):
    classes, instances = CHECKS[name]
    same(
        Source(
            f"{HEAD}\n_instances = [{instances}]\n_classes = {classes}\n"
            f"def f(x):\n    return x + 1, [isinstance(each, _classes) for each in _instances]\n"
        ),
        T(2), compare_dynamo=False, fullgraph=is_whole(name),
    )  # fmt: skip


CLASSES = {
    "an abstract class": "issubclass(Registered, Abstract), issubclass(Plain, Abstract), issubclass(bool, numbers.Number)",
    "a metaclass that says no": "issubclass(Beneath, Never), issubclass(Never, Never)",
    "a union": "issubclass(Child, int | Left), issubclass(Child, (int, str))",
    "a protocol": "issubclass(Stands, Walks), issubclass(Plain, Walks)",
    "no class": "issubclass(3, int)",
    "of no class": "issubclass(int, 3)",
    "an instance of no class": "isinstance(3, 3)",
    "an instance of a generic": "isinstance([], list[int])",
    "of a data protocol": "issubclass(Plain, HasSize)",
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    same(
        Source(f"{HEAD}\ndef f(x):\n    return x + 1, ({CLASSES[name]},)\n"),
        T(2), compare_dynamo=False, fullgraph=is_whole(name),
    )  # fmt: skip


CHANGES = {
    "a registration": ("isinstance(plain, Abstract)", ["Abstract.register(Plain)"]),
    "a registration of another class": ("isinstance(plain, Abstract)", ["Abstract.register(Left)"]),
    "a registration of a base": ("isinstance(child, Abstract)", ["Abstract.register(Left)"]),
    "a registration, asked of the class": ("issubclass(Plain, Abstract)", ["Abstract.register(Plain)"]),
    "a registration, in a union": ("isinstance(plain, int | Abstract)", ["Abstract.register(Plain)"]),
    "an attribute of a protocol": ("isinstance(plain, Walks)", ["plain.walk = len", "del plain.walk"]),
    "another base": ("(isinstance(child, Left), issubclass(Child, Right))", ["Child.__bases__ = (Right,)"]),
    "a check": ("isinstance(plain, Spoken)", ["Quiet.__instancecheck__ = lambda cls, instance: True"]),
    "another class of an instance": ("isinstance(plain, Left)", ["plain.__class__ = Left"]),
    "a mark": ("isinstance(marked, nn.Parameter)", ["del marked._is_param", "marked._is_param = True"]),
    "a dtype": ("isinstance(marked, torch.FloatTensor)", ["marked = marked.double()"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_between_calls(name):
    check, changes = CHANGES[name]
    same(
        Source(f"{HEAD}\ndef f(x):\n    return x + 1, {check}\n"),
        T(2), compare_dynamo=False, mutate=changes, fullgraph=is_whole(name),
    )  # fmt: skip


def test_registrations_elsewhere_compile_nothing():
    same(
        Source(f"{HEAD}\nclass Elsewhere(abc.ABC): pass\ndef f(x):\n    return x + 1, isinstance(plain, Abstract)\n"),
        T(2), compare_dynamo=False, mutate=[unrelated("Elsewhere.register(Plain)")],
    )  # fmt: skip


def test_class_patterns():
    same(
        Source(f"""{HEAD}
def f(x):
    match child:
        case Abstract(): return x + 1
        case Left(): return x + 2
        case _: return x + 3
"""),
        T(2), compare_dynamo=False, mutate=["Abstract.register(Child)"],
    )  # fmt: skip


def test_names_of_tensor_types():
    same(
        Source("def f(x):\n    y = x.long()\n    return x + 1, x.type(), y.type(), (x > 0).type(), x.to(torch.bfloat16).type()\n"),
        T(2), compare_dynamo=False,
    )  # fmt: skip
