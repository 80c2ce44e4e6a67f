"""Strings and bytes: all methods, formatting of every kind, text used to choose operations."""

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects

core.values(
    """
    s + "d", s * 2, 2 * s, s[0], s[-1], s[1:], s[::-1], s[::2], len(s), "b" in s, "z" not in s, s == "abc", s != "abc", s < "abd", s >= "abb", s is s
    s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), s.casefold(), "ß".upper(), "aBc".swapcase(), s.center(9, "*"), s.ljust(5) + "|", s.rjust(5), "7".zfill(3), "-7".zfill(4)
    " a ".strip(), "xax".strip("x"), " a".lstrip(), "a ".rstrip(), "xa".lstrip("x"), "prefix.name".removeprefix("prefix."), "name.py".removesuffix(".py")
    "a b c".split(), "a,b,c".split(","), "a,b,c".split(",", 1), "a,b,c".rsplit(",", 1), "a,b,c".rsplit(",", maxsplit=1), "a.b".partition("."), "a.b.c".rpartition("."), "a\\nb".splitlines(), "a\\nb\\n".splitlines(True), "".split(","), "".split()
    ",".join(["a", "b"]), "".join(reversed(s)), "-".join(str(v) for v in numbers), "".join([]), ", ".join(table), "ab".join("xyz"), " ".join(map(str.upper, ["a", "b"]))
    s.replace("a", "z"), "aaa".replace("a", "b", 2), s.find("b"), s.find("z"), s.rfind("c"), s.index("c"), "abab".rindex("b"), "abab".count("ab"), s.startswith("a"), s.endswith("c"), s.startswith(("x", "a")), s.endswith(("x", "c"), 1), s.startswith("b", 1)
    s.isalpha(), "12".isdigit(), "1a".isalnum(), " ".isspace(), s.islower(), s.isupper(), "Ab".istitle(), "a_1".isidentifier(), "1.5".isnumeric(), "1".isdecimal(), "a".isascii(), "\\n".isprintable()
    s.encode(), "é".encode("latin1"), b"abc".decode(), b"a-b".split(b"-"), "abc".translate(str.maketrans("a", "z")), str.maketrans({"a": "b"}), "a\\tb".expandtabs(4), ord(s[0]), chr(ord("a") + 1), [c for c in s], list(s), tuple(s), set("aa"), sorted("cab")
    "%d" % n, "%s and %s" % (s, n), "%.2f" % r, "%5d|%-5d|" % (n, n), "%x %o %e" % (n, n, r), "%r" % s, "%%", "%(k)s" % {"k": 1}, "%c" % "a", "%+d" % n, "%05.1f" % r
    "{}".format(n), "{0} {1} {0}".format(s, n), "{k}".format(k=1), "{:>5}".format(s), "{:.2f}".format(r), "{0[0]}".format(numbers), "{!r}".format(s), "{:{w}}".format(s, w=6), "{{}}".format(), "{:,}".format(1234567), "{:b}".format(5), "{:%}".format(r), "{0.shape}".format(x)
    f"{s}", f"{s!r}", f"{n:04d}", f"{r:.1%}", f"{s:>{n + 3}}", f"{n}{s}{r}", f"{numbers}", f"{table['a']}", f"{x.shape[0]}x{x.size(1)}", f"{x.dtype}", f"{tuple(x.shape)}", f"{len(s)=}", f"{None!s:>6}", f"{'nested ' + f'{n}'}", f"{torch.float32}", f"{x.device}"
    str(3), str(1.0), str(1e20), str(True), str(None), str(s), str([1, "a"]), str(("a",)), str({"a": [1]}), repr(s), repr("a'b"), str(b"a"), str(b"a", "utf8"), str(torch.int64), str(x.shape), str(torch.device("cpu"))
    int("5") + float("1.5"), int(" 7 "), "3" + str(4), s.__len__(), s.__contains__("a"), s.__add__("z"), "a" "b", s and "yes", "" or "no", not s, min(s), max(s), sum(map(ord, s)), hash(s) == hash("abc"), str() == "", "abc".__eq__("abc"), s.__class__.__name__
    b"abc"[0], b"abc"[1:], b"a" + b"b", b"a" * 3, b"a" in b"abc", b"abc".upper(), bytes([65]), len(b"ab"), b"a" == b"a", list(b"ab"), b"a".hex(), bytes.fromhex("6162"), b"".join([b"a", b"b"])
    """
)  # fmt: skip


@core
def text_chooses_operation(x, s):
    table = {"abc": torch.relu, "xyz": torch.tanh}
    if s.startswith("a") and s in table:
        x = table[s](x)
    return x, f"used {table[s].__name__}"


@core
def names_are_built_and_looked_up(x):
    for name in "relu tanh sigmoid".split():
        x = getattr(torch, name)(x)
    return x


@core
def dotted_path(x):
    found = torch
    for part in "nn.functional.relu".split("."):
        found = getattr(found, part)
    return found(x)


@core
def dtype_by_name(x):
    return x.to(getattr(torch, "float" + str(32 * 2)))


@core
def einsum_equation_is_built(x, m):
    letters = "ijk"
    return torch.einsum(f"{letters[0]}{letters[1]},{letters[1:]}->{letters[0]}{letters[2]}", x, m)


@core
def long_concatenation(x):
    text = ""
    for k in range(20):
        text += str(k)
    return x + len(text), text


@core
def string_errors(x, s):
    out = []
    for thrower in (
        lambda: s + 1, lambda: s * "a", lambda: s.index("z"), lambda: s[10], lambda: int(s), lambda: "%d" % "a",
        lambda: "{} {}".format(1), lambda: ",".join([1]), lambda: f"{s:d}", lambda: "a".encode("nope"), lambda: s.missing,
        lambda: "a" < 1, lambda: s["k"], lambda: "%s %s" % (1,), lambda: b"a" + "b",
    ):  # fmt: skip
        try:
            out.append(thrower())
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


@later_effects
def formats_a_tensor(x):
    return f"{x.sum():.3f} {x}", x + 1


# A bytearray is mutable and has no model of its own.
corpus.later_effects.values('bytearray(b"ab"), bytearray(b"a") + b"b", bytes(bytearray(3))')

test_programs = corpus.test()
