"""Compares answers of the shape rules with those of FakeTensor, and where they differ with a real run."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._tensor
import torch.functional
from torch.overrides import TorchFunctionMode

from stator import _testing

Target = Any  # a callable, or the name of a method


@dataclasses.dataclass
class Verdict:
    """The outcome of one question."""

    kind: str  # "no rule", "agrees", "differs", "fake differs from eager"
    detail: str = ""


def call(target: Target, args: tuple, kwargs: dict) -> Any:
    return getattr(args[0], target)(*args[1:], **kwargs) if isinstance(target, str) else target(*args, **kwargs)


def describe_real(value: Any, tensors: list[torch.Tensor]) -> Any:
    """A real result in the form that `shape_infer` gives."""
    if isinstance(value, torch.Tensor):
        same = next((i for i, tensor in enumerate(tensors) if tensor is value), -1)
        return ("tensor", _testing.tensor_meta(value), same)
    if value is None:
        return ("none",)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        plain = type(value) in (tuple, list)
        items = [describe_real(item, tensors) for item in value]
        return ("list" if isinstance(value, list) else "tuple", items, None if plain else type(value))
    return ("constant", value)


def flatten_tensors(*values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def walk(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if not any(value is other for other in found):
                found.append(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, slice):
            walk((value.start, value.stop, value.step))

    walk(values)
    return found


def copy_inputs(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The same call with fresh inputs, so that it may write to them. A tensor with history gets a new one."""
    copies: dict[int, torch.Tensor] = {}

    def fresh(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in copies:
                copies[id(value)] = copy_tensor(value)
            return copies[id(value)]
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, tuple):
            items = [fresh(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [fresh(item) for item in value]
        if isinstance(value, dict):
            return {key: fresh(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(fresh(value.start), fresh(value.stop), fresh(value.step))
        return value

    return fresh(args), fresh(kwargs)


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_conj() and tensor.is_leaf:  # which a copy of its own would lose
        return copy_tensor(tensor.detach().conj()).conj().requires_grad_(tensor.requires_grad)
    if not tensor.is_leaf:
        with torch.enable_grad():
            copied = copy_tensor(tensor.detach().requires_grad_())
            return copied.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return copy.deepcopy(tensor)


def run_real(target: Target, args: tuple, kwargs: dict) -> Any:
    """The description of a real result, or the exception."""
    with contextlib.suppress(TypeError, RuntimeError), torch.inference_mode(False):
        args, kwargs = copy_inputs(args, kwargs)
    tensors = flatten_tensors(args, kwargs)
    try:
        return describe_real(call(target, args, kwargs), tensors)
    except Exception as error:  # noqa: BLE001
        return error


FIELDS = ("status", "result", "written", "changed", "view_of", "views_of", "random", "side_effect")


def differences(rule: dict, fake: dict) -> list[str]:
    return [f"{field}: rule {rule[field]}, fake {fake[field]}" for field in FIELDS if rule[field] != fake[field]]


def found_fields(found: list[str]) -> str:
    return ", ".join(line.split(":")[0] for line in found)


def short(value: Any) -> str:
    """A description as `shape_infer` gives them, in a few words."""
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value)[:100]}"
    if value[0] == "tensor":
        meta = value[1]
        kind = " leaf" if meta["is_leaf"] else " grad_fn"
        grad = kind if meta["requires_grad"] else ""
        return f"{str(meta['dtype'])[6:]}{list(meta['size'])} strides {list(meta['stride'])}{grad} same {value[2]}"
    if value[0] in ("tuple", "list"):
        return value[0] + "(" + ", ".join(map(short, value[1])) + ")"
    return str(value[1:])


def compare(target: Target, args: tuple, kwargs: dict) -> Verdict:
    rule = _testing.shape_infer(target, args, kwargs, "rule")
    if rule is None:
        return Verdict("no rule")
    try:
        fake = _testing.shape_infer(target, args, kwargs, "fallback")
    except Exception as error:  # noqa: BLE001
        real = run_real(target, args, kwargs)
        if not isinstance(real, Exception) and (real == rule["result"] or rule["status"] == "data-dependent"):
            return Verdict("fake differs from eager", f"fake raises {error}, eager gives {real}")
        return Verdict("differs", f"rule gives {rule['text']}, fake raises {type(error).__name__}: {str(error)[:200]}")
    found = differences(rule, fake)
    if not found:
        return Verdict("agrees")
    real = run_real(target, args, kwargs)
    if real == rule["result"] and all(line.startswith("result") for line in found):
        return Verdict("fake differs from eager", f"rule {rule['text']}, fake {fake['text']}")
    return Verdict(
        "differs", f"rule {rule['text']} | fake {fake['text']} | eager {short(real)} | in " + found_fields(found)
    )


def show(target: Target, args: tuple, kwargs: dict) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            grad = " grad" if value.requires_grad else ""
            return f"{str(value.dtype)[6:]}{list(value.shape)} strides {list(value.stride())}{grad}"
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(text, value)) + ")"
        return repr(value)

    name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
    parts = [text(arg) for arg in args] + [f"{key}={text(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def replaced(value: Any, change: Callable[[torch.Tensor], torch.Tensor], seen: dict[int, torch.Tensor]) -> Any:
    """Arguments with each tensor changed, one that appears twice once."""
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = change(value)
        return seen[id(value)]
    if type(value) in (tuple, list):
        return type(value)(replaced(item, change, seen) for item in value)
    return value


def relayouts(args: tuple, kwargs: dict) -> Iterator[tuple[tuple, dict]]:
    """The same call with its tensors laid out in memory in other ways."""

    def transposed(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() < 2 or tensor.layout != torch.strided:
            return tensor
        return tensor.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_(tensor.requires_grad)

    def channels_last(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != 4 or tensor.layout != torch.strided:
            return tensor
        return tensor.detach().clone(memory_format=torch.channels_last).requires_grad_(tensor.requires_grad)

    def with_holes(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() < 1 or tensor.layout != torch.strided:
            return tensor
        wide = torch.empty([*tensor.shape, 2], dtype=tensor.dtype, device=tensor.device)
        view = wide[..., 1]
        with torch.no_grad():
            view.copy_(tensor.detach())
        return view.detach().requires_grad_(tensor.requires_grad)

    for change in (transposed, channels_last, with_holes):
        seen: dict[int, torch.Tensor] = {}
        changed = replaced(args, change, seen)
        keywords = {key: replaced(value, change, seen) for key, value in kwargs.items()}
        if any(
            before is not after
            for before, after in zip(flatten_tensors(args, kwargs), flatten_tensors(changed, keywords))
        ):
            yield changed, keywords
        # Only the first tensor: operands then disagree about the layout.
        if args and isinstance(args[0], torch.Tensor) and change(args[0]) is not args[0]:
            yield (change(args[0]), *args[1:]), kwargs


class Recorded(TorchFunctionMode):
    """Notes the functions of PyTorch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple, dict]] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        # With CUDA, seeding the generators makes a device.
        named = getattr(func, "__name__", "") in ("__get__", "__set__", "_set_grad_enabled")
        if not named and func is not torch.device:
            self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def calls_inside(target: Target, args: tuple, kwargs: dict) -> list[tuple[Any, tuple, dict]]:
    """The operations that a function of the operator database calls; no program calls that function itself."""
    with torch.inference_mode(False):
        args, kwargs = copy_inputs(args, kwargs)
    try:
        with Recorded() as recorded:
            call(target, args, kwargs)
    except Exception:  # noqa: BLE001  rejected
        return []
    return recorded.calls


def calls_behind(target: Target, args: tuple, kwargs: dict) -> list[tuple[Any, tuple, dict]]:
    """The native operations that PyTorch's Python functions call."""
    modules = [torch.nn.functional, torch.functional, torch._tensor]
    names = ["has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"]
    with contextlib.ExitStack() as undo:
        for module in modules:
            for name in names:
                if hasattr(module, name):
                    undo.enter_context(mock.patch.object(module, name, lambda *arguments: False))
        return calls_inside(target, args, kwargs)


def is_wrapper(form: Any) -> bool:
    """A function of the operator database, which no program calls."""
    return getattr(form, "__module__", "") in (
        "torch.testing._internal.common_methods_invocations",
        "torch.testing._internal.opinfo.core",
        "torch.testing._internal.opinfo.definitions.linalg",
        "torch.testing._internal.opinfo.definitions.special",
    )


def forms(op: Any) -> Iterator[Target]:
    """The ways in which programs call an operation of the operator database."""
    if op.op is not None:
        yield op.op
    for variant in (op.method_variant, op.inplace_variant):
        name = getattr(variant, "__name__", None)
        if name is not None and getattr(torch.Tensor, name, None) is variant:
            yield name
    for variant in (op.operator_variant, op.inplace_operator_variant):
        if variant is not None:
            yield variant
