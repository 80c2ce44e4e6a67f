"""What the tracer asks about asynchronous generators."""

import asyncio
import sys

_OF_ASYNCIO = asyncio.BaseEventLoop._asyncgen_firstiter_hook  # type: ignore[attr-defined]


def observes_async_generators() -> bool:
    """Whether code of the program is called when an asynchronous generator starts.

    An event loop of asyncio only registers the generator, so that it can close it. A generator that ends in the trace
    needs no closing, and others are registered when they are made.
    """
    hook = sys.get_asyncgen_hooks().firstiter
    return hook is not None and getattr(hook, "__func__", None) is not _OF_ASYNCIO
