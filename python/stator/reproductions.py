"""Files that show a mismatch: a Python program with the function, its arguments and the calls that differ.

A file has the definitions of the program and a generator `calls`, which yields the function with its arguments for each
call and changes global variables and objects between them. `show` runs these calls compiled, each compared with the
uncompiled program, and raises the `stator.Mismatch`.
"""

from __future__ import annotations

import os
import re
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import stator
from stator import backends
from stator.isolation import World, _is_class_of_program, _names
from stator.runs import State
from stator.settings import config
from stator.written_code import Code, _contents
from stator.written_values import Description, Names, Writer

if TYPE_CHECKING:
    from stator.checks import Checker
    from stator.same import Different

_FILE = '''"""{title}

Run it with: python {name}
"""

{imports}

{definitions}


def calls():
{globals}    torch.manual_seed(0)
{calls}


if __name__ == "__main__":
    reproductions.show(calls, {options})
'''

_is_showing = False


@dataclass
class Inputs:
    """A call as text: the objects that it is given, global variables, and the call itself."""

    objects: Description
    variables: dict[str, str]
    call: str
    code: Code = field(repr=False)


def describe(world: World, names: Names) -> Inputs | None:
    """None if the call can't be written as text."""
    if _is_showing:
        return None
    state = State.now()  # modules are made to see what their repr is worth
    try:
        return _describe(world, names)
    except Exception:
        return None  # a repr of the program that raises, for example: there is a report without a file
    finally:
        state.restore()


def _describe(world: World, names: Names) -> Inputs:
    code = Code()
    writer = Writer(names, world.tensors, code.name)
    function = getattr(world.fn, "__func__", world.fn)
    variables = {}
    for name, (value, module) in _variables(world).items():
        if _is_of_library(value):
            code.imports[name] = f"from {module} import {name}"
        else:
            variables[name] = writer.expression(value)
    arguments = writer.expression(world.arguments)
    keywords = "{" + ", ".join(f"{name!r}: {writer.expression(one)}" for name, one in world.keywords.items()) + "}"
    if isinstance(world.fn, types.MethodType):
        owner = writer.expression(world.fn.__self__)
        is_module = isinstance(world.fn.__self__, nn.Module) and world.fn.__name__ in ("_wrapped_call_impl", "__call__")
        fn = owner if is_module else f"{owner}.{world.fn.__name__}"
    else:
        fn = code.name(function)
    for variable in variables:
        code.imports.pop(variable, None)
    return Inputs(writer.description, variables, f"{fn}, {arguments}, {keywords}", code)


def _is_of_library(value: Any) -> bool:
    """Whether an object is of a class of PyTorch or Python that can't be written as text: a custom operator, a lock."""
    if isinstance(value, (nn.Module, torch.Tensor, torch.dtype, torch.device, torch.Size, types.MethodType)):
        return False
    return type(value).__module__ != "builtins" and not _is_class_of_program(type(value))


def _variables(world: World) -> dict[str, tuple[Any, str]]:
    """The global variables and those of the closure that hold data, with their modules. The closure becomes global."""
    found: dict[str, tuple[Any, str]] = {}
    seen: set[Any] = set()
    waiting = [getattr(world.fn, "__func__", world.fn)]
    for _, value in _reached_functions(world):
        waiting.append(value)
    while waiting:
        function = waiting.pop()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        scope = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scope |= {name: _contents(cell) for name, cell in cells if name != "__class__"}
        for name, value in scope.items():
            if isinstance(value, types.FunctionType):
                waiting.append(value)
            elif not isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)) and not name.startswith(
                "__"
            ):
                found.setdefault(name, (value, function.__module__))
    # The values of this world's copies, where it has them.
    for space, name, value in world.variables:
        if name in found and not space.name:
            found[name] = value, found[name][1]
    return found


def _reached_functions(world: World) -> Iterator[tuple[str, Any]]:
    """Methods of the program's classes that the call reaches."""
    from stator.isolation import _Reach, is_of_program

    reach = _Reach()
    reach.add([world.fn, world.arguments, world.keywords])
    for value in list(reach.seen.values()):
        for cls in type(value).__mro__:
            for name, one in vars(cls).items():
                if isinstance(one, types.FunctionType) and is_of_program(one.__code__.co_filename):
                    yield name, one
    for function in reach.functions:
        if is_of_program(function.__code__.co_filename):
            yield function.__name__, function


