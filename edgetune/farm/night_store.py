"""`NightStore`: nights, cells, attempts, verdicts and accepted packages in the records database, their only truth."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, get_args

from sqlalchemy import Connection, RowMapping, Table, delete, insert, inspect, select, update

from edgetune.config.database_location import DatabaseLocation
from edgetune.errors import NightFault
from edgetune.farm.attempt_outcomes import leave_open_ones, outcome_of, superseded
from edgetune.farm.cell_settings import CellSettings, note_settings, noted_settings
from edgetune.farm.cells import Cell
from edgetune.farm.night_snapshots import begin_snapshot, need_snapshot, snapshot_name
from edgetune.farm.night_tables import accepted, attempts, night_cells, night_metadata, nights, verdicts
from edgetune.records.database import Database, open_database
from edgetune.records.record import utc_now
from edgetune.records.schema import insert_unless_known

VerdictWord = Literal["first", "same", "faster", "slower", "cannot tell", "not measured"]
VERDICTS: tuple[VerdictWord, ...] = get_args(VerdictWord)


@dataclass(frozen=True)
class Verdict:
    """What a night found out about a cell.

    `package` is the digest of tonight's package in the archive, "" where none is kept. `facts` are JSON values: costs,
    interval, layers, what is exact.
    """

    verdict: VerdictWord
    reason: str = ""
    package: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """The package that a cell is compared with: its digest in the archive, and who accepted it in which night."""

    package: str
    night: str
    by: str
    because: str
    utc: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class NightCell:
    """A cell in one night. `attempt` counts the processes that were started for it; the last is the present one."""

    id: int
    position: int
    cell: Cell
    attempt: int
    verdict: Verdict | None


@dataclass(frozen=True)
class Night:
    """One night of a farm. `night` is its date, with a number behind it where one was started by hand."""

    id: int
    farm: str
    night: str
    begun_utc: str
    ends_utc: str | None
    finished_utc: str | None
    host: str
    tool_version: str
    owner: str
    limit: float

    @property
    def snapshot(self) -> str:
        """Name of the snapshot of the records that was taken when the night began."""
        return snapshot_name(self.farm, self.night)


@dataclass(frozen=True)
class Minutes:
    """How long a cell took in all, and how long its package was compared with the accepted one."""

    all: float
    gate: float


NEVER = Minutes(0.0, 0.0)


@dataclass(frozen=True)
class CellStanding:
    """The number of the present attempt of a cell, and whether the cell has a verdict, and searches."""

    attempt: int
    judged: bool
    searches: bool


Also = Callable[[Connection, Sequence[tuple[int, Cell]]], None]
"""What an engine writes in the transaction that writes these cells (ids, cells) or forgets their verdicts."""


def _nothing(_: Connection, __: Sequence[tuple[int, Cell]]) -> None:
    """Write nothing more."""


class NightStore:
    """The nights of all farms in one database. Each process opens its own; threads may share it.

    Every method raises DatabaseError or DiskFull when the file cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, location: DatabaseLocation, *, create: bool) -> Self:
        """Open a records database, and create what it lacks if `create` is true."""
        store = cls(open_database(location, create=create))
        if create:
            with store._database.writing() as connection:
                store._database.hold_schema(connection)
                night_metadata.create_all(connection)
        return store

    @property
    def database(self) -> Database:
        """The connections, for what engines and drains keep in the same database."""
        return self._database

    def close(self) -> None:
        """Close the file; without it nothing is lost."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, facts: Mapping[str, Any], cells: Iterable[Cell], also: Also = _nothing) -> Night | None:
        """Write a new night with its cells in this order; `facts` are the columns of the night.

        Searches of the night read the records as they are now (`edgetune.records.branches`).
        None, and nothing written, where the farm has a night of that name: another host has just begun it.
        """
        with self._database.writing() as connection:
            row = {**facts, "begun_utc": utc_now()}
            number = insert_unless_known(connection, nights, row, "one_night_per_date")
            if number is None:
                return None
            night = _night(connection, number)
            begin_snapshot(self._database, connection, night.farm, night.night)
            chosen = list(cells)
            rows = [_columns(number, position, cell) for position, cell in enumerate(chosen)]
            all_rows = insert(night_cells).returning(night_cells.c.id, sort_by_parameter_order=True)
            written = connection.scalars(all_rows, rows).all() if rows else []
            begun_with = zip(written, [cell.begun_with for cell in chosen], strict=True)
            note_settings(connection, {row: settings for row, settings in begun_with if settings})
            also(connection, list(zip(written, chosen, strict=True)))
            return night

    def finish(self, night: Night) -> bool:
        """Note that the night is over; False, and nothing noted, where a cell has no verdict (any more)."""
        own = night_cells.c.night_id == night.id
        waiting = select(night_cells.c.id).where(own, night_cells.c.id.not_in(select(verdicts.c.night_cell_id)))
        with self._database.writing() as connection:
            _hold(connection, night)  # `rerun` holds it as well
            if connection.execute(waiting.limit(1)).first() is not None:
                return False
            connection.execute(update(nights).where(nights.c.id == night.id).values(finished_utc=utc_now()))
            return True

    def night(self, number: int) -> Night:
        """The night of that id as it is now. Raises NightFault where there is none."""
        with self._database.reading() as connection:
            return _night(connection, number)

    def nights(self, farm: str) -> list[Night]:
        """All nights of a farm, oldest first."""
        with self._database.reading() as connection:
            if not _has(connection, nights):
                return []
            rows = connection.execute(select(nights).where(nights.c.farm == farm).order_by(nights.c.id))
            return [Night(**row) for row in rows.mappings()]

    def cells(self, night: Night) -> list[NightCell]:
        """The cells of a night in the order of its plan."""
        with self._database.reading() as connection:
            chosen = select(night_cells).where(night_cells.c.night_id == night.id).order_by(night_cells.c.position)
            rows = connection.execute(chosen).mappings().all()
            found = select(verdicts).where(verdicts.c.night_cell_id.in_([row["id"] for row in rows]))
            judged = {row["night_cell_id"]: row for row in connection.execute(found).mappings()}
            begun_with = noted_settings(connection, [row["id"] for row in rows])
            return [_night_cell(row, judged.get(row["id"]), begun_with.get(row["id"])) for row in rows]

    def standings(self, night: Night) -> dict[int, CellStanding]:
        """How far each cell of a night is, by its id."""
        joined = (
            select(night_cells.c.id, night_cells.c.attempt, verdicts.c.id, night_cells.c.searches)
            .outerjoin(verdicts, verdicts.c.night_cell_id == night_cells.c.id)
            .where(night_cells.c.night_id == night.id)
        )
        with self._database.reading() as connection:
            rows = connection.execute(joined).all()
        return {row[0]: CellStanding(row[1], row[2] is not None, bool(row[3])) for row in rows}

    def start_attempt(self, number: int, host: str) -> int:
        """Begin the next attempt of a cell, which ends the right of all earlier ones; return its number."""
        with self._database.writing() as connection:
            row = update(night_cells).where(night_cells.c.id == number).values(attempt=night_cells.c.attempt + 1)
            attempt = connection.execute(row.returning(night_cells.c.attempt)).scalar_one()
            values = {"night_cell_id": number, "number": attempt, "host": host, "pid": os.getpid(), "outcome": ""}
            leave_open_ones(connection, number, superseded(attempt, host))
            connection.execute(insert(attempts).values({**values, "begun_utc": utc_now()}))
            return int(attempt)

    def end_attempt(self, number: int, attempt: int, seen: str) -> None:
        """Note how an attempt ended; `seen` is what its host saw, see `outcome_of`."""
        with self._database.writing() as connection:
            row = update(attempts).where(attempts.c.night_cell_id == number, attempts.c.number == attempt)
            outcome = outcome_of(connection, number, attempt, seen)
            connection.execute(row.values(ended_utc=utc_now(), outcome=outcome))

    def judge(self, number: int, attempt: int, verdict: Verdict, accept: Mapping[str, Any] | None = None) -> bool:
        """Write the verdict of a cell; False, and nothing written, if `attempt` is not the present one or there is one.

        `accept` holds the columns of an accepted package that is written in the same transaction.
        """
        with self._database.writing() as connection:
            if not _judge(connection, number, attempt, verdict):
                return False
            if accept is not None:
                connection.execute(insert(accepted).values(_acceptance(accept)))
            return True

    def is_present(self, number: int, attempt: int) -> bool:
        """Whether `attempt` is the present one of a cell without a verdict."""
        with self._database.reading() as connection:
            present = connection.scalar(select(night_cells.c.attempt).where(night_cells.c.id == number))
            return present == attempt and not _judged(connection, number)

    def rerun(self, night: Night, number: int, also: Also = _nothing) -> None:
        """Forget the verdict of a cell, so that it is measured again in this night.

        A window that is over does not cut it off; one that is open ends the night as before. Raises NightFault, and
        forgets nothing, where the night cannot go on.
        """
        with self._database.writing() as connection:
            _hold(connection, night)
            need_snapshot(self._database, connection, night.farm, night.night)
            connection.execute(delete(verdicts).where(verdicts.c.night_cell_id == number))
            changed: dict[str, str | None] = {"finished_utc": None}
            if night.ends_utc and datetime.fromisoformat(night.ends_utc) <= datetime.now(UTC):
                changed["ends_utc"] = None
            connection.execute(update(nights).where(nights.c.id == night.id).values(changed))
            row = connection.execute(select(night_cells).where(night_cells.c.id == number)).mappings().one()
            also(connection, [(number, _night_cell(row, None, None).cell)])

    def need_snapshot(self, night: Night) -> None:
        """Make sure that searches of a night have the records that they read. Raises NightFault."""
        with self._database.writing() as connection:
            need_snapshot(self._database, connection, night.farm, night.night)

    def cancel(self, number: int, reason: str) -> bool:
        """Give a cell the verdict "not measured" for `reason`; its running attempt loses its right at once.

        False where it has a verdict already.
        """
        row = update(night_cells).where(night_cells.c.id == number).values(attempt=night_cells.c.attempt + 1)
        with self._database.writing() as connection:
            connection.execute(select(night_cells.c.id).where(night_cells.c.id == number).with_for_update())
            if _judged(connection, number):
                return False
            attempt = connection.execute(row.returning(night_cells.c.attempt)).scalar_one()
            leave_open_ones(connection, number, reason)
            return _judge(connection, number, attempt, Verdict("not measured", reason))

    def accept(self, values: Mapping[str, Any]) -> None:
        """Write an accepted package."""
        with self._database.writing() as connection:
            connection.execute(insert(accepted).values(_acceptance(values)))

    def accepted(self, farm: str, cell: Cell, interface: object = None) -> Accepted | None:
        """The package that a cell is compared with, if there is one for its present settings.

        It is the newest one, that of the same `interface` before others.
        """
        own = (accepted.c.farm == farm, accepted.c.cell == cell.name, accepted.c.settings == cell.settings)
        keys = ("package", "night", "by", "because", "utc")
        with self._database.reading() as connection:
            rows = connection.execute(select(accepted).where(*own).order_by(accepted.c.id.desc())).mappings()
            found = [Accepted(**{key: row[key] for key in keys}, facts=json.loads(row["facts"])) for row in rows]
        alike = (one for one in found if interface is not None and one.facts.get("interface") == interface)
        return next(alike, found[0] if found else None)

    def spent(self, night: Night) -> dict[int, float]:
        """Minutes that the attempts of each cell took in a night, by the cell's number, where one has ended."""
        chosen = select(attempts.c.night_cell_id, attempts.c.begun_utc, attempts.c.ended_utc)
        joined = chosen.join(night_cells, night_cells.c.id == attempts.c.night_cell_id)
        ended_ones = joined.where(night_cells.c.night_id == night.id, attempts.c.ended_utc.is_not(None))
        spans: dict[int, float] = {}
        with self._database.reading() as connection:
            for number, begun, ended in connection.execute(ended_ones):
                span = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
                spans[number] = spans.get(number, 0.0) + span / timedelta(minutes=1)
        return spans

    def minutes(self, farm: str, cell: str = "") -> dict[str, Minutes]:
        """How long each cell, or that one, took in the last night in which it got a verdict, by its name."""
        own = (nights.c.farm == farm, *([night_cells.c.cell == cell] if cell else []))
        joined = (
            select(night_cells.c.cell, attempts.c.begun_utc, attempts.c.ended_utc, verdicts.c.facts)
            .join(nights, nights.c.id == night_cells.c.night_id)
            .join(verdicts, verdicts.c.night_cell_id == night_cells.c.id)
            .join(
                attempts,
                (attempts.c.night_cell_id == night_cells.c.id) & (attempts.c.number == verdicts.c.attempt),
            )
            .where(*own, attempts.c.ended_utc.is_not(None), verdicts.c.verdict != "not measured")
            .order_by(nights.c.id)
        )
        with self._database.reading() as connection:
            if not _has(connection, nights):
                return {}
            rows = connection.execute(joined).all()
        found = {}
        for name, begun, ended, facts in rows:
            took = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)) / timedelta(minutes=1)
            found[name] = Minutes(took, min(took, json.loads(facts).get("gate_minutes", 0.0)))
        return found


