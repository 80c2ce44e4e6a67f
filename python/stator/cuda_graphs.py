"""Records rows of prepared calls as CUDA graphs, for the backend `stator` (docs/design/executor.md#cuda-graphs).

The engine decides what is recorded and when, and calls the replay of a recording itself. Here is what it asks of the
device once for each recording. Tests put another recorder in the place of this one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from stator import notes
from stator._engine import engine

Body = Callable[[list[torch.Tensor]], Any]


class CudaRecorder:
    """What the engine asks of CUDA."""

    def __init__(self) -> None:
        self._streams: dict[int, torch.cuda.Stream] = {}
        # A capture of one thread must not be in the way of a capture of another one.
        self._lock = threading.Lock()
        # Called before every replay: that of the program itself would record ours.
        self.is_capturing: Callable[[], bool] = torch._C._cuda_isCurrentStreamCapturing

    def new_pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    def limit(self, device: int) -> int:
        """The bytes that the recordings of one program may take."""
        return torch.cuda.get_device_properties(device).total_memory // 4

    def current_step(self) -> int:
        """A number for each step that the program begins with `torch.compiler.cudagraph_mark_step_begin`; 0 if it
        begins none. Asked before every replay that overwrites results."""
        trees = sys.modules.get("torch._inductor.cudagraph_trees")
        return 0 if trees is None else trees.MarkStepBox.mark_step_counter

    def record(
        self, body: Body, inputs: list[torch.Tensor], copied: list[int], device: int, pool: Any
    ) -> tuple[Callable[[], None], int] | None:
        """Calls `body(inputs)` while CUDA records what it launches.

        Args:
            copied: the places of inputs that are replaced by memory into which the engine copies them before a replay.

        Returns: the replay, and the bytes that it takes; None if another thread is recording.
        """
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            raise RuntimeError("CUDA graphs need the caching allocator")
        if not self._lock.acquire(blocking=False):
            return None
        try:
            with torch.cuda.device(device):
                # Workspaces of cuBLAS are kept by stream: that of the recording has to be in its pool, and not to be
                # used by another recording. Those of the calls before it are memory that can be returned.
                torch._C._cuda_clearCublasWorkspaces()
                _return_unused_memory(device)
                before = torch.cuda.memory_reserved(device)
                graph = self._captured(body, inputs, copied, device, pool)
                taken = torch.cuda.memory_reserved(device) - before
            return torch._C._CUDAGraph.replay.__get__(graph), max(taken, 0)
        finally:
            self._lock.release()

    def _captured(self, body: Body, inputs: list[torch.Tensor], copied: list[int], device: int, pool: Any) -> Any:
        graph = torch.cuda.CUDAGraph()
        drawn = torch.cuda.default_generators[device].get_offset()
        stream = self._streams.setdefault(device, torch.cuda.Stream(device))
        # Casts that autocast keeps would not be part of the recording, and would be freed under it.
        cache = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            with torch.cuda.stream(stream):
                try:
                    # Other threads may go on using CUDA.
                    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                except BaseException:
                    self._end_failed(graph, device, pool, drawn, has_ended=True)
                    raise
                try:
                    for place in copied:
                        inputs[place] = _same_layout(inputs[place])
                    body(inputs)
                except BaseException:
                    self._end_failed(graph, device, pool, drawn)
                    raise
                try:
                    graph.capture_end()
                except BaseException:
                    self._end_failed(graph, device, pool, drawn, has_ended=True)
                    raise
        finally:
            torch.set_autocast_cache_enabled(cache)
            torch._C._cuda_clearCublasWorkspaces()
        return graph

    def _end_failed(self, graph: Any, device: int, pool: Any, drawn: int, has_ended: bool = False) -> None:
        """Ends a capture that failed, so that the allocator and the random generator are not left in it."""
        try:
            if has_ended:
                raise RuntimeError
            graph.capture_end()
        except RuntimeError:
            with contextlib.suppress(RuntimeError):  # The capture may have failed before it used the pool.
                torch._C._cuda_endAllocateToPool(device, pool)
                torch._C._cuda_releasePool(device, pool)
            # PyTorch takes the default generator out of a capture only at the end of one that succeeds.
            other = torch.cuda.CUDAGraph()
            other.capture_begin(capture_error_mode="thread_local")
            torch.zeros(1, device=f"cuda:{device}")
            other.capture_end()
        torch.cuda.default_generators[device].set_offset(drawn)


def _same_layout(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _return_unused_memory(device: int) -> None:
    """Gives memory back to CUDA that the allocator keeps for tensors outside of recordings, if it is much.

    The recording allocates its tensors in a pool of its own. Without this, the memory that the same tensors took in
    the calls before it would stay taken.
    """
    reserved, allocated = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    if reserved - allocated > reserved // 16:
        torch.cuda.empty_cache()


recorder = CudaRecorder()


def unrecorded(runner: Any) -> list[str]:
    """For reports: the parts of a graph that are not recorded, and why."""
    return [
        f"{part['name']} and what follows it ({part['last'] - part['first']} nodes) are not part of a CUDA graph: "
        f"{part['reason']}."
        if part["last"] - part["first"] > 1
        else f"{part['name']} is not part of a CUDA graph: {part['reason']}."
        for part in getattr(runner, "recorded", ())
        if part["reason"]
    ]


def note_unrecorded(calls: int, reason: str) -> None:
    """Called by the engine when it stops to record a part of a graph, which may be long after the capture."""
    listener = engine().collect(None)
    engine().collect(listener)
    text = f"A part of a graph with {calls} calls is not recorded as a CUDA graph any more: {reason}."
    notes.issue("info", "cuda_graphs", "?", 0, text, at_each_place=True, listener=listener)