def write(checker: Checker, last: Inputs | None, difference: Different, fault: str) -> str:
    """Writes a file and returns its path; an empty path if the program has no source or the file can't be written."""
    if _is_showing or last is None:
        return ""
    earlier = [one for one in checker.captured_inputs[-8:] if one is not None and one is not last]
    needs_earlier = fault == "guard" or checker.calls > 1
    text = render([*(earlier if needs_earlier else []), last], checker, difference)
    name = re.sub(r"\W+", "_", checker.name).strip("_") or "program"
    try:
        folder = config.reproduction_folder or tempfile.gettempdir()
        os.makedirs(folder, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"stator-{name}-", suffix=".py", dir=folder, text=True)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text.replace("python FILE", f"python {os.path.basename(path)}"))
        except OSError:
            os.unlink(path)  # half a program
            raise
    except OSError as error:
        from stator import notes

        notes.warn(f"the reproduction of a mismatch could not be written: {error}")
        return ""
    return path


def render(inputs: list[Inputs], checker: Checker, difference: Different) -> str:
    imports = {"torch": "import torch", "reproductions": "from stator import reproductions"}
    definitions: dict[str, str] = {}
    options = _options(checker, imports, definitions)
    lines: list[str] = []
    before: Inputs | None = None
    for one in inputs:
        imports |= one.code.imports
        definitions |= one.code.definitions
        lines += one.objects.lines(None if before is None else before.objects)
        lines += [
            f"{name} = {value}"
            for name, value in one.variables.items()
            if before is None or before.variables.get(name) != value or value in one.objects.things
        ]
        lines.append(f"yield {one.call}")
        before = one
    variables = sorted({name for one in inputs for name in one.variables})
    if any("collections." in line for line in lines):
        imports["collections"] = "import collections"
    return _FILE.format(
        title=str(difference).splitlines()[0].replace("\\", "\\\\").replace('"', "'"),
        name="FILE",
        imports="\n".join(sorted(imports.values(), key=lambda line: (" = " in line, line))),
        definitions="\n\n\n".join(definitions.values()),
        globals=f"    global {', '.join(variables)}\n" if variables else "",
        calls="\n".join(f"    {line}" for line in lines),
        options=", ".join(options),
    )


def _options(checker: Checker, imports: dict[str, str], definitions: dict[str, str]) -> list[str]:
    """The arguments of `show`, as far as they are not the defaults."""
    given = [f"backend={_backend_text(checker.backend, imports, definitions)}"]
    given += ["check_exact=True"] if checker.exact else []
    for name, default in (("fullgraph", False), ("dynamic", None)):
        if (value := checker.options.get(name)) is not default:
            given.append(f"{name}={value!r}")
    if isinstance(kept := checker.options.get("guard_filter"), types.FunctionType):
        code = Code()
        given.append(f"options={{'guard_filter_fn': {code.name(kept, 'guard_filter')}}}")
        imports |= code.imports
        definitions |= code.definitions
    return given


def _backend_text(backend: backends.Backend, imports: dict[str, str], definitions: dict[str, str]) -> str:
    if (
        not isinstance(backend.compiler, types.FunctionType)
        or backend.is_pytorchs
        or backend.name in ("eager", "stator")
    ):
        return repr(backend.name)
    code = Code()
    name = code.name(backend.compiler, "backend" if backend.compiler.__name__ == "<lambda>" else None)
    for function in [backend.compiler, *(one for one in code._alive if isinstance(one, types.FunctionType))]:
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if isinstance(value := _contents(cell), (bool, int, float, str, type(None))):
                definitions.setdefault(variable, f"{variable} = {value!r}")
    imports |= code.imports
    definitions |= code.definitions
    return name


def bare(cls: type[nn.Module]) -> Any:
    """An instance of a class of modules whose `__init__` was not called."""
    made = cls.__new__(cls)
    nn.Module.__init__(made)
    return made


def show(calls: Callable[[], Iterator[Any]], **options: Any) -> None:
    """Runs the calls of a reproduction file, compiled with these options. Raises `stator.Mismatch`, or returns if
    nothing differs any more."""
    global _is_showing
    compiled: dict[int, Any] = {}
    _is_showing = True
    try:
        for fn, arguments, keywords in calls():
            if id(fn) not in compiled:
                compiled[id(fn)] = stator.compile(fn, check="always", **options)
            compiled[id(fn)](*arguments, **keywords)
    finally:
        _is_showing = False
