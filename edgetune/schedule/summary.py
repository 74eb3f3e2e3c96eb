"""One-line schedule summary for comments and reports: the decisions, and the schedule steps."""

from __future__ import annotations

import json
from collections import Counter

from edgetune.schedule.algorithms.schedule_text import DIRECT, algorithm_and_trace

_REPORTED = (
    "ComputeInline",
    "ComputeAt",
    "ReverseComputeAt",
    "CacheRead",
    "CacheWrite",
    "Fuse",
    "Vectorize",
    "TransformLayout",
)


def summary(text: str) -> str:
    """A schedule's algorithm (unless direct), its decisions, then how often each important step occurs.

    Decisions are tile sizes, outermost first, in the order of the trace. Text that is not a trace's JSON gives an empty
    summary: it is only for people to read.
    """
    algorithm, trace = algorithm_and_trace(text)
    try:
        steps, decisions = json.loads(trace)
        names = [str(step[0]) for step in steps]
        chosen = [_decision(names[index], value) for index, value in decisions]
    except (ValueError, TypeError, IndexError, KeyError):
        return ""
    counts = Counter(name for name in names if name in _REPORTED)
    done = [name if counts[name] == 1 else f"{counts[name]} {name}" for name in _REPORTED if counts[name]]
    parts = [algorithm if algorithm != DIRECT else "", " ".join(chosen), ", ".join(done)]
    return "; ".join(filter(None, parts))


def _decision(step: str, value: object) -> str:
    if step == "SamplePerfectTile" and isinstance(value, list):
        return "x".join(map(str, value))
    return f"{step.removeprefix('Sample').lower()}={value}"
