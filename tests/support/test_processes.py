"""Separate processes: what they have imported, what they print, and that a failure is detected."""

import pytest

from tests.support.processes import Fresh, beside_dynamo, fresh, python


def test_torch_is_imported_and_nothing_of_the_tests():
    text = """
        import sys
        print([name in sys.modules for name in ("torch", "torch._dynamo", "stator", "pytest")])
        print(__name__, sys.argv[1:], sys.modules["__main__"].__dict__ is globals())
    """
    assert fresh(text, "a", "b").splitlines() == ["[True, False, False, False]", "__main__ ['a', 'b'] True"]
    assert beside_dynamo(text, "a", "b").splitlines() == ["[True, True, False, False]", "__main__ ['a', 'b'] True"]


def test_several_at_once():
    running = [Fresh(f"import sys; print({number}); print('error', file=sys.stderr)") for number in range(3)]
    assert [one.printed().splitlines() for one in running] == [[str(number), "error"] for number in range(3)]


@pytest.mark.parametrize(
    "end", ["raise ValueError('no')", "import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)"]
)
def test_a_failure_is_seen(end):
    text = f"print('before', flush=True)\n{end}"
    for run in (fresh, beside_dynamo, lambda text, **options: python("-c", text, **options)):
        with pytest.raises(AssertionError, match="before"):
            run(text)
        assert run(text, check=False).startswith("before")
