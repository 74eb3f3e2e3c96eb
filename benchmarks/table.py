"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.result import ModelResult, SideResult
from edgetune.boards.environment import Reading

_HOW = """Single thread, one pinned core. Every side has a process of its own and is silent unless it is timed. In each
round every side is timed once, in an order that rotates, after an untimed warm-up; a side's time is the median over
rounds of the median over calls, in microseconds, with the lowest and highest round in brackets. All sides are called by
the same loop through their Python bindings (the package through ctypes). Ratio: peer / edgetune, more than 1 means that
edgetune is faster; in brackets the range over single rounds. Differences below 3 % (10 % from 1 ms on) are ties."""


def markdown(
    results: Sequence[ModelResult], machine: Mapping[str, Reading], setting: str, titles: Mapping[str, str]
) -> str:
    """The whole report; `setting` says how many rounds of how many seconds."""
    lines = ["# edgetune beside other runtimes", "", _HOW, "", setting, "", *_machine(machine), ""]
    lines += ["## Summary", "", *_summary(results, titles), ""]
    for result in results:
        lines += [f"## {result.model}", "", *_model(result, titles), ""]
    lines += ["## Versions and settings", "", *_settings(results, titles), ""]
    return "\n".join(lines)


def _machine(machine: Mapping[str, Reading]) -> list[str]:
    return [f"- {name.replace('_', ' ')}: {value}" for name, value in machine.items()]


def _summary(results: Sequence[ModelResult], titles: Mapping[str, str]) -> list[str]:
    """One row per model, one column per side: median and ratio."""
    rows = [["model", *titles.values(), "best peer / edgetune"]]
    for result in results:
        by_name = {side.name: side for side in result.sides}
        cells = [_cell(by_name.get(name)) for name in titles]
        peers = [side for side in result.sides if side.ratio is not None]
        best = min(peers, key=lambda side: side.median_us, default=None)
        rows.append([result.model, *cells, _best(best, titles)])
    return _table(rows)


def _cell(side: SideResult | None) -> str:
    if side is None:
        return "-"
    ratio = "" if side.ratio is None else f" ({side.ratio:.2f}x)"
    return f"{_time(side.median_us)}{ratio}{'' if side.correct else ' differs'}"


def _best(side: SideResult | None, titles: Mapping[str, str]) -> str:
    if side is None or side.ratio is None:
        return "-"
    verdict = f"**{side.verdict}**" if side.verdict == "loss" else side.verdict
    return f"{side.ratio:.2f} ({titles[side.name]}), {verdict}"


def _model(result: ModelResult, titles: Mapping[str, str]) -> list[str]:
    head = ["side", "median, us", "spread", "fastest call, us", "ratio", "verdict", "difference from the reference"]
    rows = [head]
    for side in result.sides:
        ratio = verdict = "-"
        if side.ratio is not None:
            ratio = f"{side.ratio:.2f} ({side.ratio_low:.2f} to {side.ratio_high:.2f})"
            verdict = f"**{side.verdict}**" if side.verdict == "loss" else str(side.verdict)
        times = f"{_time(side.median_us)} ({_time(side.low_us)} to {_time(side.high_us)})"
        gap = f"{side.difference:.1e}{'' if side.correct else f', more than {side.allowed:.1e}'}"
        rows.append([titles[side.name], times, f"{side.spread:.0%}", _time(side.min_us), ratio, verdict, gap])
    missing = [f"- {titles[name]}: not measured: {why}" for name, why in result.missing.items()]
    return [*_table(rows), *([""] if missing else []), *missing]


def _settings(results: Sequence[ModelResult], titles: Mapping[str, str]) -> list[str]:
    """Each side's version and settings once; where they differ between models, once for each kind."""
    found: dict[str, list[str]] = {}
    for result in results:
        for side in result.sides:
            words = f"- {titles[side.name]} {side.version}: {side.settings}"
            found.setdefault(words, []).append(result.model)
    everywhere = len(results)
    return [w if len(models) == everywhere else f"{w} ({', '.join(models)})" for w, models in sorted(found.items())]


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f}" if microseconds >= 1000 else f"{microseconds:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [head, "|" + "---|" * len(rows[0]), *body]
