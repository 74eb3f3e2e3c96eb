"""The snapshot of the records that a night reads: taken when it begins, kept until its farm begins the next one."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from edgetune.errors import NightFault
from edgetune.farm.night_tables import nights
from edgetune.records.branches import drop_snapshots, has_snapshot, take_snapshot
from edgetune.records.database import Database


def snapshot_name(farm: str, night: str) -> str:
    """Name of the snapshot of a night of a farm."""
    return f"night {night} of {farm}"


def begin_snapshot(database: Database, connection: Connection, farm: str, night: str) -> None:
    """Take the snapshot of a night that begins now, and forget those of the farm's earlier nights."""
    database.hold_records(connection)  # before the first change: two farms may begin at once
    earlier = connection.scalars(select(nights.c.night).where(nights.c.farm == farm)).all()
    drop_snapshots(connection, [snapshot_name(farm, name) for name in earlier])
    take_snapshot(database, connection, snapshot_name(farm, night))


def need_snapshot(database: Database, connection: Connection, farm: str, night: str) -> None:
    """Make sure that a night has its snapshot.

    The last night of a farm that began before its database had snapshots gets one now: until then it read all records.
    Raises NightFault where a later night has begun.
    """
    name = snapshot_name(farm, night)
    if has_snapshot(connection, name):
        return
    newest = select(func.max(nights.c.id)).where(nights.c.farm == farm).scalar_subquery()
    last = connection.scalar(select(nights.c.night).where(nights.c.id == newest))
    if last != night:
        raise NightFault(
            f"night {night} cannot go on: what its searches read is not kept any more since night {last} began; "
            "measure the cell in that night, or begin another"
        )
    database.hold_records(connection)
    if not has_snapshot(connection, name):  # another host may have been faster
        take_snapshot(database, connection, name)
