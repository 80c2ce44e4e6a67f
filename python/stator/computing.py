"""Functions of the program that PyTorch calls while the graph runs, or in the backward pass: hooks, and the methods of
a `torch.autograd.Function` inside of a function transform or a checkpoint.

They run apart from the trace, so each must be a function of its arguments alone: it must not change anything, and not
read what the program changes. `reads_of` looks at all instructions, because a function may do something else for
another tensor.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType

import torch
from torch.autograd.graph import save_on_cpu

_INSTRUCTIONS = (
    "RESUME CACHE NOP EXTENDED_ARG COPY_FREE_VARS PUSH_NULL PRECALL CALL CALL_KW KW_NAMES POP_TOP COPY SWAP NOT_TAKEN "
    "LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_FAST_LOAD_FAST STORE_FAST "
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_DEREF LOAD_GLOBAL LOAD_ATTR "
    "LOAD_METHOD BUILD_TUPLE BUILD_LIST BUILD_SLICE UNPACK_SEQUENCE BINARY_OP BINARY_SUBSCR BINARY_SLICE TO_BOOL "
    "UNARY_NEGATIVE UNARY_NOT UNARY_INVERT COMPARE_OP IS_OP CONTAINS_OP RETURN_VALUE RETURN_CONST JUMP_FORWARD "
    "POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_NONE "
    "POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE JUMP_BACKWARD DELETE_FAST "
    "UNPACK_EX GET_ITER FOR_ITER END_FOR POP_ITER LIST_APPEND LIST_EXTEND CALL_INTRINSIC_1 LIST_TO_TUPLE "
    "CALL_FUNCTION_EX "
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


def _loads(instruction: dis.Instruction, variable: str) -> bool:
    """Whether it leaves the variable on top of the stack."""
    held = instruction.argval
    is_load = instruction.opname.startswith("LOAD_FAST")
    return is_load and (held == variable or (isinstance(held, tuple) and held[-1] == variable))


def _is_of_context(name: str) -> bool:
    return name in _OF_CONTEXTS.split() or (name not in dir(torch.autograd.Function) and not name.startswith("_"))


def _draws_random_numbers(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()
    return name == "dropout" or any(torch.Tag.nondeterministic_seeded in getattr(packet, one).tags for one in overloads)


@functools.cache
def _own_hooks() -> frozenset[CodeType]:
    """Hooks of PyTorch that compute, and write only to tensors of their own."""
    inner = save_on_cpu.__init__.__code__.co_consts
    return frozenset(code for code in inner if isinstance(code, CodeType))


# What a method of a `torch.autograd.Function` may use of its context, beside the attributes that it sets.
_OF_CONTEXTS = (
    "save_for_backward save_for_forward saved_tensors saved_variables mark_non_differentiable set_materialize_grads "
    "needs_input_grad batch_size randomness"
)


def reads_of(code: CodeType, context: str | None = None) -> str | tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals and closure variables that a function reads, by name; or in words why it can't be captured.

    `context` is the variable of a context (`ctx`), which it may write to, if it has one.
    """
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
    before = None
    for instruction in dis.get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        of_context = context is not None and before is not None and _loads(before, context)
        of_class = context is not None and before is not None and before.opname in ("LOAD_GLOBAL", "LOAD_DEREF")
        before = instruction
        if context is not None and argument == context and name.startswith("STORE_FAST"):
            return "assigns to its context"
        if of_context and name in ("STORE_ATTR", "LOAD_ATTR", "LOAD_METHOD") and _is_of_context(argument):
            continue
        if of_class and name in ("LOAD_ATTR", "LOAD_METHOD") and argument == "apply":
            continue
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
