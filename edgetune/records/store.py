"""`RecordStore`: the interface of the search, the packages and the command line to the records database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from sqlalchemy import Connection, FromClause, Select, and_, delete, func, select

from edgetune.config.database_location import Branch, DatabaseLocation, DatabaseUrl, as_location
from edgetune.errors import DatabaseError
from edgetune.records import exchange
from edgetune.records.branches import OpenBranch
from edgetune.records.database import Database, open_database
from edgetune.records.history import measured_again
from edgetune.records.ranking import GRADES, passes, ranked
from edgetune.records.record import Record, RecordKey, parse_line, record_line
from edgetune.records.run_log import forget_starts, in_order, last_end, log_end, log_start, origins_of
from edgetune.records.schema import (
    EVERY_RECORD,
    Kept,
    RecordFilter,
    doomed_by,
    find_earlier,
    find_same,
    from_row,
    insert_new,
    keep_images,
    kept_by,
    of_forms,
    of_key,
    of_older,
    replace_same,
    row_values,
    standings,
)
from edgetune.records.tables import records

if TYPE_CHECKING:
    from _typeshed import StrPath

# `list` is a method below, and would shadow the type in annotations of the class.
RecordList: TypeAlias = list[Record]
RowList: TypeAlias = list[dict[str, Any]]


class RecordStore:
    """All measurements of one database, each durable before the call that adds it returns.

    Several processes may use one database at once, each with a store of its own; threads may share a store.
    In a `branch`, the methods that a search and a package use read what the branch sees, and write to both.
    Every method raises DatabaseError or DiskFull when the database cannot be read or written.
    """

    def __init__(self, database: Database, branch: Branch | None = None) -> None:
        self._database = database
        self.branch = branch
        self._seen: FromClause = records
        self._opened: OpenBranch | None = None
        if branch is not None:
            with database.reading() as connection:
                self._opened = OpenBranch.find(connection, branch)
            self._seen = self._opened.rows()

    @classmethod
    def open(cls, location: StrPath | DatabaseUrl, create: bool = True, branch: Branch | None = None) -> RecordStore:
        """Opens a file or the database of a URL; creates what is missing when `create` is true.

        Raises UsageError for a URL of another kind, and DatabaseError for a database that is not edgetune's, is
        damaged, has another schema, or lacks the snapshot of `branch`.
        """
        database = open_database(as_location(location), create=create)
        try:
            return cls(database, branch)
        except BaseException:
            database.close()
            raise

    @property
    def location(self) -> DatabaseLocation:
        """The database file, symbolic links resolved, or the URL."""
        return self._database.location

    @property
    def database(self) -> Database:
        """The connections, for tables of other rooms in the same database."""
        return self._database

    def close(self) -> None:
        """Closes the database; without it nothing is lost."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, record: Record) -> int:
        """Stores the record durably and returns its id; the id of the stored one if its candidate is known.

        Raises DatabaseError when a field breaks the rules of `Record`.
        """
        return self.add_new(record)[0]

    def add_all(self, found: Iterable[Record]) -> None:
        """Stores all of the records or, after an error, none. Raises DatabaseError as `add` does."""
        checked = [_checked(record) for record in found]
        with self._database.writing() as connection:
            self._database.hold_records(connection)  # two that add the same in another order would wait for each other
            for record in checked:
                self._add(connection, record)

    def add_new(self, record: Record) -> tuple[int, bool]:
        """Stores the record as `add` does; returns its id, and whether it is an additional record."""
        checked = _checked(record)
        with self._database.changing_records() as connection:
            return self._add(connection, checked)

    def _add(self, connection: Connection, record: Record) -> tuple[int, bool]:
        number = insert_new(connection, record)
        stored = find_same(connection, record) if number is None else replace(record, id=number)
        if self._opened is None:
            return stored.id, number is not None
        if self._opened.find_same(connection, record) is not None:
            return stored.id, False
        if record.status == "ok" and stored.status != "ok":  # another search had no luck with it
            replace_same(connection, _checked(measured_again(stored, record)[0]))
        self._opened.keep(connection, replace(record, id=stored.id))
        return stored.id, True

    def add_again(self, record: Record) -> tuple[Record, bool]:
        """Stores a candidate measured again; returns the stored record, and whether it is an additional one.

        The new measurement replaces the earlier one of the same board, keeps its seed, round and trace,
        and includes it as history (`history.EARLIER`). Refused samples do not replace a correct record: they are noted
        in it. Raises DatabaseError when a field breaks the rules of `Record`.
        """
        with self._database.changing_records() as connection:
            earlier = find_earlier(connection, record)
            number = insert_new(connection, _checked(record)) if earlier is None else earlier.id
            if number is None:
                earlier = find_same(connection, record)  # another host was faster
                number = earlier.id
            if earlier is not None:
                replace_same(connection, _checked(measured_again(earlier, record)[0]))
            if self._opened is not None:
                earlier = self._opened.find_same(connection, record)
            if earlier is None:
                kept = told = _checked(record)
            else:
                kept, told = map(_checked, measured_again(earlier, record))
                number = earlier.id  # in a branch, that of a record which was pruned meanwhile
            if self._opened is not None:
                self._opened.keep(connection, replace(kept, id=number))
            return replace(told, id=number), earlier is None

    def take_over(self, key: RecordKey, candidate: str, change: Callable[[Record], Record]) -> Record | None:
        """Has the branch see the record of a candidate that another search made since the snapshot on its boards.

        Returns what `change` makes of it. None where there is no such record, the branch sees one, or there is no
        branch.
        """
        if self._opened is None:
            return None
        with self._database.changing_records() as connection:
            found = self._opened.others(connection, key, candidate)
            if not found or candidate in self._candidates(connection, key):
                return None
            self._opened.keep(connection, taken := change(found[0]))
            return taken

    def refine(self, record: Record, change: Callable[[Record], Record]) -> Record:
        """Replaces the stored record of the same candidate and key by what `change` makes of it; returns that.

        Other processes that change it wait, so that nothing they store is lost. Raises DatabaseError when there is no
        such record, or a field breaks the rules of `Record`.
        """
        with self._database.changing_records() as connection:
            found = find_earlier(connection, record)
            if found is not None:
                found = replace(_checked(change(found)), id=found.id)
                replace_same(connection, found)
            if self._opened is not None and (seen := self._opened.find_same(connection, record)) is not None:
                found = replace(_checked(change(seen)), id=seen.id)
                self._opened.keep(connection, found)
            if found is None:
                raise DatabaseError(f"{self.location} has no record of candidate {record.candidate}: add it first")
            return found

    def refine_all(self, key: RecordKey, change: Callable[[Record], Record]) -> None:
        """Replaces each record of this key by what `change` makes of it.

        Other processes that change one of them wait, so that nothing they store is lost. Raises DatabaseError as
        `refine` does.
        """
        query = select(records).where(of_key(records, key)).order_by(records.c.id).with_for_update()
        with self._database.changing_records() as connection:
            for stored in [from_row(row) for row in connection.execute(query).mappings().all()]:
                if (changed := change(stored)) != stored:
                    replace_same(connection, _checked(changed))
            if self._opened is None:
                return
            mine = select(self._seen).where(of_key(self._seen, key))
            for seen in [from_row(row) for row in connection.execute(mine).mappings().all()]:
                if (changed := change(seen)) != seen:
                    self._opened.keep(connection, replace(_checked(changed), id=seen.id))

    def seen(self, key: RecordKey, scratch_limit: int | None = None) -> set[str]:
        """All candidates with a record under this key, including failed ones.

        With `scratch_limit` (bytes), excludes those refused for their scratch that would fit now.
        """
        with self._database.reading() as connection:
            return self._candidates(connection, key, scratch_limit)

    def measured(self, key: RecordKey, scratch_limit: int) -> set[str]:
        """The candidates of `seen`, and in a branch those that it may take over (`take_over`) as well."""
        with self._database.reading() as connection:
            found = self._candidates(connection, key, scratch_limit)
            others = [] if self._opened is None else self._opened.others(connection, key)
        return found | {one.candidate for one in others if one.scratch_bytes <= scratch_limit}

    def _candidates(self, connection: Connection, key: RecordKey, scratch_limit: int | None = None) -> set[str]:
        columns = self._seen.c
        condition = of_key(self._seen, key)
        if scratch_limit is not None:
            fits = and_(columns.status == "over_scratch", columns.scratch_bytes <= scratch_limit)
            condition = and_(condition, ~fits)
        return set(connection.scalars(select(columns.candidate).where(condition)))

    def best(
        self,
        key: RecordKey,
        limit: int = 1,
        min_trust: str = GRADES[-1],
        scratch_limit: int | None = None,
        forms: Collection[str] | None = None,
    ) -> RecordList:
        """The fastest correct records of this key graded `min_trust` or better, as `ranking.ranked` orders them.

        With `scratch_limit`, only records that need at most that many bytes of scratch, even if others are faster;
        with `forms` (names), only schedules for these algorithms.
        """
        condition = of_key(self._seen, key)
        if forms is not None:
            condition = and_(condition, of_forms(self._seen, forms))
        if scratch_limit is not None:
            condition = and_(condition, self._seen.c.scratch_bytes <= scratch_limit)
        with self._database.reading() as connection:
            graded = [one for one in standings(connection, self._seen, condition) if passes(one, min_trust)]
            return _of_ids(connection, self._seen, [standing.id for standing in ranked(graded)[: max(limit, 0)]])

    def older(self, key: RecordKey, limit: int) -> RecordList:
        """The fastest correct records under this key but of older code generators, each candidate once."""
        with self._database.reading() as connection:
            fastest: dict[str, int] = {}
            for standing in ranked(standings(connection, self._seen, of_older(self._seen, key))):
                fastest.setdefault(standing.candidate, standing.id)
            return _of_ids(connection, self._seen, [*fastest.values()][: max(limit, 0)])

    def traces(self, workload: str) -> set[str]:
        """The schedules of all records of a workload, whatever their target and compiler."""
        with self._database.reading() as connection:
            return set(connection.scalars(select(records.c.trace).where(records.c.workload == workload).distinct()))

    def count(self, keys: Iterable[RecordKey]) -> int:
        """How many candidates have a record under any of the keys, failures included."""
        with self._database.reading() as connection:
            return sum(
                connection.execute(
                    select(func.count()).select_from(self._seen).where(of_key(self._seen, key))
                ).scalar_one()
                for key in set(keys)
            )

    def all(self, key: RecordKey) -> RecordList:
        """Every record of this key, in the order of arrival."""
        return self._load(select(self._seen).where(of_key(self._seen, key)).order_by(self._seen.c.id))

    def get(self, id: int) -> Record:  # noqa: A002 - the name of the field
        """The record of that id. Raises DatabaseError when there is none."""
        found = self._load(select(records).where(records.c.id == id)) if 0 < id < 2**63 else []
        if not found:
            raise DatabaseError(f"{self.location} has no record {id}: `edgetune records list` shows the ids")
        return found[0]

    def list(self, chosen: RecordFilter = EVERY_RECORD, limit: int | None = None) -> RowList:
        """The newest `limit` records that pass the filter, oldest first, as plain JSON values.

        All fields except the trace, which `get` returns.
        """
        columns = [column for column in records.c if column.name != "trace"]
        query = select(*columns).where(chosen.condition()).order_by(records.c.id.desc())
        if limit is not None:
            query = query.limit(max(limit, 0))
        with self._database.reading() as connection:
            rows = [row_values(row) for row in connection.execute(query).mappings()]
        rows.reverse()
        return rows

    def log_start(self, key: RecordKey, candidate: str) -> None:
        """Logs durably that the measurement of a candidate starts now, in this process, host and run."""
        with self._database.writing() as connection:
            log_start(connection, key, candidate)

    def origins(self, record: Record) -> RowList:
        """When, by which process, on which host and in which run each measurement of a record was started."""
        with self._database.reading() as connection:
            return origins_of(connection, record)

    def log_ends(self, keys: Iterable[RecordKey]) -> None:
        """Logs durably that a run over these keys ended now, neither killed nor interrupted."""
        with self._database.writing() as connection:
            for key in in_order(keys):
                log_end(connection, key, "" if self._opened is None else self._opened.ending)

    def last_end(self, key: RecordKey) -> str | None:
        """When the last run over this key ended, in UTC; None when none did."""
        with self._database.reading() as connection:
            return last_end(connection, key, None if self._opened is None else self._opened.ended_before)

    def prune(self, keep_best: int | None = None, older_codegen: bool = True, dry_run: bool = False) -> int:
        """Deletes records and their starts, frees the space, and returns the number of deleted records.

        `keep_best` keeps that many of the fastest correct records per key and board, and as many of what settings may
        leave of their algorithms (`kept`), and deletes all others, including failures; a later search measures these
        again when it proposes them. `older_codegen` deletes the
        records of every codegen version but the newest in the file. `dry_run` only counts.
        """
        if keep_best is not None and keep_best < 0:
            raise DatabaseError(f"cannot keep {keep_best} records: give 0 or more")
        if dry_run:
            with self._database.reading() as connection:
                doomed = doomed_by(connection, keep_best, older_codegen)
                return int(connection.execute(select(func.count()).where(doomed)).scalar_one())
        with self._database.writing() as connection:
            self._database.hold_records(connection)  # what is stored after the ranking below would be no kept record
            doomed = doomed_by(connection, keep_best, older_codegen)
            forget_starts(connection, doomed)
            keep_images(connection, doomed)
            return connection.execute(delete(records).where(doomed)).rowcount

    def kept(self, keep_best: int, older_codegen: bool = True) -> Kept:
        """The records that `prune` keeps with these arguments."""
        with self._database.reading() as connection:
            return kept_by(connection, keep_best, older_codegen)

    def export_jsonl(self, path: StrPath, chosen: RecordFilter = EVERY_RECORD) -> int:
        """Writes the records that pass the filter, one JSON line each, and returns their number.

        The same records give the same bytes, whatever their ids. Raises OutputRefused or DiskFull.
        """
        return exchange.export_jsonl(self._database, Path(path), chosen.condition())

    def import_jsonl(self, path: StrPath) -> exchange.ImportCounts:
        """Adds the records of an export; wrong lines are refused one by one. Raises DatabaseError."""
        return exchange.import_jsonl(self._database, Path(path))

    def _load(self, query: Select[Any]) -> RecordList:
        with self._database.reading() as connection:
            return [from_row(row) for row in connection.execute(query).mappings()]


def _checked(record: Record) -> Record:
    try:
        return parse_line(record_line(record))
    except (TypeError, ValueError) as error:
        raise DatabaseError(
            f"a record of {record.workload_name} cannot be stored ({error}): correct that field"
        ) from error


def _of_ids(connection: Connection, table: FromClause, ids: list[int]) -> list[Record]:
    """The records of `table` of these ids, in that order."""
    found = connection.execute(select(table).where(table.c.id.in_(ids))).mappings()
    loaded = {row["id"]: from_row(row) for row in found}
    return [loaded[number] for number in ids]
