"""Records traces that failed with an internal error, and runs them again.

With `stator.config.record_errors = folder` the engine calls `record` for each such trace. The file holds the function
with what it reads (globals, closure, defaults), the frame's variables and the grad mode, as data (see
recorded_values.py): reading it runs no code. Layout: a line that names the format, the SHA-256 of the rest, the length
of the JSON text, the JSON text, and the memory of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import tempfile
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from stator import _engine, errors
from stator.recorded_values import Decoder, Encoder, Missing, RecordingError

__all__ = ["Missing", "Recording", "RecordingError", "load", "record", "replay"]

_FORMAT = b"stator recording 2\n"


@dataclass
class Recording:
    function: Any
    slots: list[tuple[Any, ...]]
    at: int
    stack_depth: int
    is_generator: bool
    error: str
    grad_enabled: bool


def record(
    folder: str, function: Any, slots: list[tuple[Any, ...]], at: int, stack_depth: int, is_generator: bool, error: str
) -> str:
    """Writes a recording to a new file in the folder and returns its path. Called by the engine."""
    encoder = Encoder()
    content = {
        "python": list(sys.version_info[:2]),
        "torch": torch.__version__,
        "function": encoder.encode(function),
        "slots": [[encoder.encode(value) for value in slot] for slot in slots],
        "at": at,
        "stack_depth": stack_depth,
        "is_generator": is_generator,
        "error": error,
        "grad_enabled": torch.is_grad_enabled(),
        "objects": encoder.objects,
        "memory": [len(one) for one in encoder.memory],
    }
    os.makedirs(folder, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix=f"{function.__name__}-", suffix=".stator", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_packed(content, encoder.memory))
    except OSError:
        os.unlink(path)  # half a file would only mislead
        raise
    return path


def _packed(content: dict[str, Any], memory: list[bytes]) -> bytes:
    text = json.dumps(content).encode()
    rest = struct.pack("<Q", len(text)) + text + b"".join(memory)
    return _FORMAT + hashlib.sha256(rest).digest() + rest


def _unpacked(path: str) -> tuple[dict[str, Any], list[bytes]]:
    with open(path, "rb") as file:
        data = file.read()
    if not data.startswith(_FORMAT):
        raise RecordingError(f"{path} is not a recording of this version of Stator")
    digest, rest = data[len(_FORMAT) : len(_FORMAT) + 32], data[len(_FORMAT) + 32 :]
    if len(rest) < 8 or hashlib.sha256(rest).digest() != digest:
        raise RecordingError(f"{path} is truncated or was altered: its checksum does not fit")
    (length,) = struct.unpack_from("<Q", rest)
    try:
        content = json.loads(rest[8 : 8 + length])
        memory, start = [], 8 + length
        for size in content["memory"]:
            memory.append(rest[start : start + size])
            start += size
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{path} is not a valid recording: {error}") from None
    return content, memory


def load(path: str, allow: bool | Iterable[str] = ()) -> Recording:
    """Reads a recording. Imports only modules that are in `allow`, besides torch and some of Python's own."""
    content, memory = _unpacked(path)
    if content.get("python") != list(sys.version_info[:2]):
        wanted = ".".join(map(str, found)) if isinstance(found := content.get("python"), list) else "?"
        raise RecordingError(f"{path} was recorded by Python {wanted}, which has other bytecode")
    try:
        decoder = Decoder(content["objects"], memory, allow)
        function = decoder.decode(content["function"])
        if not isinstance(function, types.FunctionType):
            raise RecordingError("it is not a valid recording: its function is none")
        slots = [tuple(decoder.decode(value) for value in slot) for slot in content["slots"]]
        if not all(isinstance(slot, list) and len(slot) < 2 for slot in content["slots"]):
            raise RecordingError("it is not a valid recording: a slot has more than one value")
        types_of = {"at": int, "stack_depth": int, "is_generator": bool, "error": str, "grad_enabled": bool}
        for name, kind in types_of.items():
            if type(content[name]) is not kind:
                raise RecordingError(f"it is not a valid recording: {name} is {content[name]!r}")
        return Recording(function, slots, *(content[name] for name in types_of))
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error.__cause__
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError, RecursionError) as error:
        raise RecordingError(f"{path} is not a valid recording: {type(error).__name__}: {error}") from error


def replay(path: str, allow: bool | Iterable[str] = ()) -> None:
    """Runs a recorded trace again. Raises `stator.Unsupported` with the error; returns if the trace succeeds.

    A recording is data: reading it runs no code of the file. It names the functions and classes of the program.

    Args:
        path: a file that was written because of `stator.config.record_errors`.
        allow: the modules whose functions and classes may be imported, such as `["my_model"]`; `"__main__"` is the
            recorded script, which then runs again if the recording has objects of its classes. True allows all.

    Raises:
        stator.recordings.RecordingError: the file is truncated, altered or of another version, or names code of a
            module that is not in `allow`.
    """
    recording = load(path, allow)
    with torch.set_grad_enabled(recording.grad_enabled):
        try:
            broken = _engine.engine().trace_again(
                recording.function, recording.slots, recording.at, recording.stack_depth, recording.is_generator
            )
        except (ValueError, OverflowError) as error:
            raise RecordingError(f"{path}: {error}") from None
    if broken is not None:
        errors.raise_unsupported(broken)
