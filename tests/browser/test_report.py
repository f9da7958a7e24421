"""The report as a reader meets it: in a real browser, offline, on a phone, in the dark, on paper."""

import os
import shutil
import time
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dpgap.privacy.counts import AuditScores
from dpgap.report.curves import thresholds_of
from dpgap.report.page import page
from dpgap.report.words import at_least, rate
from tests.report import cases

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "These tests need Chromium: apt-get install chromium, or say where by CHROMIUM=/path."
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def facts(tmp_path):
    return cases.facts(tmp_path / "s.sqlite")


@pytest.fixture
def shown(browser, tmp_path):
    """Open a page; what the console said and every request beyond the file itself are kept."""

    def show(content: str, **options: object) -> Page:
        path = tmp_path / "report.html"
        path.write_text(content, encoding="utf-8")
        opened = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options).new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(path.as_uri())
        return opened

    said: list[str] = []
    asked: list[str] = []
    yield show
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def cell(opened: Page, name: str) -> str:
    return opened.locator(f"[data-show={name}]").inner_text()


def test_the_slider_shows_rates_limits_and_moves_both_markers(facts, shown):
    opened, thresholds = shown(page([facts])), thresholds_of(facts)
    slider = opened.locator("input[type=range]")
    assert cell(opened, "band_epsilon") == at_least(facts.headline.value)
    before = [
        opened.locator(mark).get_attribute("transform") for mark in (".marker_marks path", ".cut_marks line")
    ]
    slider.focus()
    slider.press("Home")
    assert cell(opened, "fpr") == rate(thresholds.fpr[0])
    assert cell(opened, "fnr") == rate(thresholds.fnr[0])
    assert cell(opened, "band_fpr") == rate(thresholds.band.fpr[0], limit=True)
    assert cell(opened, "pointwise_epsilon") == at_least(thresholds.pointwise.epsilon[0])
    after = [
        opened.locator(mark).get_attribute("transform") for mark in (".marker_marks path", ".cut_marks line")
    ]
    assert all(one != other for one, other in zip(before, after, strict=True))
    slider.press("ArrowRight")
    assert cell(opened, "fpr") == rate(thresholds.fpr[1])
    assert slider.get_attribute("aria-valuetext") == f"score {thresholds.at[1]:.5g}"
    assert "heuristic" in opened.locator("tr.heuristic").first.inner_text()


def test_markers_lie_on_what_they_mark(facts, shown):
    opened, thresholds = shown(page([facts])), thresholds_of(facts)
    opened.locator("input[type=range]").press("End")
    field = opened.locator("figure svg .root > g > path.background").first.bounding_box()
    marker = opened.locator(".marker_marks path").bounding_box()
    right = (marker["x"] + marker["width"] / 2 - field["x"]) / field["width"]
    up = 1 - (marker["y"] + marker["height"] / 2 - field["y"]) / field["height"]
    assert right == pytest.approx(thresholds.fpr[-1], abs=0.01)
    assert up == pytest.approx(thresholds.fnr[-1], abs=0.01)


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_nothing_is_wider_than_the_screen(facts, shown, width):
    opened = shown(page([facts, facts]), viewport={"width": width, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_desktop_every_table_is_seen_whole(facts, shown):
    opened = shown(page([facts, facts]))
    cut = (
        "[...document.querySelectorAll('.wide')].filter((each) => each.scrollWidth > each.clientWidth).length"
    )
    assert opened.evaluate(cut) == 0


def test_a_keyboard_reaches_everything_and_shows_where_it_is(facts, shown):
    opened = shown(page([facts, facts]))
    reached = []
    for _ in range(30):
        opened.keyboard.press("Tab")
        reached.append(opened.evaluate("document.activeElement.tagName"))
        outline = opened.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1] == "BODY"
    assert {"A", "INPUT", "SUMMARY"} <= set(reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(facts, shown, scheme):
    opened = shown(page([facts]), color_scheme=scheme)
    for chosen in ("body", ".card p", "figcaption", ".figure.lower", "tr.certified td", "tr.heuristic td"):
        assert _contrast(opened, chosen) >= 4.5, chosen


def test_a_screen_reader_is_told_what_charts_are(facts, shown):
    opened = shown(page([facts]))
    names = [chart.get_attribute("aria-label") for chart in opened.locator("figure svg").all()]
    assert len(names) == 3
    assert all(names)
    assert opened.locator("h1").count() == 1


def test_on_paper_it_has_pages_and_no_slider(facts, shown):
    opened = shown(page([facts]))
    assert opened.pdf(format="A4").startswith(b"%PDF")
    opened.emulate_media(media="print")
    assert not opened.locator("input[type=range]").is_visible()
    assert opened.locator("output").is_visible()
    assert opened.locator("details pre").first.is_visible()
    assert opened.locator("table.bounds").is_visible()


def test_what_a_store_says_runs_no_script(tmp_path, shown):
    attack = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
    found = cases.facts(tmp_path / "x.sqlite", title=attack, notes=(attack,))
    opened = shown(page([found, found]))
    assert opened.evaluate("document.querySelectorAll('img').length") == 0
    assert opened.title() != "broken"


def test_a_thousand_models_with_a_hundred_canaries_open_below_five_megabytes(tmp_path, shown):
    generator = np.random.default_rng(0)
    worlds = AuditScores(generator.normal(1, 1, 50_000), generator.normal(0, 1, 50_000))
    bounds = cases.audit_of(cases.scores(), claim=None).bounds
    content = page([cases.facts(tmp_path / "m.sqlite", worlds, independent=False, bounds=bounds)])
    began = time.perf_counter()
    opened = shown(content)
    assert cell(opened, "fpr").endswith("%")
    print(f"{len(content) / 1e6:.2f} MB opened in {time.perf_counter() - began:.2f} s")
    assert len(content) < 5_000_000


def _contrast(opened: Page, chosen: str) -> float:
    """The contrast ratio of WCAG 2.1 between a text and what lies behind it."""
    return opened.evaluate(
        """(chosen) => {
          const parse = (text) => text.match(/[\\d.]+/g).map(Number);
          const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const element = document.querySelector(chosen);
          let behind = element;
          let ground = [0, 0, 0, 0];
          while (behind && ground[3] === 0) {
            const found = parse(getComputedStyle(behind).backgroundColor);
            ground = found.length === 3 ? [...found, 1] : found;
            behind = behind.parentElement;
          }
          const pair = [light(parse(getComputedStyle(element).color)), light(ground)].sort((a, b) => b - a);
          return (pair[0] + 0.05) / (pair[1] + 0.05);
        }""",
        chosen,
    )
