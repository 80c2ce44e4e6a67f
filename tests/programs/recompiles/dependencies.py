"""Cases of dependencies: what is there before, the body of the program, and changes made one after the other, with
calls after each. Whether the graph breaks does not matter here; a name with an underscore in front is not compared
afterwards.
"""

import pytest

from tests.support.harness import Source, T, same


class Dependencies:
    def __init__(self):
        self.cases = {}

    def __call__(self, name, head, body, *changes, stateful=False):
        self.cases[name] = (head, body, changes, stateful)

    def test(self):
        @pytest.mark.usefixtures("world_put_back")
        @pytest.mark.parametrize("name", self.cases)
        def test_changes_are_noticed(name):
            head, body, changes, stateful = self.cases[name]
            same(
                Source(f"{head}\ndef f(x):\n    {body}\n"), T(2, 2),
                compare_dynamo=False, fullgraph=False, mutate=list(changes), stateful=stateful,
            )  # fmt: skip

        return test_changes_are_noticed
