"""Sample nights in a records database, from a seed: what pages and their tests are written from. No board is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sqlalchemy import insert

from edgetune.farm.cells import Cell
from edgetune.farm.health.board_health import CANARY, INFRASTRUCTURE, REFERENCE, BoardHealth
from edgetune.farm.night_store import NightStore, Verdict
from edgetune.farm.night_tables import verdicts

_LAYERS = ("conv2d 3x3", "depthwise 3x3", "pointwise 1x1", "depthwise 5x5", "pool", "dense <head>", "softmax & scale")
_SHARES = np.array([0.3, 0.18, 0.24, 0.12, 0.03, 0.1, 0.03])
_BUSY = "board shelf-3 is busy since 21:40: somebody measures on it"
_CHECK = "`edgetune boards check`"
_THROTTLED = (
    "the canary takes 2.5 times as long as in its own past (governor performance became powersave); restarting the "
    "board: not set up for this board; cutting its power: not set up for this board"
)
_DIFF = """--- accepted
+++ tonight
@@ -1,6 +1,5 @@
 static void conv2d_kernel(const float *restrict x, const float *restrict w, float *restrict y) {
-  for (int32_t i = 0; i < 64; i += 8) {
-    v8f sum = {0};
+  for (int32_t i = 0; i < 64; ++i) {
+    float sum = 0.0f;
     for (int32_t k = 0; k < 128 && x[k] > -1; ++k) sum += x[k] * w[k * 64 + i];
   }
 }"""


@dataclass(frozen=True)
class SampleNight:
    """Size of a sample farm, its nights, and what the last one finds."""

    models: int
    boards: int
    nights: int
    red: bool = False
    lost: bool = False


NIGHTS = {
    "year": SampleNight(20, 10, 365, red=True),
    "year-of-a-shelf": SampleNight(6, 4, 365, red=True),
    "first": SampleNight(3, 2, 1),
    "quiet": SampleNight(3, 3, 30),
    "red": SampleNight(3, 3, 90, red=True),
    "without-boards": SampleNight(3, 2, 5, lost=True),
    "no-cells": SampleNight(0, 0, 1),
}


@contextmanager
def sample(name: str, path: Path) -> Iterator[tuple[Any, NightStore]]:
    """Fill a database at `path` with the nights called `name`; give a farm's name and the store."""
    size = NIGHTS[name]
    random = np.random.default_rng(sum(map(ord, name)))
    models = ["keyword_spotter", "person_detector", "anomaly", *(f"net_{i:02}" for i in range(size.models))]
    cells = [
        Cell(model, f"shelf-{b + 1}", "rpi4" if b % 2 == 0 else "qemu-aarch64", searches=b < 2, settings="s")
        for model in models[: size.models]
        for b in range(size.boards)
    ]
    with NightStore.open(path, create=True) as store:
        for index in range(size.nights):
            _night(store, size, cells, index, random)
        if size.red:
            _accept(store, cells[0])
        yield SimpleNamespace(name="shelf", content=SimpleNamespace(timezone="Europe/Berlin")), store


def _night(store: NightStore, size: SampleNight, cells: list[Cell], index: int, random: np.random.Generator) -> None:
    date = np.datetime64("2025-11-24") + index
    facts = {"farm": "shelf", "night": str(date), "ends_utc": None, "host": "farm-host", "tool_version": "1.0"}
    night = store.begin({**facts, "owner": "The firmware team", "limit": 0.02}, cells)
    if night is None:
        raise ValueError(f"the farm has a night of {date} already")
    rows = store.cells(night)
    found = [(row, _verdict(size, number, row.cell, index, random)) for number, row in enumerate(rows)]
    if index == size.nights - 1:
        for row, verdict in found:
            store.end_attempt(row.id, store.start_attempt(row.id, "farm-host"), "exit 0")
            store.judge(row.id, 1, verdict)
    elif found:  # a year has 73,000 verdicts: a transaction each takes minutes
        with store.database.writing() as connection:
            connection.execute(insert(verdicts), [_row(row.id, verdict) for row, verdict in found])
    store.finish(night)


def _row(number: int, verdict: Verdict) -> dict[str, object]:
    columns = {"verdict": verdict.verdict, "reason": verdict.reason, "package": verdict.package}
    facts = json.dumps(verdict.facts, sort_keys=True)
    return {**columns, "night_cell_id": number, "attempt": 0, "facts": facts, "utc": "2025-11-24T23:00:00Z"}


def _accept(store: NightStore, cell: Cell) -> None:
    """Somebody accepted the package that all nights of a cell were compared with."""
    values = {"farm": "shelf", "cell": cell.name, "settings": cell.settings, "night": "2025-11-24"}
    store.accept({**values, "package": "0" * 64, "facts": {}, "by": "kim", "because": "-O2 <is meant> & tested"})


def _verdict(size: SampleNight, number: int, cell: Cell, index: int, random: np.random.Generator) -> Verdict:
    left = size.nights - 1 - index
    health = _health(size, cell.board, cell.kind, left, int(cell.board.rpartition("-")[2]) + index)
    if size.lost and cell.board == "shelf-1":
        return Verdict("not measured", f"{INFRASTRUCTURE}board {cell.board} was lost 3 times: {_CHECK} {cell.board}")
    if health["fault"]:
        return Verdict("not measured", f"{INFRASTRUCTURE}{health['fault']}", facts={"health": health})
    if size.red and number % 40 == 2 and left < 3:
        return Verdict("not measured", _BUSY, facts={"health": health})
    counts = cell.kind.startswith("qemu")
    old = 1e5 * (1 + number % 7) * (10 if counts else 1)
    noise = 0.0 if counts else float(random.normal(0, 0.004))
    slow = size.red and number % 20 in (0, 4) and left < 1 + number % 3
    ratio = 1.0 + noise + (0.083 if slow else 0.0) - (0.061 if size.red and number % 20 == 5 and not left else 0.0)
    before = _SHARES * old
    after = before * (1 + noise)
    after[0] += (ratio - 1 - noise) * old
    layers = [
        {"name": name, "new": round(float(new), 1), "old": round(float(was), 1)}
        | (
            {"ratio": float(new / was), "low": float(new / was), "high": float(new / was), "word": "slower"}
            if slow and not i
            else {}
        )
        for i, (name, new, was) in enumerate(zip(_LAYERS, after, before, strict=True))
    ]
    word = "first" if index == 0 else "slower" if slow else "faster" if ratio < 0.97 else "same"
    found: dict[str, Any] = {"unit": "instructions" if counts else "ns", "new": round(old * ratio, 1), "layers": layers}
    found |= {"health": health, "program": f"{cell.model} {index}"}
    if index:
        low, high = (ratio, ratio) if counts else (ratio - 0.006, ratio + 0.006)
        found |= {"old": old, "ratio": ratio, "low": low, "high": high, "turns": 1 if counts else 8}
        found["accepted"] = {"night": "2025-11-24", "package": "0" * 64}
    if slow:
        found["cause"] = (
            "toolchain: the accepted C is +8.3 % by tonight's compiler and flags (cflags '-O3' became '-O1')"
        )
        found["diff"] = _DIFF
    if size.red and number == 7 and not left:
        found["worse"] = ["arena 20480 bytes instead of 16384"]
    return Verdict(word, "nothing to compare with yet" if word == "first" else "", facts=found)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _health(size: SampleNight, board: str, kind: str, left: int, seed: int) -> dict[str, Any]:
    """What the check of a board found: one has taken longer for twelve nights, another one fails."""
    counts = kind.startswith("qemu")
    noise = 0.0 if counts else float(np.random.default_rng(seed).normal(0, 0.004))
    drifted = 1.07 if size.red and board == "shelf-1" and left < 12 else 1.0
    costs = {CANARY: 42_000.0 * (1 + noise) * drifted, REFERENCE: 120_000.0 * (1 + noise)}
    fault = _THROTTLED if size.lost and board == "shelf-2" else ""
    ratios = {CANARY: drifted * (1 + noise), REFERENCE: 1 + noise}
    pinned = dict.fromkeys(costs, "1" * 64)
    unit = "instructions" if counts else "ns"
    return BoardHealth("2026", fault, unit, costs, pinned, ratios).to_json()
