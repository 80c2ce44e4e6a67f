"""Memory that nothing refers to any more when the process ends, by the address sanitizer: `make sanitize-leaks`.

CPython and PyTorch leave much behind at the end of a process, once each. The program does the same thing in many rounds,
and what is left once for each round is a leak, unless it is on the list.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROUNDS = 20

# What CPython and PyTorch leave behind for each round, by a function or a library in its stack.
LEFT_BEHIND = (
    "torch::jit::",
    "c10::Symbol",
    "c10::FunctionSchema",
    "THPVariable_initModule",
    "libgomp",
    "dl_init",
    "PyModule_Create",
)

HEAD = re.compile(r"(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\) allocated from:")


@dataclass
class Leak:
    kind: str
    size: int
    count: int
    stack: list[str]

    def is_known(self) -> bool:
        return any(word in frame for frame in self.stack for word in LEFT_BEHIND)

    def is_of_stator(self) -> bool:
        return any("/stator/_C" in frame or "stator::" in frame for frame in self.stack)

    def __str__(self) -> str:
        return "\n".join([f"{self.kind} leak of {self.size} bytes in {self.count} objects", *self.stack])


def leaks_of(report: str) -> list[Leak]:
    found = []
    for part in report.split("\n\n"):
        head = HEAD.search(part)
        if head:
            stack = [line.strip() for line in part.splitlines() if re.match(r"\s+#\d+ ", line)]
            found.append(Leak(head[1], int(head[2]), int(head[3]), stack))
    return found


def rounds(count: int) -> None:
    """Captures, graph breaks, recompiles, exceptions, training, generators and coroutines; everything is dropped."""
    import torch

    import stator
    from tests.torture.programs import expect_right, program
    from tests.torture.threads import Model

    async def later(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1

    def raises(x: torch.Tensor, number: int) -> torch.Tensor:
        y = torch.cos(x)
        if number > 1:
            raise ValueError(number)
        return y

    def yields(x: torch.Tensor) -> list[torch.Tensor]:
        return [one * 2 for one in (x + number for number in range(3))]

    for _ in range(count):
        expect_right(stator.compile(program, isolate_recompiles=True))
        model = Model(2)
        compiled = stator.compile(model)
        for size in (2, 3, 4):
            compiled(torch.ones(size, 3)).sum().backward()
        failing = stator.compile(raises, isolate_recompiles=True)
        for number in (1, 2, 2):
            with contextlib.suppress(ValueError):
                failing(torch.ones(2), number)
        stator.compile(yields, isolate_recompiles=True)(torch.ones(2))
        coroutine = stator.compile(later, isolate_recompiles=True)(torch.ones(2))
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
        del model, compiled, failing, coroutine
        stator.reset()
        gc.collect()


def leaking(count: int) -> None:
    """What has to be found: a text that the engine makes, with a reference too many, in each round. (Objects that the
    garbage collector knows are always referred to, by its lists: tests count those.)"""
    import ctypes

    from stator import _testing

    for _ in range(count + 1):  # the last one may still be on the stack
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(next(iter(_testing.break_kinds().values()))))


def run(count: int = ROUNDS, act: str = "rounds") -> list[Leak]:
    """In a process of its own, whose environment is that of a sanitized build."""
    with tempfile.TemporaryDirectory() as folder:
        options = os.environ.get("ASAN_OPTIONS", "").replace("detect_leaks=0", "")
        environment = {
            **os.environ,
            # Python is built without frame pointers, so that stacks end in it unless they are unwound by its tables.
            "ASAN_OPTIONS": f"{options}:detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=14:log_path={folder}/report",
            "LSAN_OPTIONS": "exitcode=0:max_leaks=0",
        }
        code = f"from tests.torture import leaks; leaks.{act}({count})"
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        reports = pathlib.Path(folder).iterdir()
        text = "\n\n".join(one.read_text(encoding="utf-8", errors="replace") for one in reports)
    found = leaks_of(text)
    assert found, "LeakSanitizer did not run: CPython alone leaves something behind"
    print(
        f"{len(found)} stacks left something behind, {sum(one.is_of_stator() for one in found)} of them through Stator"
    )
    return [one for one in found if one.count >= count and one.is_of_stator() and not one.is_known()]


if __name__ == "__main__":
    assert run(3, "leaking"), "a leak on purpose was not found"
    leaks = run(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    for leak in leaks:
        print(f"\n{leak}")
    sys.exit(bool(leaks))
