"""The documentation: its examples run, its links are valid, and it has every name, setting, kind and topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stator
from stator import _testing, settings

pytestmark = pytest.mark.usefixtures("engine")

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
PAGES = [PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))


def fenced(page: Path) -> Iterator[tuple[str, int, str]]:
    """The language, first line number and text of each fenced block."""
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        yield block[1], page.read_text()[: block.start(2)].count("\n"), block[2]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


WITH_EXAMPLES = [page for page in PAGES if any(language == "python" for language, _, _ in fenced(page))]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    for language, line, text in fenced(page):
        if language == "python":
            # Line numbers of a failure are those of the page.
            exec(compile("\n" * line + text, str(page), "exec"), namespace)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(found), f"{page}: {target}"


def test_every_tag_of_a_message_has_a_section() -> None:
    sections = set(re.findall(r"^### (\S+)$", (DOCS / "graph-breaks.md").read_text(), re.MULTILINE))
    kinds = _testing.break_kinds()
    topics = {
        topic
        for file in (PROJECT / "src").rglob("*.cpp")
        for topic in re.findall(r'NoteOnce::\w+,\s*"(\w+)"', file.read_text())
    }
    assert topics, "notes are given in another way now"
    topics.update(re.findall(r'\bNote\("(\w+)"', (PROJECT / "python/stator/report.py").read_text()))
    assert sections == {*kinds, *topics}
    assert all(kinds.values()), "each kind has a hint"


def test_every_public_name_is_in_the_reference() -> None:
    documented = set(re.findall(r"^::: stator\.(?:\w+\.)?(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert {name for name in stator.__all__ if name not in ("__version__", "config")} <= documented


def test_every_setting_is_in_the_reference() -> None:
    from tools import docs_hooks

    assert docs_hooks.settings() == settings._OPTIONS
    page = docs_hooks.on_page_markdown((DOCS / "configuration.md").read_text())
    assert all(f"### {name}\n" in page for name in settings._OPTIONS)


def test_every_page_is_reachable() -> None:
    listed = set(re.findall(r": (\S+\.md)$", (PROJECT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_the_steps_of_a_call_are_where_the_architecture_says() -> None:
    rows = re.findall(r"^\| \d\. .+ \| `(\w+)` .*?in `([\w/.]+)`", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert {name for name, _ in rows} >= {"call_with_hook", "find_or_capture", "capture", "execute", "step"}
    missing = [row for row in rows if not re.search(rf"\b{row[0]}\b", (PROJECT / row[1]).read_text())]
    assert missing == []


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:h|cpp|c|def|py|toml|txt))`", page.read_text()))
    missing = [name for name in named if not any((root / name).exists() for root in (PROJECT, PROJECT / "src"))]
    assert missing == []
