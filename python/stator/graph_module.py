"""The graph module that a backend receives: a `torch.fx.GraphModule` that is built on demand.

It has three states. A *captured* one runs its graph natively and has neither a `torch.fx.Graph` nor code; `graph` is
built when it is first read. When the code is read, the graph is set or `recompile()` is called, it becomes an
ordinary `torch.fx.GraphModule`: *stale* until its code is needed, *compiled* from then on. As in `torch.fx`,
changes to the graph take effect with `recompile()`.
"""

from __future__ import annotations

import copy
from typing import Any, Self, cast

import torch
from torch.fx import _lazy_graph_module
from torch.fx.graph import PythonCode
from torch.fx.graph_module import _assign_attr

from . import _C, torch_versions


class GraphModule(_lazy_graph_module._LazyGraphModule):
    """A captured graph as a module; see the docstring of this file."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # torch.fx creates a class for each instance, for the generated forward. Here an instance gets its own class
        # together with generated code, and a copy never shares the class of its original.
        shared: Any = cls
        while shared.__dict__.get("_is_of_one_instance", False):
            shared = shared.__base__
        return torch.nn.Module.__new__(shared)

    @classmethod
    def from_captured(cls, captured: _C.Graph, attributes: dict[str, Any] | None = None) -> GraphModule:
        """The module of a captured graph. `attributes` are what its `get_attr` nodes name: parameters, buffers, modules
        or constants, under their dotted paths."""
        self = torch.nn.Module.__new__(cls)
        torch.nn.Module.__init__(self)
        state = self.__dict__
        state["_captured"] = captured
        state["_tracer_cls"] = None
        state["_tracer_extras"] = {}
        state["meta"] = {}
        state["_replace_hooks"] = []
        state["_create_node_hooks"] = []
        state["_erase_node_hooks"] = []
        state["_deepcopy_hooks"] = []
        state["shape_env"] = None
        if attributes:
            for path in sorted(attributes, key=lambda path: path.count(".")):
                _assign_attr(attributes[path], self, path)
        # Shadows the method of the class, so that `module.forward` is the native callable itself.
        state["forward"] = _C.make_runner(captured, self)
        return self

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes: those parts of a torch.fx.GraphModule that are built on demand.
        if name == "_graph" and "_captured" in self.__dict__:
            graph = self.__dict__["_graph"] = _C.fx_graph(self.__dict__["_captured"], self)
            return graph
        if name in ("_code", "_lineno_map", "_prologue_start") and self._needs_recompile():
            self._real_recompile()
            return self.__dict__[name]
        if name == "compile_subgraph_reason":
            return torch_versions.compile_reason(self.__dict__.get("_stator_break"))
        if name == "_param_name_to_source" and not self._has_tensors():
            return self._describe_inputs()
        return super().__getattr__(name)

    def _has_tensors(self) -> bool:
        """Whether it holds tensors itself, as with `register_attributes`, instead of getting them as inputs."""
        return any(True for _ in self.parameters()) or any(True for _ in self.buffers())

    def _describe_inputs(self) -> dict[str, Any]:
        """What aot_autograd reads to find the inputs that stay where they are, which `Node.meta` tells: the sources of
        registered parameters, of which there are none, and those of the inputs, which it does not need."""
        for node in self._graph.find_nodes(op="placeholder"):
            node._dynamo_source = None
        return {}

    def _become_ordinary(self) -> None:
        """Leaves the captured state: an ordinary `torch.fx.GraphModule` from now on."""
        self._graph  # noqa: B018 - builds it if needed
        self._take_captured_state()
        if not type(self).__dict__.get("_is_of_one_instance", False):
            own = type("GraphModule", (type(self),), {"_is_of_one_instance": True, "__module__": __name__})
            self.__class__ = own

    def _take_captured_state(self) -> dict[str, Any]:
        """Removes from the instance what only the captured state has, and returns it."""
        state = self.__dict__
        taken = {"_captured": state.pop("_captured")} if "_captured" in state else {}
        if type(state.get("forward")) is _C.Runner:  # else it was replaced by the user
            taken["forward"] = state.pop("forward")
        return taken

    def recompile(self) -> PythonCode | None:  # type: ignore[override]
        """To be called after the graph was changed. With lazy graph modules the code is generated when it is needed."""
        self._become_ordinary()
        if _lazy_graph_module._use_lazy_graph_module_flag:
            type(self).forward = type(self)._lazy_forward
            return None
        return self._real_recompile()

    def _real_recompile(self) -> PythonCode:
        self._become_ordinary()
        return super()._real_recompile()

    # Copies and pickles are made from the torch.fx graph, never from the captured one.

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        self._graph  # noqa: B018
        hidden = self._take_captured_state()
        try:
            return cast("GraphModule", super().__deepcopy__(memo))
        finally:
            self.__dict__.update(hidden)

    def __prepare_scriptable__(self) -> torch.fx.GraphModule:
        """What `torch.jit.script` compiles."""
        return torch.fx.GraphModule(self, copy.deepcopy(self.graph))

    def __reduce__(self) -> tuple[Any, ...]:
        self._graph  # noqa: B018
        return super().__reduce__()

    def __reduce_package__(self, exporter: Any) -> tuple[Any, ...]:
        self._graph  # noqa: B018
        return super().__reduce_package__(exporter)


__all__ = ["GraphModule"]
