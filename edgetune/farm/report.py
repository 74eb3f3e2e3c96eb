"""The report of a night: what stands on its page, in `night.json` (schemas/night.schema.json) and in `junit.xml`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from edgetune.farm.acceptances import Acceptance, Acceptances
from edgetune.farm.farm_file import Farm
from edgetune.farm.health.history import BoardHistory, unconfirmed
from edgetune.farm.night_store import VERDICTS, Night, NightCell, NightStore, Verdict, VerdictWord
from edgetune.farm.notification import notifications_of
from edgetune.farm.open_nights import RunningCell, running_cells

_HISTORY = 365

Word = Literal["first", "same", "faster", "slower", "cannot tell", "not measured", "waiting", "running"]
UNJUDGED: tuple[Word, ...] = ("running", "waiting", "not measured")
ORDER: tuple[Word, ...] = (*UNJUDGED, "slower", "cannot tell", "faster", "first", "same")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LayerReport(_Part):
    """One layer: its cost tonight and in the accepted package; a verdict where it takes a tenth of the time or more."""

    name: str
    new: float
    old: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    word: str | None = None


class CellReport(_Part):
    """One cell in this night. Costs are of one run, in `unit`; `low` and `high` bound the ratio with 99 %."""

    cell: str
    model: str
    board: str
    kind: str
    verdict: Word
    nights: int = Field(description="For how many nights in a row the cell has this verdict.")
    since: str = Field(description="The first of these nights.")
    alarm: bool = Field(description="Whether the cell is slower, or something exact is worse.")
    reason: str = ""
    host: str = Field(default="", description="The host that runs it now; empty where it does not run.")
    running_since_utc: str | None = Field(default=None, description="Since when it runs.")
    cause: str = ""
    factors: tuple[str, ...] = Field(default=(), description="Factors that the cause names.")
    note: str = Field(default="", description="What the accepted package says of the board: no alarm.")
    drift: str = Field(default="", description="A lasting change against the board's pinned package: no alarm.")
    unconfirmed: bool = Field(
        default=False, description="Whether it is a new winner, and no second board of the kind ran the same program."
    )
    diff: str = Field(default="", description="C of the layer that lost most time, before and after the change.")
    unit: Literal["ns", "instructions"] | None = None
    new: float | None = None
    old: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    turns: int | None = None
    worse: tuple[str, ...] = ()
    accepted_night: str | None = None
    compared_with: Acceptance | None = Field(
        default=None, description="Who accepted the package that tonight's was compared with, when and why."
    )
    acceptance: Acceptance | None = Field(default=None, description="Who accepted tonight's package, when and why.")
    layers: tuple[LayerReport, ...] = ()
    attempts: int = 0
    minutes: float | None = Field(default=None, description="Time that all attempts of this night took.")
    history: tuple[tuple[str, float | None, Word], ...] = Field(
        default=(), description="Nights, oldest first, with the cost of a run and the verdict in each."
    )


class BoardReport(_Part):
    """One board in this night: its cells, how many have a result, their minutes, and why others have none."""

    board: str
    kind: str
    cells: int
    measured: int
    minutes: float | None
    longest: str = Field(description="The cell that took longest.")
    reasons: tuple[str, ...]
    health: str = Field(default="", description="What the check before its cells found.")
    drift: str = Field(default="", description="A lasting change of its canary: no alarm.")


class NightReport(_Part):
    """One night of a farm."""

    format: Literal[1] = 1
    farm: str
    owner: str
    night: str
    begun_utc: str
    finished_utc: str | None
    timezone: str | None = Field(
        default=None, description="Time zone of the times on the page: the farm's; null is that of the machine."
    )
    host: str
    edgetune: str
    limit: float
    counts: dict[str, int]
    cells: tuple[CellReport, ...]
    boards: tuple[BoardReport, ...] = ()
    notify_fault: str = Field(default="", description="Why the command of `notify` did not tell of this night.")

    @property
    def alarms(self) -> list[CellReport]:
        """Cells that are slower or larger."""
        return [cell for cell in self.cells if cell.alarm]


def report(farm: Farm, store: NightStore, night: Night) -> NightReport:
    """Return the report of a night from the rows of the database; cells without a verdict come first."""
    past = [other for other in store.nights(farm.name) if other.id < night.id][1 - _HISTORY :]
    rows = store.cells(night)  # read once: other hosts judge cells meanwhile
    history: dict[str, list[tuple[str, NightCell]]] = {}
    before = [(other, store.cells(other)) for other in past]
    for other, cells_then in [*before, (night, rows)]:
        for row in cells_then:
            history.setdefault(row.cell.name, []).append((other.night, row))
    minutes, running = store.spent(night), running_cells(store, night)
    seen = BoardHistory([*((other.night, cells) for other, cells in before), (night.night, rows)])
    winners, acceptances = unconfirmed(rows), Acceptances(store, farm.name)
    cells = [
        _cell(row, history[row.cell.name], minutes.get(row.id), running.get(row.id)).model_copy(
            update={
                "drift": seen.drift_of(row.cell),
                "unconfirmed": row.id in winners,
                "compared_with": acceptances.compared_with(row),
                "acceptance": acceptances.of(row, night.night),
            }
        )
        for row in rows
    ]
    ordered = sorted(cells, key=lambda cell: (cell.verdict not in UNJUDGED, not cell.alarm, ORDER.index(cell.verdict)))
    counts = {word: sum(cell.verdict == word for cell in cells) for word in (*VERDICTS, "waiting", "running")}
    notification = notifications_of(store.database).get(night.id)
    return NightReport(
        farm=farm.name,
        owner=night.owner,
        night=night.night,
        begun_utc=night.begun_utc,
        finished_utc=night.finished_utc,
        timezone=farm.content.timezone,
        host=night.host,
        edgetune=night.tool_version,
        limit=night.limit,
        counts=counts,
        cells=tuple(ordered),
        boards=tuple(_board(board, cells, seen) for board in sorted({cell.board for cell in cells})),
        notify_fault=notification.fault if notification else "",
    )


def _board(board: str, cells: Sequence[CellReport], seen: BoardHistory) -> BoardReport:
    own = [cell for cell in cells if cell.board == board]
    timed = [cell for cell in own if cell.minutes is not None]
    return BoardReport(
        board=board,
        kind=own[0].kind,
        cells=len(own),
        measured=sum(cell.verdict not in UNJUDGED for cell in own),
        minutes=sum(cell.minutes or 0.0 for cell in timed) if timed else None,
        longest=max(timed, key=lambda cell: cell.minutes or 0.0).cell if timed else "",
        reasons=tuple(dict.fromkeys(cell.reason for cell in own if cell.verdict in UNJUDGED and cell.reason)),
        health=seen.sentence_of(board),
        drift=seen.drift_of_board(board),
    )


def _cell(
    row: NightCell, past: Sequence[tuple[str, NightCell]], minutes: float | None, runs: RunningCell | None
) -> CellReport:
    cell = row.cell
    same = _same_nights(row, past)
    unjudged: Word = "running" if runs else "waiting"
    common: dict[str, Any] = {
        "cell": cell.name,
        "model": cell.model,
        "board": cell.board,
        "kind": cell.kind,
        "attempts": row.attempt,
        "minutes": minutes,
        "history": tuple(
            (
                night,
                other.verdict.facts.get("new") if other.verdict else None,
                _word(other) or (unjudged if other is row else "waiting"),
            )
            for night, other in past
        ),
        "nights": len(same),
        "since": same[-1],
        "unit": _unit(past),
    }
    verdict = row.verdict
    if verdict is None:
        place = {"host": runs.host, "running_since_utc": runs.since_utc} if runs else {}
        return CellReport(**common, **place, verdict=unjudged, alarm=False)
    facts = verdict.facts
    worse = tuple(facts.get("worse", ()))
    numbers = {
        key: facts[key]
        for key in ("unit", "new", "old", "ratio", "low", "high", "turns", "cause", "factors", "note", "diff")
        if key in facts
    }
    return CellReport(
        **{**common, **numbers},
        verdict=verdict.verdict,
        alarm=is_alarm(verdict),
        reason=verdict.reason,
        worse=worse,
        accepted_night=facts.get("accepted", {}).get("night"),
        layers=tuple(_layer(layer) for layer in facts.get("layers", ())),
    )


def _unit(past: Sequence[tuple[str, NightCell]]) -> str | None:
    """The unit of the cell's last cost."""
    units = (row.verdict.facts.get("unit") for _, row in reversed(past) if row.verdict)
    return next(filter(None, units), None)


def _layer(facts: dict[str, Any]) -> LayerReport:
    return LayerReport(**{key: facts[key] for key in LayerReport.model_fields if key in facts})


def is_alarm(verdict: Verdict) -> bool:
    """Whether somebody must look: the cell is slower, or something exact is worse."""
    return verdict.verdict == "slower" or bool(verdict.facts.get("worse"))


def _same_nights(row: NightCell, past: Sequence[tuple[str, NightCell]]) -> list[str]:
    """The nights in a row, this one first, in which the cell has had its verdict."""
    word = _word(row)
    return [night for night, _ in takewhile(lambda item: _word(item[1]) == word, reversed(past))]


def _word(row: NightCell) -> VerdictWord | None:
    return row.verdict.verdict if row.verdict else None
