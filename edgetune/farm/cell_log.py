"""The log of a cell, which lies on the host that ran it: its lines as they come, or where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import select

from edgetune.config.host import host_name
from edgetune.errors import NightFault
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightCell, NightStore
from edgetune.farm.night_tables import attempts
from edgetune.farm.nights import cell_called
from edgetune.farm.run_cell import log_of

_FOLLOW_S = 0.5


def last_host(store: NightStore, row: NightCell) -> str:
    """The host of the last attempt at a cell, "" where nobody has tried it."""
    last = select(attempts.c.host).where(attempts.c.night_cell_id == row.id).order_by(attempts.c.number.desc()).limit(1)
    with store.database.reading() as connection:
        return str(connection.scalar(last) or "")


def lines_of_log(farm: Farm, store: NightStore, night: Night, cell: str, *, follow: bool) -> Iterator[str]:
    """Yield the lines of the log of a cell in a night; with `follow`, wait for more until the cell has a verdict.

    Raises UsageError for an unknown cell, NightFault where this host has no log of it, or only that of an earlier
    attempt.
    """
    begun = b""
    for part in _parts_of_log(farm, store, night, cell, follow=follow):
        *whole, begun = (begun + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if begun:
        yield begun.decode(errors="replace")


def _parts_of_log(farm: Farm, store: NightStore, night: Night, cell: str, *, follow: bool) -> Iterator[bytes]:
    position = 0
    while True:
        row = cell_called(store.cells(night), cell)
        file = log_of(farm, night.night, row.cell)
        there = file.exists()
        text = file.read_bytes()[position:] if there else b""
        position += len(text)
        if text:
            yield text
        judged, host = row.verdict is not None, last_host(store, row)
        if host and host != host_name():
            words = "this host has the log of an earlier attempt alone" if there else "this host has no log of it"
            raise NightFault(f"{cell} ran on host {host} in night {night.night}, {words}: type the command there")
        if judged and not there:
            raise NightFault(f"night {night.night} has no log of {cell}: {_why(host)}")
        if judged or not follow:
            if not there:
                raise NightFault(f"{cell} has not begun in night {night.night}: -f waits for it")
            return
        time.sleep(_FOLLOW_S)


def _why(host: str) -> str:
    return "it was deleted, as `edgetune nightly prune` does after a month" if host else "nobody tried it"
