"""Hooks on saved tensors that the program enters inside of a captured region.

The graph enters and leaves them, so PyTorch calls the program's own functions where operations save tensors. That
happens while the graph runs, and the side effects of the program come after the graph. So the hook that packs must be a
function of its tensor alone: it must not change anything, and not read what the program changes. `reads_of` looks at
all of its instructions, because a hook may do something else for another tensor.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.autograd.graph import save_on_cpu

__all__ = ["EnterHooks", "enter_pair", "leave", "reads_of"]

_push = torch._C._autograd._push_saved_tensors_default_hooks
_pop = torch._C._autograd._pop_saved_tensors_default_hooks


class EnterHooks:
    """The target of a node that enters a pair of hooks: generated code can't refer to a hook."""

    def __init__(self, pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> None:
        self.pack = pack
        self.unpack = unpack
        self.__name__ = self.__qualname__ = "enter_saved_tensors_hooks"

    def __call__(self) -> None:
        _push(self.pack, self.unpack)

    def __reduce__(self) -> tuple[Any, ...]:
        return EnterHooks, (self.pack, self.unpack)

    def __repr__(self) -> str:
        names = (getattr(hook, "__qualname__", hook) for hook in (self.pack, self.unpack))
        return f"saved_tensors_hooks({', '.join(map(str, names))})"


def leave(_entered: object) -> None:
    _pop()


def enter_pair(hooks: tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]) -> None:
    """For a plan that leaves the captured region inside of the hooks."""
    _push(*hooks)


_INSTRUCTIONS = (
    "RESUME CACHE NOP EXTENDED_ARG COPY_FREE_VARS PUSH_NULL PRECALL CALL CALL_KW KW_NAMES POP_TOP COPY SWAP NOT_TAKEN "
    "LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_FAST_LOAD_FAST STORE_FAST "
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_DEREF LOAD_GLOBAL LOAD_ATTR "
    "LOAD_METHOD BUILD_TUPLE BUILD_LIST BUILD_SLICE UNPACK_SEQUENCE BINARY_OP BINARY_SUBSCR BINARY_SLICE TO_BOOL "
    "UNARY_NEGATIVE UNARY_NOT UNARY_INVERT COMPARE_OP IS_OP CONTAINS_OP RETURN_VALUE RETURN_CONST JUMP_FORWARD "
    "POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_NONE "
    "POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE "
    "JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP"
)
# Methods of tensors that change something, beside those whose names end with an underscore.
_CHANGING = (
    "backward register_hook register_post_accumulate_grad_hook retain_grad resize resize_as set module_load storage "
    "untyped_storage record_stream share_memory apply map map2"
)
_WRITING_ARGUMENTS = frozenset({"out", "inplace"})


@functools.cache
def _attributes() -> frozenset[str]:
    """Names that mean the same for tensors and in the module `torch`: to compute something."""
    functions = torch.overrides.get_overridable_functions()
    names = {function.__name__ for function in functions[torch] if hasattr(function, "__name__")} | set(
        dir(torch.Tensor)
    )
    kinds = (torch.dtype, torch.layout, torch.memory_format)
    names |= {name for name in dir(torch) if isinstance(getattr(torch, name, None), kinds)}
    names |= {"empty", "zeros", "ones", "full", "tensor", "empty_strided"}
    return frozenset(name for name in names if not name.startswith("_") and not name.endswith("_")) - set(
        _CHANGING.split()
    )


def _draws_random_numbers(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()
    return name == "dropout" or any(torch.Tag.nondeterministic_seeded in getattr(packet, one).tags for one in overloads)


@functools.cache
def _own_hooks() -> frozenset[CodeType]:
    """Hooks of PyTorch that compute, and write only to tensors of their own."""
    inner = save_on_cpu.__init__.__code__.co_consts
    return frozenset(code for code in inner if isinstance(code, CodeType))


def reads_of(code: CodeType) -> str | tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals and closure variables that a hook reads, by name; or in words why it can't be captured."""
    is_own = code in _own_hooks()
    instructions = frozenset(_INSTRUCTIONS.split())
    read_globals: dict[str, None] = {}
    read_cells: dict[str, None] = {}
    if code.co_exceptiontable or any(isinstance(constant, CodeType) for constant in code.co_consts):
        return "handles exceptions or defines a function"
    if not is_own and any(
        isinstance(constant, tuple) and not _WRITING_ARGUMENTS.isdisjoint(map(str, constant))
        for constant in code.co_consts
    ):
        return "passes an argument that is written to"
    for instruction in dis.get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        if name not in instructions:
            return f"has the instruction {name}"
        if name == "BINARY_OP" and instruction.argrepr.endswith("="):
            return "has an in-place operator"
        if name in ("LOAD_ATTR", "LOAD_METHOD") and not is_own:
            if argument not in _attributes():
                return f"uses the attribute {argument}"
            if _draws_random_numbers(argument):
                return "draws random numbers"
        if name == "LOAD_GLOBAL":
            read_globals[argument] = None
        if name == "LOAD_DEREF":
            read_cells[argument] = None
    return tuple(read_globals), tuple(read_cells)
