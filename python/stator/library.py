"""Functions of the standard library in Python that it replaces by functions in C, for the tracer."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def _in_python(name: str) -> ModuleType:
    """The module without what it imports from its accelerator, the C module of that name with an underscore."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    accelerator = f"_{name}"
    before = sys.modules.get(accelerator)
    sys.modules[accelerator] = None  # type: ignore[assignment]
    try:
        assert spec.loader is not None
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del sys.modules[accelerator]
        else:
            sys.modules[accelerator] = before
    return module


_heaps, _bisections = _in_python("heapq"), _in_python("bisect")

heappush, heappop, heapify = _heaps.heappush, _heaps.heappop, _heaps.heapify
heapreplace, heappushpop = _heaps.heapreplace, _heaps.heappushpop
_heappop_max, _heapreplace_max, _heapify_max = (
    getattr(_heaps, name, None) for name in ("_heappop_max", "_heapreplace_max", "_heapify_max")
)
bisect_left, bisect_right = _bisections.bisect_left, _bisections.bisect_right
insort_left, insort_right = _bisections.insort_left, _bisections.insort_right
