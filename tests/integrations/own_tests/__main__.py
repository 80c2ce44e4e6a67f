"""Runs the compile tests of libraries, with TorchDynamo and with Stator: python -m tests.integrations.own_tests FOLDER [LIBRARY ...]

FOLDER has a checkout of each library in a folder of its name, of the version that is installed or one near it; they are
no part of this repository. Prints a table, and each test that passes with one compiler alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / "python"


@dataclass(frozen=True)
class Suite:
    files: tuple[str, ...]
    words: str
    """Which tests of the files, as pytest's -k takes it."""
    packages: str = ""
    """A folder of the checkout from which the tests import."""


SUITES = {
    "transformers": Suite(
        tuple(
            f"tests/models/{name}/test_modeling_{name}.py"
            for name in ("llama", "mistral", "gemma2", "qwen3", "phi3", "gpt2", "t5", "whisper", "clip", "vit")
        ),
        "compile and not Integration",
        "src",
    ),
    "diffusers": Suite(
        tuple(
            f"tests/models/transformers/test_models_transformer_{name}.py"
            for name in ("flux", "qwenimage", "ltx", "wan", "lumina2", "z_image", "hunyuan_video", "chroma")
        ),
        "test_torch_compile_re or test_compile_on or test_compile_works",
    ),
    "lightning": Suite(
        (
            "tests/tests_pytorch/utilities/test_compile.py",
            "tests/tests_fabric/test_wrappers.py",
            "tests/tests_fabric/test_fabric.py",
        ),
        "compile",
        "tests",
    ),
    "torch_geometric": Suite(
        (
            "test/nn/test_compile_basic.py",
            "test/nn/test_compile_conv.py",
            "test/nn/test_compile_dynamic.py",
            "test/nn/conv/test_hetero_conv.py",
            "test/nn/conv/test_sage_conv.py",
            "test/nn/models/test_basic_gnn.py",
            "test/test_edge_index.py",
            "test/test_isinstance.py",
            "test/utils/test_softmax.py",
        ),
        "compile or isinstance",
    ),
    "accelerate": Suite(("tests/test_compile.py", "tests/test_utils.py", "tests/test_accelerator.py"), "compile"),
}


def outcomes(suite: Suite, checkout: Path, compiler: str, limit: float) -> dict[str, str]:
    """What became of each test. Each file runs in a process of its own, so that a crash costs no other file."""
    found: dict[str, str] = {}
    paths = [HERE, PYTHON, checkout / suite.packages, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **os.environ,
        "COMPILED_BY": compiler,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "FULL_TEST": "1",  # of torch_geometric
        "HF_HUB_OFFLINE": "1",
    }
    for file in suite.files:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "pytest",
                "-q",
                "-p",
                "compiled_by",
                "-p",
                "no:cacheprovider",
            ]
            command += ["-o", "addopts=", f"--timeout={limit}", f"--junitxml={report}", file, "-k", suite.words]
            subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if report.exists():
                found |= {f"{file}::{name}": end for name, end in _read(report).items()}
    return found


def _read(report: Path) -> dict[str, str]:
    ends = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        end = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        ends[f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"] = end
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integrations.own_tests", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkouts are")
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(SUITES))
    parser.add_argument("--limit", type=float, default=300, help="seconds for one test")
    options = parser.parse_args()
    print("| library | tests that run | torch.compile | Stator | of those of torch.compile |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    lost = 0
    for library in options.libraries or SUITES:
        runs = [
            outcomes(SUITES[library], options.folder / library, compiler, options.limit)
            for compiler in ("torch.compile", "stator")
        ]
        theirs, ours = ({name for name, end in run.items() if end == "passed"} for run in runs)
        ran = {name for run in runs for name, end in run.items() if end != "skipped"}
        print(f"| {library} | {len(ran)} | {len(theirs)} | {len(ours)} | {len(theirs & ours)} |", flush=True)
        for name in sorted(theirs ^ ours):
            print(f"    {name} passes with {'torch.compile' if name in theirs else 'Stator'} alone", flush=True)
        lost += len(theirs - ours)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
