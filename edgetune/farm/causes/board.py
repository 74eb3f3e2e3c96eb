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

from edgetune.farm.gate import COUNT_LIMIT, LAYER_LIMIT
from edgetune.target.tool_process import run_tool

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_SECONDS = 10.0


@dataclass(frozen=True)
class Past:
    """What the accepted program took in earlier nights, oldest first, and the facts of the board in the last one."""

    costs: Sequence[float] = ()
    facts: Mapping[str, str] | None = None


def past_of(nights: Sequence[Mapping[str, Any]], package: str, unit: str) -> Past:
    """The past of the accepted `package` (digest) in the facts of a cell's verdicts, oldest first."""
    costs: list[float] = []
    facts: Mapping[str, str] | None = None
    for night in nights:
        own = night.get("package") == package
        cost = night.get("new" if own else "old")
        if (own or night.get("accepted", {}).get("package") == package) and night.get("unit") == unit and cost:
            costs.append(float(cost))
            facts = night.get("board", facts)
    return Past(costs, facts)


def change_of(past: Past, now: float, facts: Mapping[str, str], *, counts: bool) -> str:
    """Say that the accepted program takes other than in its past, and which fact moved; "" where it does not.

    Times are compared with the median of earlier nights, and only a change of 5 % is told: nights differ by 2 %.
    """
    if not past.costs or not now:
        return ""
    ratio = now / statistics.median(past.costs)
    if abs(math.log(ratio)) <= math.log1p(COUNT_LIMIT if counts else LAYER_LIMIT):
        return ""
    was = past.facts or {}
    moved = [f"{key} {was[key]} became {facts[key]}" for key in facts if key in was and was[key] != facts[key]]
    why = "; ".join(moved) or "no known fact of the board moved"
    return f"board: the accepted program takes {100 * (ratio - 1):+.1f} % against its own past ({why})"


def facts_here(emulator: Sequence[str]) -> dict[str, str]:
    """Facts of this machine, and of the emulator in that command, that decide what a program costs."""
    facts = {"kernel": platform.release()}
    if _GOVERNOR.is_file():
        facts["governor"] = _GOVERNOR.read_text(encoding="ascii", errors="replace").strip()
    if emulator and shutil.which(emulator[0]):
        lines = run_tool([emulator[0], "--version"], timeout_s=_SECONDS).stdout.splitlines()
        facts["emulator"] = lines[0] if lines else ""
    return facts
