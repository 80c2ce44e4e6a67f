"""What a program logs. pytest's own `caplog` is switched off: it costs every test a walk over all of PyTorch's loggers."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def log_messages(*names: str, level: int = logging.NOTSET) -> Iterator[list[str]]:
    """The messages that these loggers, or those below them, get inside the block; `level` lowers the loggers' own."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        if level:
            logger.setLevel(level)
    try:
        yield messages
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            if level:
                logger.setLevel(old)
