"""What ``edgetune nightly doctor`` finds: database, archive, noise, locks, drains, the age of the last night."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from edgetune.errors import DatabaseError, DiskFull, NightFault
from edgetune.farm.archive import has
from edgetune.farm.cells import cells_of
from edgetune.farm.drains import drains
from edgetune.farm.farm_file import Farm
from edgetune.farm.local_engine import lock_path
from edgetune.farm.night_store import NightStore
from edgetune.farm.noise import too_noisy
from edgetune.farm.open_nights import overdue
from edgetune.findings import Finding
from edgetune.pipeline.database import findings_of
from edgetune.records.database import database_exists

_MIB = 1 << 20
LEAST_FREE_BYTES = 1 << 30


def findings(farm: Farm, now: datetime) -> Iterator[Finding]:
    """Yield what is known of a farm; faults that keep a night from running are required."""
    yield Finding("farm file", True, f"{farm.path}: {len(cells_of(farm))} cells, engine {farm.content.engine}")
    for model, file in farm.models.items():
        if not file.is_file():
            said = f"{farm.place_of_model(model)}: 'models.{model}' names {file}, which is not a file"
            yield Finding("model", False, said, "put the model there, or correct the path; its cells are not measured")
    yield from findings_of(farm.db, written=True)
    try:
        yield from _nights(farm, now)
        yield from _archive(farm)
    except (DatabaseError, DiskFull, NightFault) as error:
        yield Finding("nights", False, error.message, "", True, error.exit_code)
    yield _lock(farm)


def _nights(farm: Farm, now: datetime) -> Iterator[Finding]:
    run = f"edgetune nightly run --now {farm.path}"
    if not database_exists(farm.db):
        yield Finding("last night", False, "no night has run yet", run, True, NightFault.exit_code)
        return
    with NightStore.open(farm.db, create=False) as store:
        past = store.nights(farm.name)
        late = overdue(past, now, farm.content.timezone)
        ended = "finished" if past and past[-1].finished_utc else "not finished"
        found = late or f"{len(past)} nights, the last one is {past[-1].night}, {ended}"
        yield Finding("last night", not late, found, run if late else "", True, NightFault.exit_code)
        rows = store.cells(past[-1]) if past and past[-1].finished_utc else []
        if rows and all(row.verdict and row.verdict.verdict == "not measured" for row in rows):
            found = f"night {past[-1].night} measured none of its {len(rows)} cells"
            yield Finding("verdicts", False, found, f"edgetune nightly status {farm.path} says why")
        for said in too_noisy(farm, store, [cell.board for cell in cells_of(farm)]):
            what, _, fix = said.partition(": ")
            yield Finding("limit", False, what, f"{fix} as 'limit' in {farm.path}")
        for name, found_drain in drains(store.database).items():
            yield Finding(
                "drain", False, found_drain.sentence(farm.content.timezone), f"edgetune nightly drain --off {name}"
            )


def _archive(farm: Farm) -> Iterator[Finding]:
    """What of the accepted packages is lost, the size of the archive and the space left on its disk."""
    accepted = _accepted(farm)
    if not farm.archive.is_dir():
        if not accepted:
            yield Finding("archive", True, f"{farm.archive} is not there yet: the first night makes it")
            return
        said = f"{farm.archive} is not there, nor the accepted package of {', '.join(accepted)}"
        fix = f"mount it, restore a copy, or correct 'archive' in {farm.path}: until then nothing is compared"
        yield Finding("archive", False, said, fix, True, NightFault.exit_code)
        return
    if lost := [cell for cell, package in accepted.items() if not has(farm.archive, package)]:
        said = f"{farm.archive} has lost the accepted package of {', '.join(lost)}, or it is damaged"
        fix = "restore a copy; without it the next package of such a cell is *first*, however slow it is"
        yield Finding("accepted packages", False, said, fix, True, NightFault.exit_code)
    if not os.access(farm.archive, os.W_OK | os.X_OK):
        fix = f"make {farm.archive} writable, or give another 'archive' in the farm file"
        yield Finding("archive", False, f"{farm.archive} cannot be written", fix, True, NightFault.exit_code)
        return
    sizes = [path.stat().st_size for path in farm.archive.rglob("*.tar")]
    free = shutil.disk_usage(farm.archive).free
    enough = free >= max(LEAST_FREE_BYTES, sum(sizes) // 10)
    words = f"{len(sizes)} packages, {sum(sizes) / _MIB:.1f} MiB, {free / _MIB:.0f} MiB free in {farm.archive}"
    fix = f"free some on its disk, or move it to a larger one and name that as 'archive' in {farm.path}"
    yield Finding("archive", enough, words, "" if enough else f"{fix}: every package in it is kept for ever")


def _accepted(farm: Farm) -> dict[str, str]:
    """The package that the next night compares each cell with, by its name."""
    if not database_exists(farm.db):
        return {}
    with NightStore.open(farm.db, create=False) as store:
        cells = cells_of(farm) if store.nights(farm.name) else []
        found = {cell.name: store.accepted(farm.name, cell) for cell in cells}
    return {cell: one.package for cell, one in found.items() if one is not None}


def _lock(farm: Farm) -> Finding:
    """Who holds the lock of the farm on this host; read from /proc, so that nobody is kept out meanwhile."""
    path = lock_path(farm)
    if not path.exists():
        return Finding("lock", True, "no `edgetune nightly run` has worked on this host")
    inode = path.stat().st_ino
    held = [line.split()[4] for line in Path("/proc/locks").read_text().splitlines() if f":{inode} " in line]
    return Finding("lock", True, f"process {held[0]} runs a night" if held else "nobody runs a night on this host")