def _hold(connection: Connection, night: Night) -> None:
    """Until the end of the transaction, let nobody else finish or reopen a night."""
    connection.execute(select(nights.c.id).where(nights.c.id == night.id).with_for_update())


def _has(connection: Connection, table: Table) -> bool:
    return inspect(connection).has_table(table.name)


def _night(connection: Connection, number: int) -> Night:
    row = connection.execute(select(nights).where(nights.c.id == number)).mappings().one_or_none()
    if row is None:
        raise NightFault(f"night {number} was deleted from the database in the meantime: start another")
    return Night(**row)


def _night_cell(row: RowMapping, judged: RowMapping | None, begun_with: CellSettings | None) -> NightCell:
    cell = Cell(row["model"], row["board"], row["kind"], bool(row["searches"]), row["settings"], begun_with)
    verdict = None
    if judged is not None:
        facts = json.loads(judged["facts"])
        verdict = Verdict(judged["verdict"], judged["reason"], judged["package"], facts)
    return NightCell(row["id"], row["position"], cell, row["attempt"], verdict)


def _judged(connection: Connection, number: int) -> bool:
    return connection.scalar(select(verdicts.c.id).where(verdicts.c.night_cell_id == number)) is not None


def _judge(connection: Connection, number: int, attempt: int, verdict: Verdict) -> bool:
    present = connection.scalar(select(night_cells.c.attempt).where(night_cells.c.id == number).with_for_update())
    if present != attempt or _judged(connection, number):
        return False
    facts = json.dumps(verdict.facts, sort_keys=True, allow_nan=False)
    values = {"verdict": verdict.verdict, "reason": verdict.reason, "package": verdict.package, "facts": facts}
    row = {"night_cell_id": number, "attempt": attempt, "utc": utc_now(), **values}
    connection.execute(insert(verdicts).values(row))
    return True


def _columns(night: int, position: int, cell: Cell) -> dict[str, object]:
    """Columns of a cell that no attempt has begun."""
    own = {"cell": cell.name, "model": cell.model, "board": cell.board, "kind": cell.kind, "settings": cell.settings}
    return {"night_id": night, "position": position, "attempt": 0, "searches": int(cell.searches), **own}


def _acceptance(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, "facts": json.dumps(values["facts"], sort_keys=True, allow_nan=False), "utc": utc_now()}
