"""Tables of JSON lines that are written while a long measurement runs, and read where it goes on after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

Row = TypeVar("Row")


def read(path: Path, make: Callable[..., Row]) -> list[Row]:
    """Return what a table holds, by `make(**line)`; a line that was cut off by a kill is removed."""
    if not path.exists():
        return []
    whole, end, _ = path.read_text(encoding="utf-8").rpartition("\n")
    mended = path.with_suffix(".new")
    mended.write_text(whole + end, encoding="utf-8")
    mended.replace(path)
    return [make(**json.loads(line)) for line in whole.splitlines()]


def append(path: Path, row: Mapping[str, object]) -> None:
    """Add a line to a table."""
    with path.open("a", encoding="utf-8") as table:
        table.write(json.dumps(row) + "\n")
