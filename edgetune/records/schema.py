"""Rows of the records database: conversion between records and rows, conditions, and writes that keep images."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from edgetune.errors import DatabaseError
from edgetune.records.history import statuses
from edgetune.records.ranking import GRADES, Standing, ranked, read_environment, sweeps
from edgetune.records.record import FIELDS, Record, RecordKey, record_line
from edgetune.records.tables import IDENTITY, MEASURED, images, records, snapshots
from edgetune.schedule.algorithms.schedule_text import DIRECT, prefix_of, sets_of_algorithms

SHORTEST_PREFIX = 8
"""Least number of characters of a workload's hash that may stand for all of it."""

_JSON_COLUMNS = ("samples_ns", "environment")


def to_row(record: Record) -> dict[str, Any]:
    """The columns of a record, id excluded."""
    row = {name: getattr(record, name) for name in FIELDS if name != "id"}
    row["samples_ns"] = json.dumps(record.samples_ns, allow_nan=False)
    row["environment"] = json.dumps(record.environment, allow_nan=False, sort_keys=True)
    return row


def row_values(row: Mapping[str, Any] | RowMapping) -> dict[str, Any]:
    """A complete or partial row as plain JSON values."""
    return {name: json.loads(value) if name in _JSON_COLUMNS else value for name, value in dict(row).items()}


def from_row(row: RowMapping) -> Record:
    """The record of a complete row. Raises DatabaseError when edgetune did not write the row."""
    try:
        values = row_values(row)
        values["samples_ns"] = tuple(values["samples_ns"])
        return Record(**values)
    except (TypeError, ValueError) as error:
        raise DatabaseError(
            f"record {row['id']} was changed by another program ({error}): delete its row, or restore a copy"
        ) from error


def of_key(table: FromClause, key: RecordKey) -> ColumnElement[bool]:
    """The condition that a row of `table` belongs to `key`."""
    return and_(_but_for_version(table, key), table.c.codegen_version == key.codegen_version)


def of_older(table: FromClause, key: RecordKey) -> ColumnElement[bool]:
    """The condition that a row of `table` belongs to `key`, except for its code generator, which is an older one."""
    return and_(_but_for_version(table, key), table.c.codegen_version < key.codegen_version)


def _but_for_version(table: FromClause, key: RecordKey) -> ColumnElement[bool]:
    terms = [
        table.c.workload == key.workload,
        table.c.target_fingerprint == key.target_fingerprint,
        table.c.toolchain == key.toolchain,
    ]
    if key.board is not None:
        terms.append(table.c.board == key.board)
    return and_(*terms)


def of_forms(table: FromClause, forms: Collection[str]) -> ColumnElement[bool]:
    """The condition that a record's schedule is for one of the named algorithms; old records are direct."""
    terms = [table.c.trace.startswith(prefix_of(form), autoescape=True) for form in sorted(forms) if form != DIRECT]
    if DIRECT in forms:
        terms.append(not_(table.c.trace.startswith(prefix_of("").partition('""')[0], autoescape=True)))
    return or_(false(), *terms)


@dataclass(frozen=True)
class RecordFilter:
    """The filters that `list` and `export` share.

    `workload` is a name, a hash, or the first 8 or more characters of a hash. `min_trust` is the lowest grade that
    passes, A to D; a record without a grade has the lowest.
    """

    workload: str | None = None
    target: str | None = None
    status: str | None = None
    board: str | None = None
    min_trust: str | None = None

    def condition(self) -> ColumnElement[bool]:
        """The condition that a record passes the filters."""
        terms: list[ColumnElement[bool]] = [records.c.id.is_not(None)]
        if self.workload is not None:
            names = [records.c.workload_name == self.workload, records.c.workload == self.workload]
            if len(self.workload) >= SHORTEST_PREFIX:
                names.append(records.c.workload.startswith(self.workload, autoescape=True))
            terms.append(or_(*names))
        wanted = {"target": self.target, "status": self.status, "board": self.board}
        terms += [records.c[name] == value for name, value in wanted.items() if value is not None]
        if self.min_trust is not None and self.min_trust != GRADES[-1]:
            passing = GRADES[: GRADES.index(self.min_trust) + 1]
            # Quotation marks inside of a value are escaped, so this text is the key "trust" itself.
            texts = [json.dumps({"trust": grade})[1:-1] for grade in passing]
            terms.append(or_(*(records.c.environment.contains(text, autoescape=True) for text in texts)))
        return and_(*terms)


EVERY_RECORD = RecordFilter()


def insert_new(connection: Connection, record: Record) -> int | None:
    """Inserts the record and returns its id; changes nothing and returns None when its candidate is known."""
    return insert_unless_known(connection, records, to_row(record), "one_record_per_candidate")


def insert_unless_known(connection: Connection, table: Table, row: Mapping[str, Any], constraint: str) -> int | None:
    """Inserts a row and returns its id; changes nothing and returns None where `constraint` has one that is equal.

    `constraint` is the name of a UniqueConstraint of `table`. What breaks any other rule raises DatabaseError.
    """
    unique = next(rule for rule in table.constraints if rule.name == constraint)
    assert isinstance(unique, UniqueConstraint)  # noqa: S101 (the caller names one)
    statement = _INSERTS[connection.dialect.name](table).values(**row)
    statement = statement.on_conflict_do_nothing(index_elements=list(unique.columns))
    number = connection.execute(statement.returning(table.c.id)).scalar_one_or_none()
    return None if number is None else int(number)


