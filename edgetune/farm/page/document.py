"""The page of a night: one HTML file that opens from a folder, without script, server and network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from edgetune.farm.acceptances import Acceptance
from edgetune.farm.calendar import clock_time
from edgetune.farm.comparing import EMULATED
from edgetune.farm.gate import COUNT_LIMIT, LAYER_LIMIT, LAYER_SHARE
from edgetune.farm.page.plots import Change, sparkline, waterfall
from edgetune.farm.report import ORDER, UNJUDGED, CellReport, NightReport
from edgetune.resources import templates_dir

_CHANGED = ("faster", "cannot tell")
_SCALES = {"ns": 1e-3}
"""From the unit of a cost to that of its plot; others are the same."""
_LINES = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True)
class Year:
    """The nights of one model as a table: a column per board, a row per night, the newest first."""

    model: str
    id: str
    boards: list[str]
    rows: list[tuple[str, list[str]]]


def html(found: NightReport) -> str:
    """Return the page of a report."""
    environment = Environment(
        loader=FileSystemLoader(templates_dir() / "nightly"), undefined=StrictUndefined, autoescape=True
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"cost": cost, "percent": percent, "minutes": minutes, "diff": diff_lines}
    environment.filters["clock"] = partial(clock_time, timezone=found.timezone)
    models = sorted({cell.model for cell in found.cells})
    boards = sorted({cell.board for cell in found.cells})
    ids = {cell.cell: f"cell-{index}" for index, cell in enumerate(found.cells)}
    drifts = [(f"board {board.board}", board.drift) for board in found.boards]
    drifts += [(cell.cell, cell.drift) for cell in found.cells]
    years = [_year(model, f"year-{index}", found.cells) for index, model in enumerate(models)]
    return environment.get_template("page.html.j2").render(
        night=found,
        headline=headline(found),
        limits=limits(found),
        tally=[(word, found.counts[word]) for word in ORDER if found.counts.get(word)],
        unjudged=[cell for cell in found.cells if cell.verdict in UNJUDGED],
        changed=[cell for cell in found.cells if cell.alarm or cell.note or cell.verdict in _CHANGED],
        drifts=[(one, said) for one, said in drifts if said],
        by_hand=[(cell.cell, one) for cell in found.cells for one in _by_hand(cell)],
        models=models,
        boards=boards,
        matrix={(cell.model, cell.board): cell for cell in found.cells},
        ids=ids,
        years={year.model: year for year in years if year.rows},
        sparklines={cell.cell: Markup(_sparkline(cell)) for cell in found.cells},  # noqa: S704  made by plots
        waterfalls={cell.cell: Markup(_waterfall(cell, ids[cell.cell])) for cell in found.cells},  # noqa: S704
    )


def _by_hand(cell: CellReport) -> list[Acceptance]:
    """What somebody accepted: the package that a cell was compared with, and tonight's."""
    return [one for one in (cell.compared_with, cell.acceptance) if one is not None and one.by_hand]


def limits(found: NightReport) -> list[str]:
    """The smallest changes that this night reports: a sentence for each way in which its boards measure."""
    emulated = {cell.board for cell in found.cells if cell.reason == EMULATED}
    counting = {cell.board for cell in found.cells if cell.unit == "instructions"}
    timing = {cell.board for cell in found.cells if cell.unit == "ns"} - emulated
    layers = f"in layers that take {100 * LAYER_SHARE:g} % or more"
    times = f"{100 * found.limit:g} % and more are reported, {layers} those of {100 * LAYER_LIMIT:g} % and more."
    counts = f"{100 * COUNT_LIMIT:g} % and more are reported, also {layers}."
    said = (
        (timing, f"Times (%s): changes of {times}"),
        (counting, f"Counted instructions (%s): changes of {counts}"),
        (emulated, "Times under emulation (%s) are not compared."),
    )
    return [sentence.replace("%s", ", ".join(sorted(boards))) for boards, sentence in said if boards]


