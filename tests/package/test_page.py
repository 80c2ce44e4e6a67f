"""Reports as one HTML file: what is in it. tests/page drives it in a browser."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest
import torch
from torch import nn

import stator
from tests.support.processes import python


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return x + torch.relu(self.norm(self.linear(x)))


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        print("</script><b>half</b>")
        return x.sum() * 2


def data_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.fixture
def watched(tmp_path):
    stator.reset()  # instances of one class share captures
    compiled = stator.compile(Model(32))
    with stator.watch(tmp_path / "report.html"):
        for size in (4, 6, 8):
            compiled(torch.ones(size, 4))
    return tmp_path / "report.html"


def test_a_page_of_32_layers_is_one_small_file_that_loads_nothing(watched):
    assert watched.stat().st_size < 5_000_000
    assert watched.read_text(encoding="utf-8").count("</script>") == 2  # the program's own is escaped
    code = "".join((resources.files("stator") / name).read_text() for name in ("page.html", "page.js"))
    assert not re.search(r"""src=|<link|href=["']|url\(|@import|fetch\(|import\(|XMLHttpRequest""", code)


def test_lines_of_operations_breaks_and_recompiles(watched):
    data = data_of(watched)
    (file,) = data["files"]
    line_of = {text.strip(): file["first"] + index for index, text in enumerate(file["lines"])}
    block = str(line_of["return x + torch.relu(self.norm(self.linear(x)))"])
    assert file["path"] == __file__
    assert file["captured"][block]["0"] == 32 * 4
    assert {broken["line"] for broken in data["breaks"]} == {line_of['print("</script><b>half</b>")']}
    first = data["recompiles"][0]
    assert (first["before"], first["after"]) == (0, 2)
    assert "size of dimension 0 is 6, was 4" in first["reasons"][0]
    assert data["captures"][0]["places"]["linear_1"]["module"] == "L['self'].layers.1.linear"
    assert [one["kind"] for one in data["events"]] == ["capture", "capture", "recompile", "recompile"]


def test_a_line_that_specializes_a_size_is_marked(tmp_path):
    @stator.compile
    def program(x):
        return x * len(list(range(x.shape[0])))  # specializes

    with stator.watch(tmp_path / "report.html"):
        program(torch.ones(3))
        program(torch.ones(5))
    (file,) = data_of(tmp_path / "report.html")["files"]
    ((line, texts),) = file["fixed"].items()
    assert "# specializes" in file["lines"][int(line) - file["first"]]
    assert "specialized to 5" in texts[0]


def test_the_page_is_written_after_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), stator.watch(tmp_path / "report.html"):
        stator.compile(lambda x: x + 1)(torch.ones(2))
        1 / 0
    assert data_of(tmp_path / "report.html")["summary"]["graphs"] == 1


def test_explain_writes_a_page_and_notebooks_show_it(tmp_path):
    report = stator.explain(lambda x: x + 1)(torch.ones(2))
    report.html(tmp_path / "report.html")
    assert data_of(tmp_path / "report.html")["summary"]["nodes"] == 3
    assert report._repr_html_().startswith("<iframe") and "&lt;!doctype html&gt;" in report._repr_html_()


def test_the_command_line_writes_a_page(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\nf = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(2))\nprint(sys.argv[1:])\n"
    )
    page = tmp_path / "page.html"
    printed = python("-m", "stator", "report", "-o", str(page), str(script), "one")
    assert printed.splitlines() == ["['one']", f"stator: the report is in {page}"]
    assert data_of(page)["summary"]["graphs"] == 1