_INSERTS: Mapping[str, Callable[[Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


def find_same(connection: Connection, record: Record) -> Record:
    """The stored record of the same candidate under the same key, which must exist."""
    found = find_earlier(connection, record)
    if found is None:
        raise DatabaseError(
            f"the record of candidate {record.candidate} was deleted in the meantime: run the same command again"
        )
    return found


def find_earlier(connection: Connection, record: Record) -> Record | None:
    """The stored record of the same candidate under the same key, if there is one; others wait to change it."""
    same = and_(*(records.c[name] == getattr(record, name) for name in IDENTITY))
    row = connection.execute(select(records).where(same).with_for_update()).mappings().one_or_none()
    return None if row is None else from_row(row)


def replace_same(connection: Connection, record: Record) -> bool:
    """Replaces the record of the same candidate and key by this one; returns whether there was one."""
    same = and_(*(records.c[name] == getattr(record, name) for name in IDENTITY))
    keep_images(connection, same)
    return connection.execute(update(records).where(same).values(to_row(record))).rowcount == 1


def keep_images(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Before records change or go, keep for the newest snapshot those that it sees and that did not change since."""
    newest = select(snapshots).order_by(snapshots.c.id.desc()).limit(1).subquery()
    columns = [records.c.id, literal(""), newest.c.id, *(records.c[name] for name in MEASURED)]
    seen = select(*columns).join(newest, records.c.id <= newest.c.last_record).where(condition)
    statement = _INSERTS[connection.dialect.name](images).from_select(
        ["record_id", "branch", "snapshot_id", *MEASURED], seen
    )
    connection.execute(statement.on_conflict_do_nothing())


def keep_better(connection: Connection, stored: Record, other: Record) -> bool:
    """Replaces `stored` by `other` when `other` has more evidence, or equal evidence earlier; returns whether it did.

    A comparison of finalists is the best evidence, then a longer history. Ties are decided by the time, the number of
    samples and finally the text of the record, so that two databases merged in either order agree.
    """
    if _precedence(other) >= _precedence(stored):
        return False
    keep_images(connection, records.c.id == stored.id)
    connection.execute(update(records).where(records.c.id == stored.id).values(to_row(other)))
    return True


def _precedence(record: Record) -> tuple[int, int, str, int, str]:
    return (
        -sweeps(record),
        -len(statuses(record)),
        record.created_utc,
        -len(record.samples_ns),
        record_line(record),
    )


def standings(connection: Connection, table: FromClause, condition: ColumnElement[bool]) -> list[Standing]:
    """The columns that ranking reads, for the correct records of `table` that meet the condition."""
    columns = [table.c[name] for name in Standing._fields]
    rows = connection.execute(select(*columns).where(condition, table.c.status == "ok")).all()
    return [Standing._make((*row[:-1], read_environment(row[-1]))) for row in rows]


def doomed_by(connection: Connection, keep_best: int | None, older_codegen: bool) -> ColumnElement[bool]:
    """The condition of the records to delete.

    All but those that `kept_by` names, and with `older_codegen` those of older code generators.
    """
    terms: list[ColumnElement[bool]] = [records.c.id.is_(None)]
    if older_codegen:
        terms.append(not_(_newest()))
    if keep_best is not None:
        kept = kept_by(connection, keep_best, older_codegen)
        # Written into the statement: engines limit the number of parameters.
        ids = sorted(kept.fastest | kept.spare)
        terms.append(records.c.id.not_in(bindparam("kept", ids, expanding=True, literal_execute=True)))
    return or_(*terms)


@dataclass(frozen=True)
class Kept:
    """Ids of records that a prune keeps: the `fastest` of each of `kernels` (on one board, by one compiler).

    The `spare` ones are the fastest of algorithms that settings may leave when they forbid the one of the fastest.
    """

    kernels: int
    fastest: frozenset[int]
    spare: frozenset[int]


def kept_by(connection: Connection, keep_best: int, older_codegen: bool) -> Kept:
    """The `keep_best` fastest correct records of each key, and of what settings may leave of its algorithms."""
    chosen = select(*(records.c[name] for name in IDENTITY[:-1])).distinct()
    keys = connection.execute(chosen.where(_newest()) if older_codegen else chosen).all()
    kernels, fastest, all_kept = 0, set[int](), set[int]()
    for key in keys:
        of_this = of_key(records, RecordKey(*key))
        for place, forms in enumerate(sets_of_algorithms()):
            best = ranked(standings(connection, records, and_(of_this, of_forms(records, forms))))[:keep_best]
            all_kept.update(standing.id for standing in best)
            if place == 0:
                fastest.update(standing.id for standing in best)
                kernels += bool(best)
    return Kept(kernels, frozenset(fastest), frozenset(all_kept - fastest))


def _newest() -> ColumnElement[bool]:
    return records.c.codegen_version == select(func.max(records.c.codegen_version)).scalar_subquery()
