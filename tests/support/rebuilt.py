"""Values that leave the compiled code, compared with those of the uncompiled program."""

import torch

from tests.support import engine


def compiled(program, **options):
    engine.reset()
    return engine.compile(program, **options)


def both(program, *arguments):
    """The results of the program uncompiled and compiled; compiled twice, the second time from the cache."""
    plain = program(*arguments)
    captured = compiled(program)
    captured(*arguments)
    return plain, captured(*arguments)


def same(left, right) -> None:
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, tuple | list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    else:
        assert left == right
