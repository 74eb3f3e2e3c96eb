"""Snapshots of the records and branches of them: a search in a branch sees what its snapshot saw, and its own results.

A snapshot is a name and the newest record of its time. A record that is changed later is kept first as the newest
snapshot saw it (an image). What a branch stores is stored outside of it as well, for everybody else; the branch has an
image of its own of each record that it made, changed or took over.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    and_,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from edgetune.config.database_location import Branch
from edgetune.errors import DatabaseError
from edgetune.records.database import Database
from edgetune.records.record import Record, RecordKey, utc_now
from edgetune.records.run_log import merge_ends
from edgetune.records.schema import from_row, of_key, to_row
from edgetune.records.tables import IDENTITY, MEASURED, ends, images, records, snapshots

_SETTLED = ("ok", "wrong_result", "build_failed")
"""Statuses of records that a branch takes over.

Noise and crashes may have been the other search's bad luck, and what needed more scratch than that one allowed may fit
here; where it does not, building tells it again.
"""


def take_snapshot(database: Database, connection: Connection, name: str) -> None:
    """Take a snapshot of the records as they are now; it counts from the end of the transaction."""
    database.hold_records(connection)
    newest = select(func.coalesce(func.max(records.c.id), 0)).scalar_subquery()
    connection.execute(insert(snapshots).values(name=name, last_record=newest, utc=utc_now()))


def has_snapshot(connection: Connection, name: str) -> bool:
    """Whether there is a snapshot of that name."""
    return connection.execute(select(snapshots.c.id).where(snapshots.c.name == name)).first() is not None


def drop_snapshots(connection: Connection, names: Collection[str]) -> None:
    """Forget snapshots and their branches; what branches stored stays stored for everybody."""
    numbers = list(connection.scalars(select(snapshots.c.id).where(snapshots.c.name.in_(names))))
    connection.execute(delete(images).where(images.c.snapshot_id.in_(numbers), images.c.branch != ""))
    merge_ends(connection, or_(false(), *(ends.c.branch.startswith(_prefix(number)) for number in numbers)))
    connection.execute(delete(snapshots).where(snapshots.c.id.in_(numbers)))
    # An older snapshot reads the images of a newer one, also of one that is gone.
    connection.execute(delete(images).where(~exists().where(snapshots.c.id <= images.c.snapshot_id)))


def _prefix(number: int) -> str:
    return f"{number} "


@dataclass(frozen=True)
class OpenBranch:
    """A branch whose snapshot was found: ids are those of the database."""

    name: str
    boards: tuple[str, ...]
    snapshot_id: int
    last_record: int
    taken_utc: str

    @classmethod
    def find(cls, connection: Connection, branch: Branch) -> OpenBranch:
        """Raises DatabaseError where there is no such snapshot."""
        row = connection.execute(select(snapshots).where(snapshots.c.name == branch.snapshot)).one_or_none()
        if row is None:
            raise DatabaseError(f"the database has no snapshot '{branch.snapshot}' any more: begin another night")
        return cls(branch.name, branch.boards, row.id, row.last_record, row.utc)

    @property
    def ending(self) -> str:
        """What stands in `ends.branch` for runs in this branch."""
        return f"{_prefix(self.snapshot_id)}{self.name}"

    @property
    def ended_before(self) -> ColumnElement[bool]:
        """The condition of ends that the branch sees."""
        before = and_(ends.c.branch == "", ends.c.utc <= self.taken_utc)
        return or_(ends.c.branch == self.ending, before)

    def rows(self) -> FromClause:
        """The records that the branch sees, with the columns of `records`; ids are those of the records."""
        own, image, other = images.alias("own"), images.alias("image"), images.alias("other")
        # Of several images of a record, the branch sees its own, else the oldest that is not older than its snapshot.
        nearer = and_(other.c.branch == "", other.c.snapshot_id >= self.snapshot_id)
        kept = [
            image.c.branch == "",
            image.c.snapshot_id >= self.snapshot_id,
            image.c.record_id <= self.last_record,
            ~exists().where(other.c.record_id == image.c.record_id, self._mine(other)),
            ~exists().where(other.c.record_id == image.c.record_id, nearer, other.c.snapshot_id < image.c.snapshot_id),
        ]
        unchanged = [
            records.c.id <= self.last_record,
            ~exists().where(other.c.record_id == records.c.id, self._mine(other)),
            ~exists().where(other.c.record_id == records.c.id, nearer),
        ]
        return union_all(
            select(own.c.record_id.label("id"), *(own.c[name] for name in MEASURED)).where(self._mine(own)),
            select(image.c.record_id.label("id"), *(image.c[name] for name in MEASURED)).where(*kept),
            select(records.c.id, *(records.c[name] for name in MEASURED)).where(*unchanged),
        ).subquery("seen")

    def find_same(self, connection: Connection, record: Record) -> Record | None:
        """The record of the same candidate under the same key that the branch sees, if there is one."""
        seen = self.rows()
        same = and_(*(seen.c[name] == getattr(record, name) for name in IDENTITY))
        row = connection.execute(select(seen).where(same)).mappings().one_or_none()
        return None if row is None else from_row(row)

    def keep(self, connection: Connection, record: Record) -> None:
        """Make `record`, whose id is that of the stored one, what the branch sees of it."""
        own = and_(self._mine(images), images.c.record_id == record.id)
        if not connection.execute(update(images).where(own).values(to_row(record))).rowcount:
            mine = {"record_id": record.id, "branch": self.name, "snapshot_id": self.snapshot_id}
            connection.execute(insert(images).values({**mine, **to_row(record)}))

    def others(self, connection: Connection, key: RecordKey, candidate: str | None = None) -> list[Record]:
        """Records of this key, a candidate and the boards of the branch that it does not see, and may take over."""
        rows = self.rows()
        seen = select(rows.c.id).where(of_key(rows, key))
        own = and_(of_key(records, key), records.c.board.in_(self.boards), records.c.status.in_(_SETTLED))
        if candidate is not None:
            own = and_(own, records.c.candidate == candidate)
        found = connection.execute(select(records).where(own, records.c.id.not_in(seen)).order_by(records.c.id))
        return [from_row(row) for row in found.mappings()]

    def _mine(self, table: FromClause) -> ColumnElement[bool]:
        return and_(table.c.branch == self.name, table.c.snapshot_id == self.snapshot_id)
