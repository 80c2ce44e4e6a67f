"""The marks and queries of torch.compiler and torch._dynamo: each public name has a program here, or a reason."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounter

import stator

# Used elsewhere in these tests, or about settings, export and files, which stay with torch.
ELSEWHERE = {
    "compile",
    "config",
    "reset",
    "OptimizedModule",
    "optimize",
    "optimize_assert",
    "explain",
    "run",
    "export",
    "set_stance",
    "load_compiled_function",
    "bytecode_debugger",
    "replay",
    "set_recursion_limit",
    "allow_c_slot",
    "reset_recompile_user_contexts",
    "set_enable_guard_collectives",
    "precompile",
    "PrecompileError",
    # For autotuners while CUDA graphs of inductor are warmed up.
    "cudagraph_mark_warmup_incomplete",
}
# Refused, with their names: see test_compile_api.
GUARD_FILTERS = {name for name in torch.compiler.__all__ if name.endswith("_unsafe")}

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(name: str, graphs: int, raises: type[Exception] | None = None, **arguments: Any) -> Callable[..., Any]:
    """Registers a function of a tensor, and into how many graphs it is compiled."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def check() -> None:
            counter = CompileCounter()
            compiled = torch.compile(function, backend=counter, **arguments)
            for _ in range(2):
                if raises is not None:
                    with pytest.raises(raises):
                        compiled(torch.ones(3))
                else:
                    assert torch.equal(
                        torch.as_tensor(compiled(torch.ones(3))), torch.as_tensor(function(torch.ones(3)))
                    )
            assert counter.frame_count == graphs

        PROGRAMS[f"{name} {function.__name__}"] = check
        return function

    return register


def add_one(x):
    return x + 1


@program("disable", 1)
def calls_disabled(x):
    return torch.compiler.disable(add_one, reason="for a test")(x) * 2


disabled = torch.compiler.disable(add_one, reason="for a test")


@program("disable", 0, raises=Unsupported, fullgraph=True)
def calls_disabled_in_one_graph(x):
    return disabled(x) * 2


@torch._dynamo.allow_in_graph
def allowed(x):
    return x + 1


@program("allow_in_graph", 1, fullgraph=True)
def calls_allowed(x):
    return allowed(x) * 2


@torch._dynamo.nonstrict_trace
def not_strict(x):
    return x + 1


@program("nonstrict_trace", 1, fullgraph=True)
def calls_not_strict(x):
    return not_strict(x) * 2


@torch._dynamo.forbid_in_graph
def forbidden(x):
    return x + 1


@program("forbid_in_graph", 0, raises=AssertionError)
def calls_forbidden(x):
    return forbidden(x) * 2


@program("forbid_in_graph", 0, raises=AssertionError)
def catches_nothing_of_it(x):
    try:
        return forbidden(x) * 2
    except AssertionError:
        return x


@program("set_stance", 0, raises=AssertionError)
def sets_the_stance(x):
    with torch.compiler.set_stance("force_eager"):
        return x + 1


@torch.compiler.assume_constant_result
def constant():
    return 5


@program("assume_constant_result", 1, fullgraph=True)
def calls_constant(x):
    return x * constant()


@torch.compiler.substitute_in_graph(zlib.adler32)
def adler32(data, value=1, /):
    low, high = value & 0xFFFF, value >> 16
    for byte in data:
        low = (low + byte) % 65521
        high = (high + low) % 65521
    return high << 16 | low


@program("substitute_in_graph", 1, fullgraph=True)
def calls_substituted(x):
    return (x + 1) * (zlib.adler32(b"abc") % 1000)


@program("graph_break", 2)
def breaks(x):
    x = x + 1
    torch._dynamo.graph_break(msg="for a test")
    return x * 2


