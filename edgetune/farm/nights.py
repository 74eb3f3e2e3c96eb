"""Nights of a farm: plans, begins, resumes and ends them, and answers for the commands."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from edgetune._version import __version__
from edgetune.config.host import host_name
from edgetune.errors import NightFault, UsageError
from edgetune.farm import calendar, run_cell
from edgetune.farm.cell_settings import CellSettings
from edgetune.farm.cells import Cell, cells_of
from edgetune.farm.drains import hosts_of
from edgetune.farm.engine import Engine, OnVerdict
from edgetune.farm.farm_file import Farm
from edgetune.farm.identity import claim
from edgetune.farm.night_store import NEVER, Night, NightCell, NightStore
from edgetune.farm.open_nights import (
    close,
    end_with,
    finish,
    open_nights,
    window_over,
    window_over_words,
)
from edgetune.farm.progress import other_version
from edgetune.yaml_reader.nearest import nearest


@dataclass(frozen=True)
class PlannedCell:
    """A cell of the next night: the minutes that it took before (None: it never ran), and whether it fits.

    `gate_minutes` of them compared packages; they are set aside for all cells of a board before any search.
    """

    cell: Cell
    minutes: float | None
    gate_minutes: float | None
    fits: bool


def plan(farm: Farm, store: NightStore | None, now: datetime) -> list[PlannedCell]:
    """Return the cells of the next night in their order: first those without a verdict in the last one.

    Those that do not fit are behind all others, so that those that fit have their verdicts before the window is over.
    Boards work side by side, so the minutes of each board are counted apart. Without a window, all cells fit.
    """
    cells = cells_of(farm)
    past = store.nights(farm.name) if store else []
    before = {row.cell.name: row for row in store.cells(past[-1])} if store and past else {}
    minutes = store.minutes(farm.name) if store else {}

    def missed(cell: Cell) -> bool:
        row = before.get(cell.name)
        return row is not None and (row.verdict is None or row.verdict.verdict == "not measured")

    waiting = {(cell.model, cell.kind) for cell in cells if missed(cell)}
    ordered = sorted(cells, key=lambda cell: (cell.model, cell.kind) not in waiting)
    left = dict.fromkeys({cell.board for cell in cells}, _minutes_left(farm, past, now))
    for cell in cells:
        left[cell.board] -= minutes.get(cell.name, NEVER).gate
    planned = []
    for cell in ordered:
        took = minutes.get(cell.name)
        search = took.all - took.gate if took else 0.0
        fits = search <= left[cell.board]
        left[cell.board] -= search if fits else 0.0
        planned.append(PlannedCell(cell, took.all if took else None, took.gate if took else None, fits))
    return sorted(planned, key=lambda planned_cell: not planned_cell.fits)


def _minutes_left(farm: Farm, past: Sequence[Night], now: datetime) -> float:
    """Minutes of the window of the next night, as far as it is not over: that after tonight, once tonight is over."""
    window = calendar.window_at(farm.content, now)
    tonight = [night for night in past if window and datetime.fromisoformat(night.begun_utc) >= window.begins]
    over = bool(tonight) and all(night.finished_utc for night in past)
    window = calendar.next_window(farm.content, now, window.date if window and over else None)
    if window is None:
        return float("inf")
    return (window.ends - max(now, window.begins)) / timedelta(minutes=1)


class ByDay(UsageError):  # noqa: N818  named as its bases are
    """The window of a farm is not open, and nobody asked for a night by day."""


def run(
    farm: Farm,
    store: NightStore,
    engine: Engine,
    on_verdict: OnVerdict,
    on_end: OnVerdict,
    *,
    by_day: bool,
    say: Callable[[str], None] = lambda _: None,
) -> Night:
    """Run the night whose window is open, or go on with it; with `by_day`, one without a window. Return it, finished.

    Other nights that end here are given to `on_end`: those whose window was over, and in an open window those of before
    it, which are finished first, with its end as theirs. Else a forgotten rerun would take the place of a night.
    `say` gets what the farm takes over. Raises ByDay without `by_day`, NightFault as the engine does and for the folder
    or name of another farm, ConfigError for a board.
    """
    for news in claim(farm, store):
        say(news)
    now = datetime.now(UTC)
    window = calendar.window_at(farm.content, now)
    for night in open_nights(store, farm.name):
        if window_over(night, now):
            on_end(close(store, night, window_over_words(night, farm.content.timezone)))
    if by_day:
        date = window.date if window else calendar.local_date(farm.content, now)
        return _run_by_day(farm, store, engine, on_verdict, on_end, str(date))
    if window is None:
        raise _by_day(farm)

    def begun_before(night: Night) -> bool:
        return datetime.fromisoformat(night.begun_utc) < window.begins

    for night in filter(begun_before, open_nights(store, farm.name)):
        if why := other_version(night):
            on_end(close(store, night, why))
        else:
            on_end(finish(store, engine, end_with(store, night, window.ends), on_verdict))
    tonight = [night for night in store.nights(farm.name) if not begun_before(night)]
    waiting = [night for night in tonight if night.finished_utc is None]
    if tonight and not waiting:
        return tonight[-1]
    night = waiting[-1] if waiting else _begin(farm, store, engine, str(window.date), window.ends)
    if night.ends_utc is None:  # it was begun by hand, or its cell is measured again
        night = end_with(store, night, window.ends)
    return finish(store, engine, night, on_verdict)


def _run_by_day(
    farm: Farm, store: NightStore, engine: Engine, on_verdict: OnVerdict, on_end: OnVerdict, date: str
) -> Night:
    """Go on with the last open night, of whatever date, or run a new one, which has no window."""
    waiting = open_nights(store, farm.name)
    for night in tuple(waiting):
        if night.night.partition(".")[0] != date and (why := other_version(night)):
            on_end(close(store, night, why))
            waiting.remove(night)
    night = waiting[-1] if waiting else _begin(farm, store, engine, date, None)
    return finish(store, engine, night, on_verdict)


def _begin(farm: Farm, store: NightStore, engine: Engine, date: str, ends: datetime | None) -> Night:
    """Begin a night; where another host was faster, join that one."""
    same = [night for night in store.nights(farm.name) if night.night.partition(".")[0] == date]
    facts: dict[str, object] = {
        "farm": farm.name,
        "night": f"{date}.{len(same) + 1}" if same else date,
        "ends_utc": ends.isoformat() if ends else None,
        "host": host_name(),
        "tool_version": __version__,
        "owner": farm.content.owner or "",
        "limit": farm.content.limit,
    }
    stated = {name: CellSettings.stated(farm, name) for name in farm.models}
    cells = [planned.cell for planned in plan(farm, store, datetime.now(UTC))]
    begun = engine.begin(facts, [replace(cell, begun_with=stated[cell.model]) for cell in cells])
    return begun or night_called(farm, store, str(facts["night"]))


def _by_day(farm: Farm) -> UsageError:
    if farm.content.window is None:
        return UsageError(f"{farm.path} has no 'window', so nothing starts by itself: --now runs a night at once")
    begin, end = farm.content.window
    return ByDay(f"the night is from {begin:%H:%M} to {end:%H:%M}: by day nothing starts without --now")


def night_called(farm: Farm, store: NightStore, name: str | None) -> Night:
    """Return a night by its date, the last one without `name`; raises NightFault where there is none."""
    past = store.nights(farm.name)
    if not past:
        raise NightFault(f"farm '{farm.name}' has had no night yet: `edgetune nightly run --now {farm.path}` runs one")
    if name is None:
        return past[-1]
    found = next((night for night in past if night.night == name), None)
    if found is None:
        known = nearest(name, [night.night for night in past])
        raise NightFault(f"farm '{farm.name}' had no night {name}: {known}")
    return found


def cell_called(rows: Sequence[NightCell], name: str) -> NightCell:
    """Return a cell of a night by its name; raises UsageError."""
    found = next((row for row in rows if row.cell.name == name), None)
    if found is None:
        raise UsageError(f"the night has no cell '{name}': {nearest(name, [row.cell.name for row in rows])}")
    return found


def rerun(farm: Farm, engine: Engine, night: Night, row: NightCell) -> None:
    """Forget the verdict of a cell, so that it is measured again in its night.

    Raises UsageError where the farm has not this cell any more, or another model or other settings for it: a night
    keeps those that it began with. Raises NightFault where the night cannot go on, and ConfigError for a board. Nothing
    is forgotten then.
    """
    cell = next((cell for cell in cells_of(farm) if cell.name == row.cell.name), None)
    if cell is None:
        raise UsageError(f"{farm.path} has no cell {row.cell.name} any more: add its model or board again")
    now = CellSettings.stated(farm, cell.model)
    measured = row.verdict.facts.get("exact", {}).get("model", "") if row.verdict else ""
    began = row.cell.begun_with or now.model_copy(update={"sha256": measured})  # of an earlier version
    changes = began.changes(now)
    if changes or cell.settings != row.cell.settings:
        what = "; ".join(changes) or f"the settings in {farm.path} are others"
        raise UsageError(
            f"{row.cell.model} is not what night {night.night} began with ({what}): change that back, or measure it in "
            "the next night"
        )
    engine.rerun(night, row)


def accept(farm: Farm, store: NightStore, night: Night, row: NightCell, because: str) -> None:
    """Accept the package that a cell got in `night`; raises UsageError without a reason, and where there is none."""
    if not because.strip():
        raise UsageError("--because is empty: say why this package is right, which the page shows beside your name")
    if row.verdict is None or not row.verdict.package:
        raise UsageError(f"night {night.night} left no changed package of {row.cell.name}: there is nothing to accept")
    store.accept(run_cell.acceptance(farm, night.night, row.cell, row.verdict, because.strip(), getpass.getuser()))


def drainable(farm: Farm, store: NightStore) -> list[str]:
    """Names that can be drained: the boards of a farm, this host, and those that worked for it."""
    boards = [cell.board for cell in cells_of(farm)]
    return list(dict.fromkeys([*boards, host_name(), *hosts_of(store.database, farm.name)]))
