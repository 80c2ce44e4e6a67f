"""Regular expressions over texts that are known while tracing."""

import enum

import pytest
import torch

from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same, unrelated

corpus = Corpus()


class Part(enum.IntEnum):
    HEAD = 1
    BODY = 2

    def __str__(self) -> str:
        return self.name.lower()


@corpus.core
def a_name_is_matched(x):
    import re

    found = re.match(r"layer\.(\d+)\.(?P<what>\w+)", "layer.12.weight")
    return x * int(found[1]), found.group("what"), found["what"], found.groups(), found.groupdict(), found.span()


@corpus.core
def nothing_is_found(x):
    import re

    return x + 1 if re.fullmatch("a+", "b") is None else x - 1


@corpus.core
def the_other_methods(x):
    import re

    pattern = re.compile(r"[,;]\s*", re.ASCII)
    text = "a, b;c"
    parts = pattern.split(text)
    found = pattern.search(text, 2)
    ends = found.start(), found.end(), found.pos, found.endpos, found.lastindex, found.lastgroup, found.regs
    return x * len(parts), parts, pattern.findall(text), pattern.sub("-", text), pattern.subn("+", text, count=1), ends


@corpus.core
def a_match_is_a_condition_and_holds_its_text(x):
    import re

    text = "abc"
    if (found := re.search("b", text)) and not re.search("d", text):
        return x + 1, found.string is text, found.re is re.compile("b"), found.expand(r"<\g<0>>")
    return x


@corpus.core
def a_method_gets_a_group_that_is_not_there(x):
    import re

    try:
        return x, re.match("a", "a").group(3)
    except IndexError as error:
        return x + 1, str(error)


@corpus.core
def an_enum_class_is_called_with_its_member(x):
    return x * Part(Part.BODY), Part(Part.HEAD) is Part.HEAD, Part(2)


test_programs = corpus.test()


def test_the_text_and_the_pattern_are_guarded():
    text = "import re\nNAME, OTHER, P = 'w1', 0, re.compile('w')\ndef f(x): return x + len(P.sub('zz', NAME))"
    same(Source(text), T(3), mutate=["NAME = 'wwwww'", unrelated("OTHER = 1"), "P = re.compile('[w1]')"])


def test_a_match_that_leaves_is_a_new_object():
    import re

    import stator

    @stator.compile(backend="eager")
    def function(x, text):
        return x + 1, re.match("(a)b", text)

    first, second = (function(torch.ones(1), "abc")[1] for _ in range(2))
    assert first is not second
    assert (first.groups(), first.string, first.span()) == (("a",), "abc", (0, 2))


def test_a_match_lives_across_a_graph_break():
    import re

    def program(x):
        found = re.match("(a)b", "abc")
        y = torch.sin(x)
        print("in the middle")
        return y + len(found.group(1)), found.end()

    same(program, T(3), fullgraph=False)


def test_patterns_are_compared_and_keys():
    def program(x):
        import re

        one, other = re.compile("a"), re.compile("b")
        found = [one == re.compile("a"), one == other, one != other, one == None, "a" == one, one in [None, other, one]]  # noqa: E711
        return x + 1, found, {one: 1, other: 2}[re.compile("b")], (None, one) == (None, other)

    same(program, T(3), compare_dynamo=False)


@pytest.mark.parametrize(
    "expression",
    [
        "re.compile('(')",
        "re.match(1, 'a')",
        "re.compile('a').match(1)",
        "re.compile('a').match()",
        "setattr(re.match('a', 'a'), 'name', 1)",
        "re.match('a', 'a')[x]",
        "{re.match('a', 'a'): 1, re.match('b', 'a'): 2}.get(None)",
        "repr(re.match('a', 'a'))",
        "re.sub('a', lambda match: match[0] * 2, 'abc')",
        "[match[0] for match in re.finditer('.', 'abc')]",
    ],
)
def test_what_is_refused_or_left_to_python(expression):
    same(Source(f"import re\ndef f(x):\n    y = x + 1\n    return y, {expression}"), T(3), fullgraph=False)
