"""The page of a night: strict HTML that a browser shows whole, offline, without script, at any width, to anybody."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import html5lib
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from benchmarks.nightly.sample_nights import NIGHTS, sample
from edgetune.farm.comparing import EMULATED
from edgetune.farm.page.document import headline, html
from edgetune.farm.page.files import write_report
from edgetune.farm.page.plots import Change, sparkline, waterfall
from edgetune.farm.report import CellReport, NightReport, report

SMALL = [name for name in NIGHTS if not name.startswith("year")]
POINTING = ("aria-labelledby", "aria-describedby", "aria-controls", "for")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_report(night(name, folder / f"{name}.db"), folder / name) for name in SMALL}


def night(name: str, path: Path) -> NightReport:
    with sample(name, path) as (farm, store):
        return report(farm, store, store.nights(farm.name)[-1])


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_the_page_is_strict_html_whose_ids_are_unique_and_whose_references_resolve(
    pages: dict[str, Path], name: str
) -> None:
    text = pages[name].read_text(encoding="utf-8")
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    elements = list(root.iter())
    ids = [element.attrib["id"] for element in elements if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    links = [value for element in elements for key, value in element.attrib.items() if key in ("href", "src")]
    assert [link for link in links if not link.startswith("#")] == []
    pointed = [value for element in elements for key in POINTING for value in element.attrib.get(key, "").split()]
    assert {*pointed, *(link[1:] for link in links), *re.findall(r"url\(#([^)]+)\)", text)} <= set(ids)
    assert text.count("<style>") == 1
    assert "<script" not in text


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 400)])
def test_a_browser_shows_the_page_without_network_error_or_sideways_scrolling(
    pages: dict[str, Path], browser: Browser, name: str, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    found = shown(page, pages[name], width)
    violations = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == []
    assert found == []
    context.close()


def shown(page: Page, file: Path, width: int) -> list[str]:
    """Show a file, open all that is folded; return what the console said, and every request but that of the file."""
    found: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        found.append(message.text)

    def note(request: Request) -> None:
        if request.url != file.as_uri():
            found.append(request.url)

    page.on("console", hear)
    page.on("request", note)
    page.goto(file.as_uri())
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    return found


def test_what_a_page_loads_is_noticed(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<!DOCTYPE html><title>t</title><img src='picture.png' alt=''>")
    page = browser.new_page(viewport={"width": 400, "height": 900})
    assert (tmp_path / "picture.png").as_uri() in shown(page, tmp_path / "page.html", 400)
    page.close()


@pytest.mark.long
def test_a_year_is_shown_whole(browser: Browser, tmp_path: Path) -> None:
    """`make nightly-page` has the size of 20 models on 10 boards."""
    file = write_report(night("year-of-a-shelf", tmp_path / "year.db"), tmp_path / "year")
    assert file.stat().st_size < 5_000_000
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    assert shown(page, file, 1200) == []
    assert page.locator(".matrix tbody tr").count() == 6
    assert page.locator(".matrix svg").count() == 24
    assert page.locator(".year details").first.locator("tbody tr").count() == 365
    context.close()


def test_what_lacks_a_result_stands_first_with_its_date_and_each_change_with_cause_plot_and_c(
    pages: dict[str, Path], browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(pages["red"].as_uri())
    headings = page.locator("h2").all_inner_texts()
    assert headings[:3] == ["Without a result", "Changes and their causes", "Models and boards"]
    missing = page.locator("tbody tr").first.inner_text()
    assert "for 3 nights, since 2026-02-19" in missing
    assert "busy" in missing
    slow = page.locator("article").filter(has_text="slower").first
    assert "toolchain: " in slow.inner_text()
    assert slow.locator("svg text").all_text_contents()[:2] == ["accepted", "100.0"]
    assert "float sum = 0.0f" in (slow.locator("pre").text_content() or "")
    coloured = page.locator(".slower").all_text_contents()
    assert coloured
    assert all("slower" in text for text in coloured)
    context.close()


@pytest.mark.parametrize("name", SMALL)
def test_on_paper_all_but_the_nights_as_tables_is_shown_on_white(
    pages: dict[str, Path], browser: Browser, name: str
) -> None:
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    page.goto(pages[name].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("h1").is_visible()
    for table in page.locator("table:not(.year table)").all():
        assert table.bounding_box()
    assert not any(year.is_visible() for year in page.locator(".year").all())
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()


def test_every_night_of_a_line_is_in_its_table_with_the_word_of_its_verdict(pages: dict[str, Path]) -> None:
    text = pages["red"].read_text(encoding="utf-8")
    red = NightReport.model_validate(json.loads(pages["red"].with_name("night.json").read_text()))
    slow = next(cell for cell in red.cells if cell.cell == "person_detector@shelf-2")
    assert slow.nights == 2
    words = {night: word for night, _, word in slow.history}
    assert [night for night, word in words.items() if word == "slower"] == [slow.since, red.night]
    table = text.partition(f'aria-label="Nights of {slow.model}"')[2].partition("</table>")[0]
    rows = table.partition("<tbody>")[2].split("<tr>")[1:]
    assert len(rows) == len(slow.history) == 90
    assert "5415000 slower" in rows[0]


def test_the_page_tells_the_health_of_boards_what_drifted_and_which_winners_no_second_board_confirmed(
    pages: dict[str, Path],
) -> None:
    red = pages["red"].read_text(encoding="utf-8")
    assert "pinned package as before" in red
    drift = red.partition('id="drift"')[2].partition("</section>")[0]
    assert re.search(r"<strong>board shelf-1</strong>: \+\d\.\d % since 2026-02-10 \(12 nights against the 78 ", drift)
    assert drift.count("<li>") == 1
    first = NightReport.model_validate_json(pages["first"].with_name("night.json").read_text())
    assert [cell.unconfirmed for cell in first.cells] == [True] * len(first.cells), "each kind has one board"
    assert "not confirmed by a second board of its kind" in pages["first"].read_text()
    unfit = pages["without-boards"].read_text(encoding="utf-8")
    assert "infrastructure: the canary takes 2.5 times as long as in its own past" in unfit
    assert "Nothing became slower" not in unfit


def test_who_accepted_what_when_and_why_stands_on_the_page(pages: dict[str, Path]) -> None:
    table = pages["red"].read_text(encoding="utf-8").partition('id="accepted"')[2].partition("</section>")[0]
    assert "<td>2025-11-24</td><td>kim</td>" in table
    assert "-O2 &lt;is meant&gt; &amp; tested" in table
    assert table.count("<tr>") == 2
    assert 'id="accepted"' not in pages["quiet"].read_text(encoding="utf-8"), "edgetune accepts without a word"


def test_a_counted_cell_is_marked_so_and_a_timed_one_is_not() -> None:
    cells = tuple(
        CellReport(
            cell=f"m@{board}",
            model="m",
            board=board,
            kind="k",
            verdict="slower",
            nights=1,
            since="n",
            alarm=True,
            unit=unit,
            new=2e3,
            old=1e3,
            ratio=2.0,
            low=2.0,
            high=2.0,
            turns=1,
        )
        for board, unit in (("counting", "instructions"), ("real", "ns"))
    )
    common = {"farm": "f", "owner": "", "night": "n", "begun_utc": "", "finished_utc": None, "host": "h"}
    text = html(NightReport(**common, edgetune="1", limit=0.02, counts={"slower": 2}, cells=cells))
    counted, real = text.partition("<article")[2].partition("</section>")[0].split("<article")
    marked = "Instructions, counted exactly under an emulator. They say nothing about the time on a real core."
    assert marked in counted
    assert "2,000 instructions" in counted
    assert "instructions" not in real.lower()
    assert "2.0 µs" in real
    matrix = text.partition('class="matrix"')[2].partition("</table>")[0]
    assert (matrix.count("instructions"), matrix.count("µs")) == (1, 1)


EMPTY_ROWS = """() => [...document.querySelectorAll('tr')].filter(row => row.offsetHeight).map(row => {
  const width = document.documentElement.clientWidth, box = row.getBoundingClientRect();
  const seen = [...row.querySelectorAll('svg')].map(plot => plot.getBoundingClientRect());
  const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    if (texts.currentNode.textContent.trim()) seen.push(...range.getClientRects());
  }
  const lowest = Math.max(box.top, ...seen.filter(one => one.left < width - 20).map(one => one.bottom));
  return [Math.round(box.bottom - lowest), row.innerText];
}).filter(([empty]) => empty > 24)"""
"""Rows with more than a line's height of nothing below what a narrow screen shows of them."""