@program("graph_break", 0, raises=Unsupported, fullgraph=True)
def breaks_in_one_graph(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@program("skip_frame", 0)
def skips(x):
    x = x + 1
    torch._dynamo.skip_frame()
    return x * 2


@program("step_unsupported", 1)
def steps(x):
    x = x + 1
    torch._dynamo.step_unsupported()
    return x * 2


@program("error_on_graph_break", 0, raises=Unsupported)
def breaks_where_it_is_an_error(x):
    with torch._dynamo.error_on_graph_break(True):
        x = x + 1
        torch._dynamo.graph_break()
    return x * 2


@program("error_on_graph_break", 2)
def breaks_beside_that(x):
    with torch._dynamo.error_on_graph_break(True):
        x = x + 1
    torch._dynamo.graph_break()
    with torch._dynamo.error_on_graph_break(True):
        return x * 2


@program("error_on_graph_break", 0, raises=TypeError)
def forbids_breaks_with_a_number(x):
    with torch._dynamo.error_on_graph_break(1):
        return x + 1


@torch._dynamo.error_on_graph_break(True)
def breaks_as_an_error(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x


@program("error_on_graph_break", 0, raises=Unsupported)
def calls_what_breaks_as_an_error(x):
    return breaks_as_an_error(x) * 2


@program("disallow_in_graph", 2)
def calls_disallowed(x):
    return torch.clone(x + 1) * 2


@program("wrap_numpy", 1)
def calls_numpy(x):
    return torch.compiler.wrap_numpy(lambda array: numpy.sum(array * array))(x)


@program("nested_compile_region", 1)
def calls_region(x):
    return torch.compiler.nested_compile_region(add_one)(x) + 1


@program("override_cudagraphs", 1)
def calls_without_cudagraphs(x):
    return torch._dynamo.override_cudagraphs(fwd=False)(add_one)(x)


traced = torch._dynamo.dont_skip_tracing(add_one)


@program("dont_skip_tracing", 1)
def calls_traced(x):
    return traced(x)


# A patch of settings that several threads can't enter breaks the graph: that of older versions.
PATCHES_ARE_CAPTURED = hasattr(torch._dynamo.config.patch(verbose=True), "_prior")


@program("disable_nested_graph_breaks", 2 if PATCHES_ARE_CAPTURED else 3)
def calls_without_nested_breaks(x):
    return torch._dynamo.disable_nested_graph_breaks(breaks)(x)


def check_is_compiling() -> None:
    def asks(x):
        asked = (torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling(), torch.compiler.is_exporting())
        return x + 1, asked, torch._dynamo.is_compiling()

    compiled = torch.compile(asks, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(1))[1:] == ((True, True, False), True)
    assert asks(torch.ones(1))[1:] == ((False, False, False), False)


def check_marked_sizes() -> None:
    counter = CompileCounter()
    compiled = torch.compile(add_one, backend=counter)
    for size in (3, 4, 5):
        x = torch.ones(size)
        torch._dynamo.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), add_one(x))
    assert counter.frame_count == 1
    counter.clear()
    torch._dynamo.reset()
    compiled = torch.compile(add_one, backend=counter)
    for size in (3, 4, 5):
        x = torch.ones(size)
        torch._dynamo.mark_static(x, 0)
        assert torch.equal(compiled(x), add_one(x))
    assert counter.frame_count == 3
    x = torch.ones(6)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    torch._dynamo.mark_static_address(x)
    assert torch.equal(torch.compile(add_one, backend="eager")(x), add_one(x))


def check_backends() -> None:
    @torch._dynamo.register_backend(name="stator_marked_backend")
    def backend(graph_module, example_inputs):
        seen.append(graph_module)
        return graph_module

    seen: list[Any] = []
    assert "stator_marked_backend" in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("stator_marked_backend") is backend
    assert torch.equal(torch.compile(add_one, backend="stator_marked_backend")(torch.ones(1)), torch.full((1,), 2.0))
    assert len(seen) == 1


def check_default_backend() -> None:
    counter = CompileCounter()
    torch.compiler.set_default_backend(counter)
    try:
        assert torch.compiler.get_default_backend() is counter
        torch.compile(add_one)(torch.ones(1))
        stator.compile(lambda x: x + 2, backend=None)(torch.ones(1))
    finally:
        torch.compiler.set_default_backend(None)
    assert counter.frame_count == 2


def check_caches() -> None:
    saved = torch.compiler.save_cache_artifacts()
    assert saved is None or torch.compiler.load_cache_artifacts(saved[0]) is not None


def check_patched_settings() -> None:
    """The context itself breaks the graph, so that only the results are compared."""

    def patches(x):
        with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
            x = x + 1
        return x * 2

    compiled = torch.compile(patches, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), patches(torch.ones(2)))
    assert not torch._dynamo.config.capture_scalar_outputs


