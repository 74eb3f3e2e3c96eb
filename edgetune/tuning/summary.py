"""A schedule in one line, for comments and reports: what was decided, and what was done with it."""

from __future__ import annotations

import json
from collections import Counter

_TOLD = (
    "ComputeInline",
    "ComputeAt",
    "ReverseComputeAt",
    "CacheRead",
    "CacheWrite",
    "Fuse",
    "Vectorize",
    "TransformLayout",
)


def summary(trace: str) -> str:
    """The decisions of `trace` (tile sizes, outermost first) in their order, then how often each telling step occurs.

    A trace that is not the JSON of one gives an empty text: this is for reading only.
    """
    try:
        steps, decisions = json.loads(trace)
        names = [str(step[0]) for step in steps]
        chosen = [_decision(names[index], value) for index, value in decisions]
    except (ValueError, TypeError, IndexError, KeyError):
        return ""
    counts = Counter(name for name in names if name in _TOLD)
    done = [name if counts[name] == 1 else f"{counts[name]} {name}" for name in _TOLD if counts[name]]
    return "; ".join(filter(None, [" ".join(chosen), ", ".join(done)]))


def _decision(step: str, value: object) -> str:
    if step == "SamplePerfectTile" and isinstance(value, list):
        return "x".join(map(str, value))
    return f"{step.removeprefix('Sample').lower()}={value}"
