"""The report of a night: what stands on its page, in `night.json` (schemas/night.schema.json) and in `junit.xml`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import VERDICTS, Night, NightCell, NightStore, Verdict, VerdictWord

_HISTORY = 365

Word = Literal["first", "same", "faster", "slower", "cannot tell", "not measured", "waiting"]


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
    alarm: bool = Field(description="Whether the cell is slower, or something exact is worse.")
    reason: str = ""
    cause: str = ""
    diff: str = Field(default="", description="C function of the slowest layer, accepted against tonight's.")
    unit: Literal["ns", "instructions"] | None = None
    new: float | None = None
    old: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    turns: int | None = None
    worse: tuple[str, ...] = ()
    accepted_night: str | None = None
    layers: tuple[LayerReport, ...] = ()
    attempts: int = 0
    history: tuple[tuple[str, float | None], ...] = Field(
        default=(), description="Nights, oldest first, with the cost of a run in each."
    )


class NightReport(_Part):
    """One night of a farm."""

    format: Literal[1] = 1
    farm: str
    owner: str
    night: str
    begun_utc: str
    finished_utc: str | None
    host: str
    edgetune: str
    limit: float
    counts: dict[str, int]
    cells: tuple[CellReport, ...]

    @property
    def alarms(self) -> list[CellReport]:
        """Cells that are slower or larger."""
        return [cell for cell in self.cells if cell.alarm]


def report(farm: Farm, store: NightStore, night: Night) -> NightReport:
    """Return the report of a night from the rows of the database; cells without a verdict come first."""
    past = [other for other in store.nights(farm.name) if other.id <= night.id][-_HISTORY:]
    history: dict[str, list[tuple[str, NightCell]]] = {}
    for other in past:
        for row in store.cells(other):
            history.setdefault(row.cell.name, []).append((other.night, row))
    cells = [_cell(row, history[row.cell.name]) for row in store.cells(night)]
    words: list[Word] = ["waiting", "not measured", "slower", "cannot tell", "faster", "first", "same"]
    ordered = sorted(cells, key=lambda cell: (cell.verdict not in words[:2], not cell.alarm, words.index(cell.verdict)))
    counts = {word: sum(cell.verdict == word for cell in cells) for word in (*VERDICTS, "waiting")}
    return NightReport(
        farm=farm.name,
        owner=night.owner,
        night=night.night,
        begun_utc=night.begun_utc,
        finished_utc=night.finished_utc,
        host=night.host,
        edgetune=night.tool_version,
        limit=night.limit,
        counts=counts,
        cells=tuple(ordered),
    )


def _cell(row: NightCell, past: Sequence[tuple[str, NightCell]]) -> CellReport:
    cell = row.cell
    common: dict[str, Any] = {
        "cell": cell.name,
        "model": cell.model,
        "board": cell.board,
        "kind": cell.kind,
        "attempts": row.attempt,
        "history": tuple((night, other.verdict.facts.get("new") if other.verdict else None) for night, other in past),
        "nights": _nights(row, past),
    }
    verdict = row.verdict
    if verdict is None:
        return CellReport(**common, verdict="waiting", alarm=False)
    facts = verdict.facts
    worse = tuple(facts.get("worse", ()))
    numbers = {
        key: facts[key]
        for key in ("unit", "new", "old", "ratio", "low", "high", "turns", "cause", "diff")
        if key in facts
    }
    return CellReport(
        **common,
        **numbers,
        verdict=verdict.verdict,
        alarm=is_alarm(verdict),
        reason=verdict.reason,
        worse=worse,
        accepted_night=facts.get("accepted", {}).get("night"),
        layers=tuple(_layer(layer) for layer in facts.get("layers", ())),
    )


def _layer(facts: dict[str, Any]) -> LayerReport:
    return LayerReport(**{key: facts[key] for key in LayerReport.model_fields if key in facts})


def is_alarm(verdict: Verdict) -> bool:
    """Whether somebody must look: the cell is slower, or something exact is worse."""
    return verdict.verdict == "slower" or bool(verdict.facts.get("worse"))


def _nights(row: NightCell, past: Sequence[tuple[str, NightCell]]) -> int:
    """For how many nights in a row, this one included, the cell has had its verdict."""
    word = _word(row)
    count = 0
    for _, other in reversed(past):
        if _word(other) != word:
            break
        count += 1
    return count


def _word(row: NightCell) -> VerdictWord | None:
    return row.verdict.verdict if row.verdict else None
