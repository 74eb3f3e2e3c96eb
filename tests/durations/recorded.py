"""What `make durations` wrote of each test file: `tests/durations.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

DURATIONS = Path(__file__).parents[1] / "durations.json"

Row: TypeAlias = Mapping[str, Any]
"""Of one file: `tests`, seconds (`wall_s`, `cpu_s`, `long_wall_s`, `long_cpu_s`), and counts and seconds by program."""


def recorded(path: Path = DURATIONS) -> dict[str, Row]:
    """Return the rows by test file; none where nothing was measured yet."""
    if not path.exists():
        return {}
    rows: dict[str, Row] = json.loads(path.read_text(encoding="utf-8"))
    return rows
