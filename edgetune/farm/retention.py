"""Retention: samples and logs of nights are kept for a month; medians, intervals and the archive for ever."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import NightStore
from edgetune.farm.night_tables import night_cells, nights, verdicts

KEPT_DAYS = 31
SAMPLES = "starts"
"""The key of a verdict's facts with every start that the gate measured."""


@dataclass(frozen=True)
class Pruned:
    """Verdicts whose samples are old, folders with old logs, and the bytes of both."""

    verdicts: int
    folders: int
    bytes: int


def prune(farm: Farm, store: NightStore, now: datetime, *, dry_run: bool) -> Pruned:
    """Delete samples and logs of finished nights that began over a month before `now`; `dry_run` only counts.

    Raises DatabaseError and DiskFull.
    """
    before = now - timedelta(days=KEPT_DAYS)
    old = [
        night
        for night in store.nights(farm.name)
        if night.finished_utc and datetime.fromisoformat(night.begun_utc).astimezone(UTC) < before
    ]
    freed, changed = 0, 0
    with store.database.writing() as connection:
        chosen = (
            select(verdicts.c.id, verdicts.c.facts)
            .join(night_cells, night_cells.c.id == verdicts.c.night_cell_id)
            .join(nights, nights.c.id == night_cells.c.night_id)
            .where(nights.c.id.in_([night.id for night in old]))
        )
        for number, text in connection.execute(chosen).all():
            facts = json.loads(text)
            if SAMPLES not in facts:
                continue
            del facts[SAMPLES]
            shorter = json.dumps(facts, sort_keys=True, allow_nan=False)
            freed += len(text) - len(shorter)
            changed += 1
            if not dry_run:
                connection.execute(update(verdicts).where(verdicts.c.id == number).values(facts=shorter))
    folders = [folder for night in old if (folder := farm.folder / "work" / night.night).is_dir()]
    freed += sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    if not dry_run:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return Pruned(changed, len(folders), freed)
