"""What a night knows of a board's health, what it was in earlier nights, and when a board is not fit to be measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from edgetune.farm.causes.board import Facts, Past, changed, moved, percent
from edgetune.farm.night_store import NightCell

CANARY, REFERENCE = "canary", "pinned package"
NIGHTS = 14
UNFIT = 1.5
"""A board that takes this many times as long as in its own past is not fit: throttled, or at its lowest clock.

Nights differ by 2 % and starts by a second mode of 6 %; what is below is told as a note, and the gate compares side by
side anyway.
"""
INFRASTRUCTURE = "infrastructure: "


@dataclass(frozen=True)
class BoardHealth:
    """Health of a board in one night: `fault` says why its cells are not measured, "" where they are.

    `costs` (in `unit`) and `pinned` (digest in the archive) are those of the canary and the pinned package, by name;
    `ratios` are these costs as shares of the board's own past, as far as there is one. `facts` are those of the board,
    `ladder` is what was tried to recover it, `notes` what else became other than in the night before.
    """

    utc: str
    fault: str = ""
    unit: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)
    pinned: Mapping[str, str] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    ladder: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave."""
        sequences = {name: tuple(values.get(name, ())) for name in ("ladder", "notes")}
        return cls(**{**values, **sequences})

    @property
    def sentence(self) -> str:
        """The board's health for people; why it is not fit is the reason of its cells."""
        if self.fault:
            return "not fit"
        if not self.costs:
            return "reachable; its times are not compared"
        counts = self.unit == "instructions"
        said = [
            f"{name}: nothing to compare with yet"
            if name not in self.ratios
            else f"{name} {percent(self.ratios[name])}"
            if changed(self.ratios[name], counts=counts)
            else f"{name} as before"
            for name in self.costs
        ]
        return ", ".join([*said, *self.ladder, *self.notes])


def latest(rows: Iterable[NightCell], board: str) -> BoardHealth | None:
    """The last health of a board that a night's verdicts tell; None where none does."""
    found = [
        BoardHealth.from_json(row.verdict.facts["health"])
        for row in rows
        if row.cell.board == board and row.verdict is not None and "health" in row.verdict.facts
    ]
    return max(found, key=lambda health: health.utc, default=None)


def past_of_program(nights: Sequence[BoardHealth], name: str, pinned: str) -> Past:
    """The past of a pinned program in comparable nights, oldest first; other programs of its name do not count."""
    fit = [night for night in nights if night.pinned.get(name) == pinned]
    return Past([night.costs[name] for night in fit if name in night.costs], fit[-1].facts if fit else None)


def slow(costs: Mapping[str, float], pasts: Mapping[str, Past]) -> dict[str, float]:
    """Programs that take `UNFIT` times as long as in their past, or longer, with that ratio."""
    ratios = {name: past.ratio(costs[name]) for name, past in pasts.items() if name in costs}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None and ratio >= UNFIT}


def unfit(ratios: Mapping[str, float], was: Facts, now: Facts, ladder: Sequence[str]) -> str:
    """Say that these programs are so slow that the board is not fit."""
    said = " and ".join(f"the {name} takes {ratio:.1f} times as long" for name, ratio in ratios.items())
    why = "; ".join(moved(was, now)) or "no known fact of the board moved"
    return "; ".join([f"{said} as in its own past ({why})", *ladder])


def known(ratios: Mapping[str, float | None]) -> dict[str, float]:
    """The ratios that are known, finite numbers all."""
    return {name: ratio for name, ratio in ratios.items() if ratio is not None and math.isfinite(ratio)}
