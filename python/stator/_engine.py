"""Imports the C++ extension, `stator._C`, and documents what Python calls of it:

`Compiled(function, backend, options)`
    A callable that runs `function` compiled; it supports vectorcall. `function` is a Python function or a bound method
    of one. It has `__wrapped__` (the function), copies `__name__`, `__qualname__`, `__module__`, `__doc__` and
    `__dict__` from it, has a `__dict__` and weak references, and is a descriptor: in a class it binds `self` as a
    function does.
    `backend(graph_module, example_inputs)` is called once for each graph and returns a callable that takes the graph's
    inputs. It sets up its own contexts (see backends.py). What it raises (`BackendCompilerFailed`) propagates to
    the caller of the compiled function. Entries captured for one instance of a class are used for other instances that
    were compiled with equal backends and options.
    `options` is a dict: `fullgraph` (bool), `dynamic` (bool or None), `registers_attributes` (bool). It is stored as
    `_stator_options`; `stator.copies` reads from it what a copy is compiled from (`given`, `arguments`).
    While torch._dynamo is tracing in the thread, a call runs the original function.

`set_module_slots(cls)`
    Sets the C slots of a class of compiled modules; the special methods of the class are not used. A call calls
    what is in the slot `_stator_call`, or the model in `_stator_original` if its class by now has another `__call__`
    than the one in `_stator_called`. `__class__` is that of the model, and attributes that the object lacks are
    read from the model. If the class or `__dict__` of the model has changed, `stator.modules.follow(compiled)` is
    called first.

`show_call(cls, function)`
    Sets `__call__` of the class to the function, for those who read it; C code does not call it.

`callables()`
    For every compiled callable: whether it was called, its number of captures, and how many of those have a graph.

`reset()`
    Drops every entry.

`build_tables()`
    Builds the tables that the first capture of a process needs.

`collect(callback)`
    From now on `callback(report)` is called in this thread after every attempt at a capture; None stops that. Returns
    the previous callback. A report is a plain dict, described in report.py.

The engine reads `stator.settings.values`, a plain dict, at every capture, calls
`stator.errors.raise_unsupported(break)` at a graph break with `fullgraph=True`, and `stator.notes.issue` for warnings
and log messages.
"""

from __future__ import annotations

import importlib
from typing import Any


def engine() -> Any:
    """The extension module. Raises an ImportError with the remedy if it is not built."""
    try:
        return importlib.import_module("stator._C")
    except ModuleNotFoundError as missing:
        if missing.name != "stator._C":
            raise
        raise ImportError(
            "Stator's C++ extension is not built for this Python: run `make build`, or `pip install .` beside torch."
        ) from None