def check_hints() -> None:
    """The hint reaches compilers; it is no part of what the program computes."""

    def program(x, hint):
        count = x.sum().item()
        torch._dynamo.override_optimization_hint(count, hint)
        torch._dynamo.override_optimization_hint(x.shape[0], 7)
        return torch.zeros(count) + 1

    def compiler(graph_module, inputs):
        shape_env = torch._guards.TracingContext.get().fake_mode.shape_env
        hints.append({*shape_env.var_to_hint_override.values()})
        return graph_module

    hints: list[Any] = []
    backend = aot_autograd(fw_compiler=compiler)
    with torch._dynamo.config.patch(capture_scalar_outputs=True, specialize_int=True):
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for x, hint in ((torch.tensor([3, 4]), 42), (torch.tensor([1, 1]), 42), (torch.tensor([2, 3]), 43)):
            assert torch.equal(compiled(x, hint), program(x, hint))
        assert hints == [{42}, {43}]
        refused = torch.compile(
            lambda x: torch._dynamo.override_optimization_hint(x.sum().item() * 2, 3), backend="eager", fullgraph=True
        )
        with pytest.raises(Unsupported, match="override_optimization_hint takes a number that is read"):
            refused(torch.tensor([3, 4]))


def check_queries() -> None:
    assert torch._dynamo.is_dynamo_disable_recursive(disabled)
    torch.compiler.cudagraph_mark_step_begin()


CHECKS: dict[tuple[str, ...], Callable[[], None]] = {
    ("is_compiling", "is_dynamo_compiling", "is_exporting"): check_is_compiling,
    ("mark_dynamic", "mark_static", "maybe_mark_dynamic", "mark_static_address"): check_marked_sizes,
    ("list_backends", "lookup_backend", "register_backend"): check_backends,
    ("set_default_backend", "get_default_backend"): check_default_backend,
    ("save_cache_artifacts", "load_cache_artifacts"): check_caches,
    ("patch_dynamo_config",): check_patched_settings,
    ("override_optimization_hint",): check_hints,
    ("is_dynamo_disable_recursive", "cudagraph_mark_step_begin"): check_queries,
}


@pytest.fixture(autouse=True)
def disallowed_clone(installed: None) -> Iterator[None]:
    torch._dynamo.disallow_in_graph(torch.clone)
    try:
        yield
    finally:
        torch._dynamo.allow_in_graph(torch.clone)


def test_the_reason_for_disabling_is_told():
    def program(x):
        return disabled(x) * 2

    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"marked torch\.compiler\.disable: for a test"):
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def skip_unless_known(*names: str) -> None:
    if not all(hasattr(torch.compiler, name) or hasattr(torch._dynamo, name) for name in names):
        pytest.skip(f"torch {torch.__version__} has no {' and '.join(names)}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_marks(name):
    skip_unless_known(name.split()[0])
    PROGRAMS[name]()


@pytest.mark.parametrize("names", CHECKS, ids="-".join)
def test_marks_and_queries(names):
    skip_unless_known(*names)
    CHECKS[names]()


def test_every_public_name_is_here():
    covered = {name.split()[0] for name in PROGRAMS} | {name for names in CHECKS for name in names}
    known = covered | ELSEWHERE | GUARD_FILTERS
    public = {*torch.compiler.__all__, *torch._dynamo.__all__}
    assert public <= known, sorted(public - known)


@pytest.mark.skipif(not hasattr(torch._library, "opaque_object"), reason="of later versions of PyTorch")
def test_opaque_objects_for_nonstrict_trace():
    """Those that stand for their contents are guarded by these, those that stand for themselves by identity."""
    from torch._library.opaque_object import register_opaque_type
    from torch._opaque_base import OpaqueBase

    class Scale(OpaqueBase):
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return isinstance(other, Scale) and self.n == other.n

        def __hash__(self):
            return hash(self.n)

        def __fx_repr__(self):
            return f"Scale({self.n})", {"Scale": Scale}

    class Handle(OpaqueBase):
        def __init__(self, n):
            self.n = n

    register_opaque_type(Scale, typ="value")
    register_opaque_type(Handle, typ="reference")

    @torch._dynamo.nonstrict_trace
    def scaled(x, by):
        torch._dynamo.graph_break()
        return x * by.n

    counter = CompileCounter()
    compiled = torch.compile(lambda x, by: scaled(x, by) + 1, backend=counter, fullgraph=True, dynamic=False)
    for by, graphs in ((Scale(2), 1), (Scale(2), 1), (Scale(3), 2)):
        assert compiled(torch.ones(2), by).tolist() == [by.n + 1.0] * 2
        assert counter.frame_count == graphs
    first, second = Handle(4), Handle(4)
    for by, graphs in ((first, 3), (first, 3), (second, 4)):
        assert compiled(torch.ones(2), by).tolist() == [5.0] * 2
        assert counter.frame_count == graphs
    with pytest.raises(Unsupported, match="An opaque object was created in the middle of the program"):
        torch.compile(lambda x: scaled(x, Handle(1)), backend="eager", fullgraph=True)(torch.ones(2))
