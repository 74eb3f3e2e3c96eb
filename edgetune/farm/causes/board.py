"""The board against its own past: what the accepted program took in earlier nights, and what moved since then."""

from __future__ import annotations

import math
import platform
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.boards.cores import split_cores
from edgetune.boards.environment import read_environment
from edgetune.farm.gate import COUNT_LIMIT, LAYER_LIMIT
from edgetune.target.tool_process import run_tool

Facts = Mapping[str, str | float]
"""Facts of a board that decide what a program costs there, by name."""

DEGREES = 10.0
"""A board that is this much warmer or colder (°C) has another temperature."""
_NAMES = {"temperature_c": ("temperature", " °C")}
_FIRMWARE = Path("/sys/class/dmi/id/bios_version")
_SECONDS = 10.0


@dataclass(frozen=True)
class Past:
    """What the accepted program took in earlier nights, oldest first, and the facts of the board in the last one."""

    costs: Sequence[float] = ()
    facts: Facts | None = None

    def ratio(self, now: float) -> float | None:
        """`now` as a share of the median of the past; None where there is no past, or nothing now."""
        return now / statistics.median(self.costs) if self.costs and now else None


def same_cores(was: Facts, now: Facts) -> bool:
    """Whether programs were run on the same cores, as far as that was noted: on others they take another time."""
    return was.get("cores", "") == now.get("cores", "") or not (was.get("cores") and now.get("cores"))


def past_of(nights: Sequence[Mapping[str, Any]], package: str, unit: str, now: Facts) -> Past:
    """The past of the accepted `package` (digest) in the facts of a cell's verdicts, oldest first.

    Only nights with the cores of `now`, the board's facts, count.
    """
    costs: list[float] = []
    facts: Facts | None = None
    for night in nights:
        own = night.get("package") == package
        cost = night.get("new" if own else "old")
        if not same_cores(night.get("board", {}), now):
            continue
        if (own or night.get("accepted", {}).get("package") == package) and night.get("unit") == unit and cost:
            costs.append(float(cost))
            facts = night.get("board", facts)
    return Past(costs, facts)


def change_of(past: Past, now: float, facts: Facts, canary: float | None, *, counts: bool) -> str:
    """Say that the accepted program takes other than in its past, and which fact moved; "" where it does not.

    `canary` is what the canary takes as a share of its own past, None where that is not known: the board has changed
    where both have, and in the same direction. Times are compared with the median of earlier nights, and only a change
    of 5 % is told: nights differ by 2 %.
    """
    ratio = past.ratio(now)
    if ratio is None or not changed(ratio, counts=counts):
        return ""
    why = "; ".join(moved(past.facts or {}, facts)) or "no known fact of the board moved"
    program = f"the accepted program takes {percent(ratio)} against its own past"
    if canary is None:
        return f"board: {program} ({why})"
    if changed(canary, counts=counts) and (canary > 1) == (ratio > 1):
        return f"board: {program}, the canary {percent(canary)} ({why})"
    return f"{program}, but the canary {percent(canary)}, so it is not the speed of the core ({why})"


def changed(ratio: float, *, counts: bool) -> bool:
    """Whether a cost is another one than in the past: by 5 %, or 0.1 % of counts."""
    return abs(math.log(ratio)) > math.log1p(COUNT_LIMIT if counts else LAYER_LIMIT)


def percent(ratio: float) -> str:
    """A ratio as a change, such as +3.1 %."""
    return f"{100 * (ratio - 1):+.1f} %"


def moved(was: Facts, now: Facts) -> list[str]:
    """The facts that are others than they were, in words; a temperature where it differs by `DEGREES`."""
    said = []
    for key, value in now.items():
        before = was.get(key)
        if before is None or before == value:
            continue
        if isinstance(value, float | int) and isinstance(before, float | int) and abs(value - before) < DEGREES:
            continue
        name, unit = _NAMES.get(key, (key, ""))
        shown = [f"{one:.0f}" if isinstance(one, float | int) else one for one in (before, value)]
        said.append(f"{name} {shown[0]}{unit} became {shown[1]}{unit}")
    return said


def facts_here(emulator: Sequence[str], *, counts: bool) -> dict[str, str | float]:
    """Facts of this machine, and of the emulator in that command, that decide what a program costs.

    Where instructions are counted, how warm the machine is decides nothing.
    """
    read = read_environment(max(split_cores().measuring))
    kept = ("governor",) if counts else ("governor", "temperature_c")
    facts: dict[str, str | float] = {"kernel": platform.release()}
    if _FIRMWARE.is_file():
        facts["firmware"] = _FIRMWARE.read_text(encoding="utf-8", errors="replace").strip()
    facts |= {key: read[key] for key in kept if key in read}
    if emulator and shutil.which(emulator[0]):
        lines = run_tool([emulator[0], "--version"], timeout_s=_SECONDS).stdout.splitlines()
        facts["emulator"] = lines[0] if lines else ""
    return facts