@pytest.mark.parametrize("name", ["red", "without-boards"])
def test_a_narrow_page_has_no_tall_row_without_anything_in_it(
    pages: dict[str, Path], browser: Browser, name: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(pages[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true })")
    assert page.evaluate(EMPTY_ROWS) == []
    page.close()


def test_the_footer_has_the_limits_of_the_boards_that_are_shown() -> None:
    common = {"model": "m", "kind": "k", "nights": 1, "since": "n", "alarm": False}
    cells = [
        CellReport(cell=f"m@{board}", board=board, verdict="cannot tell", unit=unit, new=1.0, reason=reason, **common)
        for board, unit, reason in (("b", "ns", ""), ("a", "ns", ""), ("c", "instructions", ""), ("e", "ns", EMULATED))
    ]
    times = (
        "Times (a, b): changes of 2 % and more are reported, in layers that take 10 % or more those of 5 % and more."
    )
    counts = "Counted instructions (c): changes of 0.1 % and more are reported, also in layers that take 10 % or more."
    emulated = "Times under emulation (e) are not compared."
    for shown, limits in ((cells, [times, counts, emulated]), (cells[2:3], [counts]), (cells[:2], [times]), ([], [])):
        footer = html(small_night(shown)).partition("<footer>")[2]
        assert [one for one in (times, counts, emulated) if one in footer] == limits
        assert "Changes of 2 %" not in footer


@pytest.mark.parametrize(
    ("by", "because", "words"),
    [
        ("edgetune", "nothing to compare with yet", "because it was the first one of this cell with these settings"),
        ("edgetune", "it is faster", "because it was faster"),
        (
            "edgetune",
            "nothing to compare with: the accepted package 0123 is not in the archive any more",
            "because there was nothing to compare with any more: the accepted package 0123 is not in the archive",
        ),
        ("kim", "nothing to compare with yet", "CET: nothing to compare with yet"),  # a user's words stay
    ],
)
def test_a_card_says_when_and_why_the_package_was_accepted_that_tonights_was_compared_with(
    tmp_path: Path, by: str, because: str, words: str
) -> None:
    with sample("red", tmp_path / "r.db") as (farm, store):
        columns = {"night": "2025-11-24", "package": "0" * 64, "facts": {}, "by": by, "because": because}
        cell = "person_detector@shelf-2"
        store.accept({**columns, "farm": farm.name, "cell": cell, "settings": "s"})
        text = html(report(farm, store, store.nights(farm.name)[-1]))
    card = text.partition(f">{cell}</h3>")[2].partition("</article>")[0]
    said = re.sub(r"<[^>]+>", "", card)
    found = re.search(r"Compared with the package of the night of 2025-11-24, accepted by (\w+) at (.{19}) CET", said)
    assert found is not None
    assert found[1] == by
    assert words in said


def small_night(cells: Sequence[CellReport]) -> NightReport:
    """A night of the farm f with those cells."""
    common = {"farm": "f", "owner": "", "night": "n", "begun_utc": "", "finished_utc": None, "host": "h"}
    return NightReport(**common, edgetune="1", limit=0.02, counts={}, cells=tuple(cells))


def test_names_from_models_cannot_break_a_plot() -> None:
    text = waterfall((Change("a$\\frac</svg>&\x00ü層", 1.0, 2.0),), (1.0, 2.0), 1.0, 'l"<', "k")
    assert "a$\\frac</svg>& ü層" in [element.text for element in ET.fromstring(text).iter("text")]  # noqa: S314  ours
    assert "currentColor" in text
    assert "#0102" not in text


def test_the_longest_number_of_a_plot_has_room_at_its_right() -> None:
    """It is that of a layer, which has a sign."""
    text = waterfall((Change("k", 52_833.0, 1_144_053.0),), (52_833.0, 1_144_053.0), 1.0, "l", "k")
    root = ET.fromstring(text)  # noqa: S314  ours
    (number,) = (element for element in root.iter("text") if element.text == "+1,091,220")
    assert float(number.attrib["x"]) + 7.0 * len("+1,091,220") <= float(root.attrib["width"])


def test_a_line_has_a_gap_where_nothing_was_measured_and_is_the_same_each_time() -> None:
    text = sparkline((1.0, None, 3.0, 2.0), (False, False, False, True), "cost of a")
    sparkline.cache_clear()
    assert sparkline((1.0, None, 3.0, 2.0), (False, False, False, True), "cost of a") == text
    assert max(path.attrib["d"].count("M") for path in ET.fromstring(text).iter("path")) == 2  # noqa: S314  ours


@pytest.mark.long
def test_the_headline_counts_alarms_and_what_is_missing() -> None:
    cell = CellReport(cell="m@b", model="m", board="b", kind="k", verdict="slower", nights=1, since="n", alarm=True)
    common = {"farm": "f", "owner": "", "night": "n", "begun_utc": "", "finished_utc": None, "host": "h"}
    counts = {"slower": 1, "waiting": 2}
    found = NightReport(**common, edgetune="1", limit=0.02, counts=counts, cells=(cell,))
    assert headline(found) == "1 cell became slower or worse and 2 cells wait for a result."
