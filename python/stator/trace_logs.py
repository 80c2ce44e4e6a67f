"""The logs of torch that follow a trace: `trace_source`, `trace_call`, `trace_bytecode` and `side_effects`; and which
line of the program needs a guard.

The engine notes the steps of a trace only if one of these is on (`torch_logs.began`), in C++, and they are formatted
here, after the trace, in the forms of TorchDynamo. Only imported once torch._dynamo is.
"""

from __future__ import annotations

import dis
import linecache
import logging
import os
import textwrap
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch._logging import trace_structured

from stator.torch_words import Stack

_source = torch._logging.getArtifactLogger("torch._dynamo.symbolic_convert", "trace_source")
_bytecode = torch._logging.getArtifactLogger("torch._dynamo.symbolic_convert", "trace_bytecode")
_call = torch._logging.getArtifactLogger("torch._dynamo.symbolic_convert", "trace_call")
_effects = torch._logging.getArtifactLogger("torch._dynamo.side_effects", "side_effects")

_TORCH = os.path.dirname(torch.__file__) + os.sep
_STATOR = os.path.dirname(__file__) + os.sep


def are_on() -> bool:
    return any(logger.isEnabledFor(logging.DEBUG) for logger in (_source, _bytecode, _call, _effects))


@dataclass
class _Frame:
    """An open frame of the trace, at the instruction that it executes."""

    code: CodeType
    depth: int
    instruction: dis.Instruction | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """As in TorchDynamo's logs: `file:line in f (Class.f) (inline depth: 1)`."""
        from torch._dynamo.funcname_cache import get_funcname

        name = get_funcname(self.code.co_filename, self.line or 0)
        inlined = f" (inline depth: {self.depth})" if self.depth > 0 else ""
        return f"{self.code.co_filename}:{self.line} in {self.code.co_name}{f' ({name})' if name else ''}{inlined}"

    @property
    def expression(self) -> str:
        """The source of the instruction, with carets under it where Python has its columns."""
        from torch._dynamo import utils

        underlined: Any = getattr(utils, "get_instruction_source_311", None)
        if underlined is None or self.instruction is None:
            return linecache.getline(self.code.co_filename, self.line or 0).rstrip()
        return underlined(self.code, self.instruction).rstrip()

    def summary(self) -> traceback.FrameSummary:
        return traceback.FrameSummary(self.code.co_filename, self.line or 0, self.code.co_name)


@dataclass
class _Follower:
    """Goes through the steps of a trace, and tells the logs."""

    frames: list[_Frame] = field(default_factory=list)
    instructions: dict[CodeType, dict[int, dis.Instruction]] = field(default_factory=dict)
    # By the source, the class and the number of the mutated object: where it was mutated.
    effects: dict[tuple[str, str, int], list[Stack]] = field(default_factory=dict)
    # By the text of a guard: where it is first needed.
    guards: dict[str, Stack] = field(default_factory=dict)
    # The instruction that made the last node.
    last_called: tuple[CodeType, int] | None = None

    def instruction(self, code: CodeType, offset: int, depth: int) -> None:
        if depth >= len(self.frames):
            if self.frames:
                caller = self.frames[-1]
                _call.debug("TRACE inlined call %s from %s\n%s", code.co_name, caller.place, caller.expression)
            self.frames.append(_Frame(code, depth))
        del self.frames[depth + 1 :]
        if self.frames[depth].code is not code:
            self.frames[depth] = _Frame(code, depth)
        frame = self.frames[depth]
        frame.instruction = self._instructions_of(code).get(offset)
        line = frame.instruction.positions.lineno if frame.instruction and frame.instruction.positions else None
        if line is not None and line != frame.line:
            frame.line = line
            if _source.isEnabledFor(logging.DEBUG):
                text = linecache.getline(code.co_filename, line).rstrip()
                _source.debug("TRACE starts_line %s\n    %s", frame.place, text)
        if frame.instruction is not None:
            _bytecode.debug("TRACE %s %s", frame.instruction.opname, frame.instruction.argval)

    def node(self, name: str) -> None:
        frame = self.frames[-1]
        called = (frame.code, frame.instruction.offset if frame.instruction else -1)
        if called != self.last_called:
            _call.debug("TRACE FX call %s from %s\n%s", name, frame.place, frame.expression)
        self.last_called = called

    def effect(self, source: str, kind: str, made_object: int) -> None:
        self.effects.setdefault((source, kind, made_object), []).append(self._stack())

    def guard(self, text: str) -> None:
        if text not in self.guards and self.frames:
            self.guards[text] = self._stack()

    def _stack(self) -> Stack:
        # (Functions of torch that a method of the program calls are not where the program does something.)
        return [frame.summary() for frame in self.frames if not frame.code.co_filename.startswith(_TORCH)]

    def _instructions_of(self, code: CodeType) -> dict[int, dis.Instruction]:
        if code not in self.instructions:
            self.instructions[code] = {one.offset: one for one in dis.get_instructions(code)}
        return self.instructions[code]


def tell(events: Iterable[tuple[Any, ...]]) -> dict[str, Stack]:
    """After a trace, with its steps (see src/trace/trace_log.h). Returns where each guard is first needed."""
    follower = _Follower()
    for kind, *details in events:
        getattr(follower, kind)(*details)
    if torch._dynamo.config.side_effect_replay_policy != "silent" and follower.effects:
        _tell_of_effects(follower.effects)
    return follower.guards


def _tell_of_effects(effects: dict[tuple[str, str, int], list[Stack]]) -> None:
    texts = [_text_of_effects(source, kind, stacks) for (source, kind, _), stacks in effects.items()]
    for text in texts:
        _effects.debug("%s", text)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "dynamo_side_effects", "encoding": "string"},
        payload_fn=lambda: "\n\n========================================\n\n".join(texts),
    )


def _text_of_effects(source: str, kind: str, stacks: Sequence[Stack]) -> str:
    outer = callers()
    texts = dict.fromkeys("".join(traceback.format_list([*outer, *stack])) for stack in stacks)
    lines = textwrap.indent("\n********\n\n".join(texts), "    ")
    name = kind.rpartition(".")[2]
    place = f"source name: {source}" if source else "source: created in torch.compile region"
    return f"Mutating object of type {name} ({place})\n\n{lines}"


def callers() -> Stack:
    """The calls in this thread that are not Stator's."""
    return [frame for frame in traceback.extract_stack() if not frame.filename.startswith(_STATOR)]
