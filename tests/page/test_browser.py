"""The page of a report in a real browser: `make test-page` installs what it needs."""

from __future__ import annotations

import os
import re
import shutil

import pytest
import torch

import stator
from tests.package.test_page import Model

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-page")


def launched(tool):
    """Debian's Chromium if it is there, otherwise the one that playwright has installed."""
    options = {"args": ["--no-sandbox"]}
    if found := shutil.which("chromium"):
        options["executable_path"] = found
    elif not os.path.exists(tool.chromium.executable_path):
        pytest.skip("no Chromium on this machine: make test-page")
    return tool.chromium.launch(**options)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tool:
        found = launched(tool)
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    stator.reset()
    compiled = stator.compile(Model(12))
    with stator.watch(path, compare=True):
        for size in (4, 6, 8, *[8] * 13):
            compiled(torch.ones(size, 4))
        compiled_sizes(torch.ones(3, 4))
        compiled_sizes(torch.ones(5, 4))
    return path


@stator.compile
def compiled_sizes(x):
    y = torch.relu(x)
    assert x.shape[0] < 100
    return y.view(x.shape[0], 2, 2)


@pytest.fixture
def open_page(browser, report):
    errors, pages = [], []

    def opened(anchor="", **options):
        page = browser.new_page(**options)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or errors.append(request.url))
        page.goto(report.as_uri() + anchor)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert errors == []


def test_all_sections_are_there(open_page):
    page = open_page()
    names = page.locator("nav a").all_inner_texts()
    assert names == [
        "Summary",
        "Calls",
        "Graph breaks",
        "Recompiles",
        "Program",
        "Graphs",
        "Symbols",
        "Guards",
        "Times",
    ]
    assert "object HTML" not in page.inner_text("main")


def test_an_address_leads_to_a_break_and_from_there_to_its_line(open_page):
    page = open_page("#break-2")
    assert page.locator("#break-2").evaluate("one => one.getBoundingClientRect().top < innerHeight")
    page.locator("#break-2 + p a").click()
    line = page.locator(":target")
    assert "print(" in line.inner_text() and "broken" in line.get_attribute("class")


def test_modules_open_and_nodes_tell_their_shape_and_line(open_page):
    page = open_page()
    graph = page.locator("#graph-1")
    layers = graph.locator("button[data-key='self.layers']")
    assert layers.inner_text() == "▸ self.layers (48 nodes)"
    layers.click()
    assert graph.locator("button.module").count() == 3 + 12
    graph.locator("button[data-key='self.layers.3']").click()
    graph.locator("button[data-key='self.layers.3.linear']").click()
    graph.locator("button[data-key='linear_3']").click()
    detail = graph.locator(".detail")
    assert "f32[4, 4]" in detail.inner_text() and "test_page.py:" in detail.inner_text()
    layers.click()
    assert layers.inner_text() == "▸ self.layers (48 nodes)"


def test_arrow_keys_walk_the_graph(open_page):
    page = open_page()
    page.locator("#graph-1 button[data-key='self']").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") == "self.layers"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("ArrowDown")  # the first layer, whose edges are shown
    assert page.locator("#graph-1 path.near").count() > 0


def test_guards_are_found_by_words(open_page):
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("layers 'weight'] parameter f32")
    found = page.locator("#guards-found")
    assert found.locator("p").inner_text() == f"{2 * 12 * 2} guards"
    page.keyboard.press("Escape")
    assert found.inner_text() == ""
    page.locator("#guards-1 > summary").click()
    page.locator("#guards-1 summary", has_text="L['self']").first.click()
    assert "type of L['self'] is" in page.locator("#guards-1").inner_text()


def test_a_recompile_shows_the_difference_of_its_graphs(open_page):
    page = open_page("#recompile-1")
    card = page.locator(".card", has=page.locator("#recompile-1"))
    assert "size of dimension 0 is 6, was 4" in card.inner_text()
    card.locator("summary").click()
    added = card.locator(".add").all_inner_texts()
    assert any("f32[s0, 4]" in line for line in added)
    assert any("f32[4, 4]" in line for line in card.locator(".del").all_inner_texts())


@pytest.mark.parametrize("width, scheme", [(1280, "light"), (820, "dark"), (390, "dark")])
def test_it_fits_the_screen_in_light_and_dark(open_page, width, scheme):
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 30)")
    table = page.locator(".cards").bounding_box()
    assert table["x"] + table["width"] <= width, "figures are out of sight"
    if folder := os.environ.get("STATOR_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/report-{width}.png")


def test_calls_show_the_share_of_hits_and_the_time_saved(open_page):
    page = open_page("#calls")
    row = page.locator("#calls tbody tr").first.locator("td").all_inner_texts()
    assert row[0] == "Model package/test_page.py:31" and row[1:5] == ["13", "85 %", "2", "0"]
    assert row[7].endswith(("saved", "lost"))
    line = page.locator(".timeline")
    assert line.locator("span").count() == 18 and line.locator(".call-sample").count() == 3
    line.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#calls [role=status]").inner_text().startswith("call 2: Model (")


def test_recompiles_are_a_chain_of_graphs(open_page):
    chain = open_page("#recompiles").locator(".chain").first
    assert "size of dimension 0 is 6, was 4" in chain.inner_text()
    links = chain.locator("a").all_inner_texts()
    assert links[0].startswith("graph ") and links[-1].startswith("graph ")


def test_symbols_have_their_range_and_the_line_of_a_relation(open_page):
    page = open_page("#symbols")
    card = page.locator("#symbols .card", has_text="compiled_sizes")
    assert "L['x']" in card.inner_text() and "100" in card.inner_text()
    card.locator("a.mono").first.click()
    assert "fixed" in page.locator(":target").get_attribute("class")


def test_guards_tell_the_steps_of_each_block(open_page):
    page = open_page("#guards-1")
    assert "steps of a check" in page.locator("#guards-1 > summary").inner_text()
    text = page.locator("#guards-1 summary", has_text="L['self']").first.inner_text()
    guards, steps = (int(number) for number in re.findall(r"(\d+) (?:guard|step)", text))
    assert guards > 50 and steps > 50


def test_a_flame_graph_by_functions_and_by_modules(open_page):
    page = open_page("#flame-1")
    shown = page.locator("#flame-1")
    assert any("Block.forward (" in name for name in shown.locator(".flame button").all_inner_texts())
    shown.get_by_text("by module").click()
    names = shown.locator(".flame button").all_inner_texts()
    assert names[:2] == ["trace", "self"] and "linear" in names
    shown.locator(".flame button", has_text="layers").first.focus()
    assert "%" in shown.locator("[role=status]").inner_text()
