"""Everything that library code reads is guarded: its configurations, classes and functions may change between calls."""

import pytest

from tests.programs.libraries.library import PREAMBLE
from tests.programs.libraries.test_library_code import PROGRAMS
from tests.support.harness import Source, T, same, unrelated

CHANGES = {
    "config_is_read": [
        "PROGRAM.__defaults__[0].hidden_size = 16",
        "PROGRAM.__defaults__[0].activation = 'silu'",
        "Config.attribute_map = {'width': 'layers'}",
        "PROGRAM.__defaults__[0].chunk = 5",
        "Config.use_scores = property(lambda self: False)",
        unrelated("Config.something = 1"),
    ],
    "config_is_made": ["Config.to_dict = lambda self: {'layers': 1, 'custom': None}"],
    "output_by_int_and_str": ["ModelOutput.to_tuple = lambda self: (torch.zeros(()), (torch.ones(()),))"],
    "layer_by_decorator": [
        "PROGRAM.__defaults__[0].config.output_scores = False",
        "PROGRAM.__defaults__[0].config.activation = 'scaled'",
        "scaled.__defaults__ = (7,)",
        "ACTIVATIONS['scaled'] = torch.sigmoid",
        "PROGRAM.__defaults__[0].__dict__['scale'] = 0.5",
    ],
    "stack_of_layers": ["PROGRAM.__defaults__[0].layers = 4", "Layer.factor = property(lambda self: 'changed')"],
    "registry_of_functions": [
        "ACTIVATIONS['rectified'] = torch.sigmoid",
        "ACTIVATIONS['new'] = None",
        "del ACTIVATIONS['rectified']",
    ],
    "signature_filters_kwargs": ["inner.__wrapped__.__defaults__ = (5,)", "inner.__name__ = 'renamed'"],
    "single_dispatch_by_table": ["HANDLERS[int] = lambda v: -v"],
    "named_tuple_with_methods": ["Sizes.total = property(lambda self: 1)", "Sizes.wider.__defaults__ = (1,)"],
    "enum_with_methods": ["Mode.scale = lambda self, t: t - 1", "Mode.__str__ = lambda self: 'other'"],
    "dataclass_in_full": [
        "Key.__eq__ = lambda self, other: isinstance(other, Key)",
        "Key.__hash__ = lambda self: self.layer + 50; Key.__eq__ = lambda self, other: self.layer == other.layer",
        "Options.__post_init__ = lambda self: self.sizes.append(2)",
    ],
    "context_managers": ["Scope.__exit__ = lambda self, *how: True"],
    "partials_everywhere": ["scaled.__defaults__ = (9,)", "Blocks.double = functools.partialmethod(Blocks.block, 4)"],
    "descriptors_of_a_library": [
        "vars(Settings)['ratio'].default = 3",
        "Typed.__get__ = lambda self, instance, owner=None: self if instance is None else 2",
    ],
    "init_subclass_registry": ["Block.kinds['twice'] = Plus", "Plus.__init__.__defaults__ = (6,)"],
    "metaclass_counts_fields": [
        "Meta.__len__ = lambda cls: 9",
        "Table.field_names = ('f_one',)",
        "Meta.__getattr__ = lambda cls, name: name",
    ],
    "dict_with_attributes": [
        "AttributeDict.__getattr__ = lambda self, name: 1.5 if name == 'size' else self.get(name)"
    ],
    "numbers_with_names": ["Size.unit = 'em'", "Size.__add__ = lambda self, other: 'added'", "Path.last = 'fixed'"],
    "errors_with_causes": ["LibraryError.__str__ = lambda self: 'short'"],
    "text_of_everything": ["Shape.__format__ = lambda self, how: how + '!'", "Shape.__str__ = lambda self: 'text'"],
    "match_on_structures": ["Point.__match_args__ = ()", "Point.__init__.__defaults__ = (1,)"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_library_programs_follow_changes(name: str) -> None:
    arguments = {"n": 3, "r": 0.5}
    text = PROGRAMS[name]
    parameters = [name for name in arguments if f", {name}" in text.split("def f(")[1].split(")")[0]]
    makers = [arguments[name] for name in parameters]
    same(Source(PREAMBLE + text), T(4, 4), *makers, compare_dynamo=False, mutate=CHANGES[name])


SMALL_CHANGES = {
    "names_of_an_object": (
        "class Config: pass\nCONFIG = Config()\nCONFIG.a = 1\ndef f(x):\n    return x + 1, sorted(vars(CONFIG)), CONFIG.__dict__.get('c')",
        ["CONFIG.b = 2", "CONFIG.c = 3", "del CONFIG.a"],
    ),
    "dict_of_a_class": (
        "class Config:\n    size = 3\ndef f(x):\n    return x + Config.__dict__['size'], 'other' in vars(Config)",
        ["Config.size = 4", "Config.other = 4"],
    ),
    "attributes_of_a_function": (
        "def g(t):\n    'Text.'\n    return t * g.by\ng.by = 2\ndef f(x):\n    return g(x), g.__doc__, g.__dict__",
        ["g.by = 3", "g.__doc__ = 'Other.'", "g.more = 1"],
    ),
    "number_of_a_subclass": (
        "class Size(int):\n    def half(self):\n        return self // 2\nSIZE = Size(8)\ndef f(x):\n    return x * SIZE + SIZE.half()",
        ["SIZE = Size(6)", "Size.half = lambda self: 1"],
    ),
    "text_of_a_subclass": (
        "class Name(str): pass\nNAME = Name('ab')\nTABLE = {'ab': 2, 'c': 3}\ndef f(x):\n    return x * TABLE[NAME], NAME.upper(), NAME == 'ab', len(NAME)",
        ["NAME = Name('c')", "Name.upper = lambda self: 'U'"],
    ),
    "missing_name_of_a_module": (
        "import math\ndef f(x):\n    try:\n        from math import answer_of_the_test as found\n    except ImportError as error:\n"
        "        return x - 1, str(error)[:40]\n    return x + found",
        ["math.answer_of_the_test = 3", "math.__dict__.pop('answer_of_the_test', None)"],
    ),
    "key_with_own_hash": (
        "class Key:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n        return hash(self.n)\n"
        "    def __eq__(self, other):\n        return self.n == other.n\nONE = Key(1)\n"
        "def f(x):\n    table = {ONE: 1, Key(2): 2}\n    table[Key(1)] = 5\n    found = {Key(3), Key(3), (Key(1), 2), (ONE, 2)}\n"
        "    return x + table[Key(1)] + table.get(Key(2)) + table.pop(Key(1)), len(table), len(found), Key(3) in found, table.get(Key(9))",
        ["ONE.n = 2", "Key.__hash__ = lambda self: self.n + 100"],
    ),
    "cached_property_from_outside": (
        "class Holder:\n    @functools.cached_property\n    def size(self):\n        return 7\nHOLDER = Holder()\nHOLDER.size\n"
        "def f(x):\n    return x * HOLDER.size",
        ["HOLDER.__dict__['size'] = 3"],
    ),
    "parameters_of_a_signature": (
        "import inspect\ndef g(t, by=1): ...\nSIGNATURE = inspect.signature(g)\n"
        "def f(x):\n    return x + len(SIGNATURE.parameters), list(SIGNATURE.parameters), 'by' in SIGNATURE.parameters",
        ["SIGNATURE = inspect.signature(lambda t: t)"],
    ),
}


@pytest.mark.parametrize("name", SMALL_CHANGES)
def test_what_is_read_is_guarded(name: str) -> None:
    text, changes = SMALL_CHANGES[name]
    same(Source(text), T(3), compare_dynamo=False, mutate=changes)


MUTATIONS = {
    "dict_of_an_object": "CONFIG.__dict__['a'] = 5",
    "vars_of_an_object": "vars(CONFIG).update(b=1)",
    "attribute_of_a_function": "g.by = 5",
    "name_of_a_function": "g.__name__ = 'h'",
    "cached_property": "CONFIG.size",
    "note_of_an_exception": "ERROR.add_note('n')",
    "dict_of_an_object_replaced": "CONFIG.__dict__ = {'a': 9}",
    "class_of_an_object": "CONFIG.__class__ = Other",
    "attribute_of_a_class": "Config.made = 1",
}


NOT_REPLAYED = {"name_of_a_function", "note_of_an_exception", "dict_of_an_object_replaced", "class_of_an_object"}


@pytest.mark.parametrize("name", MUTATIONS)
def test_outside_is_changed(name: str) -> None:
    text = (
        "class Config:\n    @functools.cached_property\n    def size(self):\n        return 7\n"
        "class Other(Config): pass\nCONFIG = Config()\nCONFIG.a = 1\nERROR = ValueError('e')\ndef g(): ...\n"
        f"def f(x):\n    y = x + 1\n    {MUTATIONS[name]}\n    return y * 2, CONFIG.a, g.__name__, vars(CONFIG)"
    )
    same(Source(text), T(3), fullgraph=name not in NOT_REPLAYED, stateful=True, compare_dynamo=False)
