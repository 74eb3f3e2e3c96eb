"""Parses and prints sizes and durations such as ``64KiB``, ``1.5 MB``, ``30m``, ``1h30m``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

MOST_THREADS = 256
"""Upper limit of the number of threads of a package."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]i?)?B?", re.ASCII)
_FACTORS = {
    "": 1,
    "k": 1000,
    "K": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "Ki": 1024,
    "ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)


def parse_bytes(value: object) -> int:
    """Convert ``65536``, ``"64KiB"`` or ``"64 kB"`` to bytes; raise ValueError for anything else or for 0."""
    size: float = -1
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = float(match[1]) * _FACTORS[match[2] or ""]
    if not 1 <= size <= 2**62:
        msg = f"must be a size such as 64KiB or 1MB, not {value!r}"
        raise ValueError(msg)
    return int(size)


def parse_seconds(value: object) -> float:
    """Convert ``90``, ``"90s"``, ``"30m"`` or ``"1h30m"`` to seconds; raise ValueError for anything else or for 0."""
    seconds: float = -1
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and value.strip() and (match := _DURATION.fullmatch(value.strip())):
        hours, minutes, rest = (float(part) if part else 0.0 for part in match.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    if not 0 < seconds <= 366 * 24 * 3600:
        msg = f"must be a time such as 30m, 90s or 1h30m, not {value!r}"
        raise ValueError(msg)
    return seconds


def format_bytes(size: int) -> str:
    """Write a size for people: ``64.0 KiB``."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004 (the unit itself)
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def format_seconds(seconds: float) -> str:
    """Write a duration for people: ``1h30m``, ``5m``, ``42s``."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    parts = [f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if n]
    return "".join(parts) or f"{seconds:.1f}s"


ByteCount = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([kKMG]i?)?B?\s*$"},
            ],
            "description": "bytes, or a size such as 64KiB or 1MB",
        },
    ),
]
Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?h)?(\d+(\.\d+)?m(in)?)?(\d+(\.\d+)?s?)?\s*$"},
            ],
            "description": "seconds, or a duration such as 30m or 1h30m",
        },
    ),
]
