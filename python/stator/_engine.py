"""The one place where the C++ extension is imported, and what Python expects of it.

`stator._C` offers:

`Compiled(function, backend, options)`
    A callable that runs `function` compiled, with vectorcall. `function` is a Python function or a bound method of
    one. It has `__wrapped__` (the function), takes `__name__`, `__qualname__`, `__module__`, `__doc__` and
    `__dict__` over from it, has a `__dict__` and weak references of its own, and is a descriptor: in a class it binds
    `self` as a function does.
    `backend(graph_module, example_inputs)` is called once for each graph and returns a callable over the graph's
    inputs. It does its own context handling (see backends.py). What it raises (`BackendCompilerFailed`) is raised to
    the caller of the compiled function. Entries captured for one instance of a class serve another one as well, where
    both were compiled with equal backends and options.
    `options` is a dict: `fullgraph` (bool), `dynamic` (bool or None), `registers_attributes` (bool). It is kept as
    `_stator_options`; `stator.copies` reads from it what a copy is compiled from (`given`, `arguments`).
    Inside of what torch._dynamo compiles, a call runs the function as it is.

`set_module_slots(cls)`
    Makes objects of the class compiled modules to C code, past the special methods that the class shows. A call calls
    what is in the slot `_stator_call`, or the model in `_stator_original` once its class has another `__call__` than
    the one in `_stator_called`. `__class__` is that of the model, and attributes that the object has not itself are
    read from the model. Where the two have come to differ, `stator.modules.follow(compiled)` is called before.

`show_call(cls, function)`
    Shows the function as the `__call__` of the class, without C code calling it.

`callables()`
    Every compiled callable, whether it was ever called, how often it was captured and how many of that have a graph.

`reset()`
    Forgets every entry, and releases all that entries hold.

`collect(callback)`
    Until it is called again, `callback(report)` is called in this thread after every attempt at a capture; None stops
    that. It returns the callback that was there before. A report is a plain dict, described in report.py.

The engine reads `stator.settings.values`, a plain dict, whenever it captures, and calls
`stator.errors.raise_unsupported(break)` where `fullgraph=True` forbids to go on uncaptured. What the user should know
of goes through `stator.notes.tell`.
"""

from __future__ import annotations

import importlib
from typing import Any


def engine() -> Any:
    """The extension module, or an ImportError that says what to do."""
    try:
        return importlib.import_module("stator._C")
    except ModuleNotFoundError as missing:
        if missing.name != "stator._C":
            raise
        raise ImportError(
            "Stator's C++ extension is not built for this Python: run `make build`, or `pip install .` beside torch."
        ) from None