def headline(found: NightReport) -> str:
    """The night in one sentence."""
    alarms, waiting, missing = (
        len(found.alarms),
        found.counts.get("waiting", 0),
        found.counts.get("not measured", 0),
    )
    said = []
    if alarms:
        said.append(f"{_cells(alarms)} became slower or worse")
    if missing:
        said.append(f"{_cells(missing)} could not be measured")
    if running := found.counts.get("running", 0):
        said.append(f"{_cells(running)} {'runs' if running == 1 else 'run'} now")
    if waiting:
        said.append(f"{_cells(waiting)} {'waits' if waiting == 1 else 'wait'} for a result")
    if not found.cells:
        return "This night has no cells."
    if not said:
        return "Nothing became slower or worse."
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) + "."


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def cost(value: float | None, unit: str | None) -> str:
    """A cost for people: microseconds, or a number of instructions."""
    if value is None or unit is None:
        return "-"
    return f"{value / 1e3:,.1f} µs" if unit == "ns" else f"{value:,.0f} instructions"


def percent(ratio: float | None) -> str:
    """A ratio as a change, such as +3.1 %."""
    return "-" if ratio is None else f"{100 * (ratio - 1):+.2f} %"


def minutes(value: float | None) -> str:
    """A span of minutes for people, such as 1 h 05 min."""
    if value is None:
        return "-"
    if value < 1:
        return f"{60 * value:.0f} s"
    hours, rest = divmod(round(value), 60)
    return f"{hours} h {rest:02} min" if hours else f"{rest} min"


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Lines of a unified diff, each with the name of its kind; the two lines of file names are left out."""
    lines = [line for line in text.splitlines() if not line.startswith(("--- ", "+++ "))]
    return [(_LINES.get(line[:1], "kept"), line) for line in lines]


def _sparkline(cell: CellReport) -> str:
    alarms = tuple(word == "slower" for _, _, word in cell.history)
    costs = tuple(value for _, value, _ in cell.history)
    known = [value for value in costs if value is not None]
    if len(known) < 2:  # noqa: PLR2004 (a line has two ends)
        return ""
    label = (
        f"Cost of {cell.cell} in {len(costs)} nights: from {cost(min(known), cell.unit)} to "
        f"{cost(max(known), cell.unit)}, slower in {sum(alarms)} of them"
    )
    return sparkline(costs, alarms, label)


def _waterfall(cell: CellReport, key: str) -> str:
    changes = [Change(layer.name, layer.old, layer.new) for layer in cell.layers if layer.old is not None]
    if cell.old is None or cell.new is None or cell.old == cell.new or not changes:
        return ""
    label = f"Layers of {cell.cell}: what each adds to {cost(cell.old, cell.unit)} and takes from it"
    return waterfall(tuple(changes), (cell.old, cell.new), _SCALES.get(cell.unit or "", 1.0), label, key)


def _year(model: str, key: str, cells: Sequence[CellReport]) -> Year:
    own = sorted((cell for cell in cells if cell.model == model), key=lambda cell: cell.board)
    nights: dict[str, list[str]] = {}
    order: list[str] = []
    for cell in own:
        order += [night for night, _, _ in cell.history if night not in nights and not nights.setdefault(night, [])]
    for column, cell in enumerate(own):
        for night, value, word in cell.history:
            row = nights[night]
            row += ["-"] * (column - len(row))
            row.append(_entry(cell, value, word))
    for row in nights.values():
        row.extend(["-"] * (len(own) - len(row)))
    rows = [(night, nights[night]) for night in sorted(order, key=_by_date, reverse=True)]
    return Year(model, key, [cell.board for cell in own], rows)


def _entry(cell: CellReport, value: float | None, word: str) -> str:
    """A cost without its unit, which the table's title has; a word where the night was not an ordinary one."""
    if value is None:
        return word
    text = f"{value / 1e3:.1f}" if cell.unit != "instructions" else f"{value:.0f}"
    return text if word == "same" else f"{text} {word}"


def _by_date(night: str) -> tuple[str, int]:
    date, _, number = night.partition(".")
    return date, int(number or 1)
