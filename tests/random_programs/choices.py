"""The random numbers that a program is written by: of a seed, or those of another program with some of them changed."""

from __future__ import annotations

import random
from collections.abc import Sequence


def chances(seed: int | random.Random) -> random.Random:
    return seed if isinstance(seed, random.Random) else random.Random(seed)


class Choices(random.Random):
    """Draws the numbers of `given` first and then new ones, and remembers all."""

    def __new__(cls, given: Sequence[float], seed: int) -> Choices:
        return super().__new__(cls, seed)

    def __init__(self, given: Sequence[float], seed: int) -> None:
        super().__init__(seed)
        self.given, self.made = given, []  # type: ignore[var-annotated]

    def random(self) -> float:
        number = self.given[len(self.made)] if len(self.made) < len(self.given) else super().random()
        self.made.append(number)
        return number


def changed(numbers: Sequence[float], others: Sequence[float], chance: random.Random) -> list[float]:
    """Some numbers are new ones; or the end is cut off, to be made anew; or it is that of another program."""
    made = list(numbers)
    how = chance.random()
    if how < 0.4:
        for _ in range(chance.choice([1, 1, 2, 4, 16])):
            made[chance.randrange(len(made))] = chance.random()
        return made
    at = chance.randrange(len(made))
    if how < 0.7 or at >= len(others):
        return made[:at]
    return made[:at] + list(others[at:])
