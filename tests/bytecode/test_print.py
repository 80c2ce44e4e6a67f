"""The printed form of instructions, and what is the same in all Python versions."""

import sys

import pytest

from tests.support.frames_extension import extension


def text_of(source: str) -> str:
    code = compile(source, "<test>", "exec").co_consts[0]
    return extension._frames_print(code)


SOURCE = """\
def f(x, items):
    with x:
        for item in items:
            x += item
    return lambda: x
"""

EXPECTED = {
    (3, 11): """\
code f, line 1, stack 6
          0  MakeCell cell x
    1     1  Resume 0
    2     2  LoadDeref cell x
          3  BeforeWith
          4  PopTop
    3     5  LoadFastCheck items
          6  GetIter
          7  ForIter to 14
          8  StoreFast item
    4     9  LoadDeref cell x
         10  LoadFastCheck item
         11  BinaryOp +=
         12  StoreDeref cell x
         13  JumpBackward to 7
    3    14  Nop
    2    15  LoadConst None
         16  LoadConst None
         17  LoadConst None
         18  Call 2
         19  PopTop
         20  Jump to 32
         21  PushExcInfo
         22  WithExceptStart
         23  PopJumpIfTrue to 28
         24  Reraise 2
         25  Copy 3
         26  PopExcept
         27  Reraise 1
         28  PopTop
         29  PopExcept
         30  PopTop
         31  PopTop
    5    32  LoadFast cell x
         33  BuildTuple 1
         34  LoadConst <code>
         35  MakeFunction 8
         36  ReturnValue
  exceptions in 4..13 go to 21 with stack 1 and lasti
  exceptions in 21..24 go to 25 with stack 3 and lasti
  exceptions in 28..28 go to 25 with stack 3 and lasti
""",
    (3, 12): """\
code f, line 1, stack 6
          0  MakeCell cell x
    1     1  Resume 0
    2     2  LoadDeref cell x
          3  BeforeWith
          4  PopTop
    3     5  LoadFast items
          6  GetIter
          7  ForIter to 15
          8  StoreFast item
    4     9  LoadDeref cell x
         10  LoadFast item
         11  BinaryOp +=
         12  StoreDeref cell x
         13  JumpBackward to 7
    3    14  EndFor
         15  Nop
    2    16  LoadConst None
         17  LoadConst None
         18  LoadConst None
         19  Call 2
         20  PopTop
    5    21  LoadFast cell x
         22  BuildTuple 1
         23  LoadConst <code>
         24  MakeFunction 8
         25  ReturnValue
    2    26  PushExcInfo
         27  WithExceptStart
         28  PopJumpIfTrue to 30
         29  Reraise 2
         30  PopTop
         31  PopExcept
         32  PopTop
         33  PopTop
         34  JumpBackward to 21
         35  Copy 3
         36  PopExcept
         37  Reraise 1
  exceptions in 4..14 go to 26 with stack 1 and lasti
  exceptions in 26..30 go to 35 with stack 3 and lasti
""",
    (3, 13): """\
code f, line 1, stack 6
          0  MakeCell cell x
    1     1  Resume 0
    2     2  LoadDeref cell x
          3  BeforeWith
          4  PopTop
    3     5  LoadFast items
          6  GetIter
          7  ForIter to 16
          8  StoreFast item
    4     9  LoadDeref cell x
         10  LoadFast item
         11  BinaryOp +=
         12  StoreDeref cell x
         13  JumpBackward to 7
    3    14  EndFor
         15  PopTop
    2    16  LoadConst None
         17  LoadConst None
         18  LoadConst None
         19  Call 2
         20  PopTop
    5    21  LoadFast cell x
         22  BuildTuple 1
         23  LoadConst <code>
         24  MakeFunction 0
         25  SetFunctionAttribute 8
         26  ReturnValue
    2    27  PushExcInfo
         28  WithExceptStart
         29  ToBool
         30  PopJumpIfTrue to 32
         31  Reraise 2
         32  PopTop
         33  PopExcept
         34  PopTop
         35  PopTop
         36  Jump to 21
         37  Copy 3
         38  PopExcept
         39  Reraise 1
  exceptions in 4..15 go to 27 with stack 1 and lasti
  exceptions in 27..32 go to 37 with stack 3 and lasti
""",
}


def test_a_function() -> None:
    assert text_of(SOURCE) == EXPECTED[sys.version_info[:2]]


@pytest.mark.parametrize(
    "expression, shown",
    [
        ("a.b", ["LoadAttr b"]),
        ("a.b()", ["LoadMethod b", "Call 0"]),
        ("a < 1", ["CompareOp <"]),
        ("a >= 1", ["CompareOp >="]),
        ("a ** 2", ["BinaryOp **"]),
        ("+a", ["UnaryPositive"]),
        ("not_local", ["LoadGlobal not_local"]),
        ("not_local(1)", ["LoadGlobal not_local with NULL", "Call 1"]),
        ("[*a, 1]", ["ListExtend 1", "ListAppend 1"]),
        ("(*a,)", ["ListToTuple"]),
        ("f'{a}'", ["FormatValue 0, 0"]),
        ("f'{a:>5}'", ["FormatValue 0, 1"]),
        ("a[1:2]", ["BinarySlice"] if sys.version_info >= (3, 12) else ["BuildSlice 2", "BinarySubscr"]),
        ("a is None", ["IsOp 0"]),
        ("1 not in a", ["ContainsOp 1"]),
    ],
)
def test_one_dialect_for_all_versions(expression: str, shown: list[str]) -> None:
    lines = [line.strip() for line in text_of(f"def f(a):\n return {expression}\n").splitlines()]
    position = 0
    for operation in shown:
        found = [i for i, line in enumerate(lines) if line.endswith(operation) and i >= position]
        assert found, f"{operation!r} is not in\n" + "\n".join(lines)
        position = found[0]


def test_every_operation_says_what_it_does() -> None:
    for name, (effect, _) in extension._frames_operations().items():
        before, separator, after = effect.partition("--")
        assert separator, name
        assert before.strip() or after.strip() or effect == "--", name
