"""``edgetune records list|show|export|import|copy|prune|upgrade``: shows and manages the records database."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgetune.cli.options import DatabaseOption
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.config.database_location import DatabaseLocation
    from edgetune.records import RecordStore

F = TypeVar("F", bound=Callable[..., Any])

_STATUSES_HELP = "Only records of this status, such as ok."
# Columns of the table for people; --json has all fields.
_COLUMNS = (
    "id",
    "workload_name",
    "workload",
    "target",
    "board",
    "status",
    "median_ns",
    "environment",
    "toolchain",
    "created_utc",
    "reason",
)
_LAST = ("toolchain", "created_utc", "reason")
_SHORT_HASH = 10


@click.group("records")
def command() -> None:
    """List, show, export, import, copy and prune records of measurements; upgrade their database."""


_DB = click.option("--db", type=DatabaseOption(), help="Records database (default: .edgetune/records.db).")


def _known_status(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    from edgetune.records import STATUSES
    from edgetune.yaml_reader.nearest import nearest

    if value is not None and value not in STATUSES:
        raise click.BadParameter(f"unknown status '{value}': {nearest(value, STATUSES)}", ctx, param)
    return value


def _filters(function: F) -> F:
    for decorate in (
        click.option(
            "--min-trust", type=click.Choice(["A", "B", "C", "D"]), help="Only times of this grade or better."
        ),
        click.option("--status", callback=_known_status, help=_STATUSES_HELP),
        click.option("--board", help="Only records of this board."),
        click.option("--target", help="Only records of this target."),
        click.option("--workload", help="Only records of this kernel: its name, or the start of its hash."),
    ):
        function = decorate(function)
    return function


def _open(db: DatabaseLocation | None, *, create: bool = False) -> RecordStore:
    from edgetune.config.settings import resolve_db
    from edgetune.records import RecordStore

    return RecordStore.open(resolve_db(db, os.environ, Path.cwd()), create=create)


@command.command("list")
@_DB
@_filters
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest N.")
@output_options
def list_(output: Output, /, db: DatabaseLocation | None, limit: int | None, **filters: Any) -> None:
    """List records, oldest first."""
    from edgetune.config.settings import resolve_db
    from edgetune.records import RecordFilter
    from edgetune.records.database import database_exists

    location = resolve_db(db, os.environ, Path.cwd())
    rows: list[dict[str, Any]] = []
    exists = database_exists(location)
    if exists or db is not None:  # who names a file expects it there
        with _open(db) as store:
            rows = store.list(RecordFilter(**filters), limit)
    if not rows:
        _refuse_unknown(filters.get("target"))
    if not exists:
        output.note(f"{location} does not exist: there are no records yet")
    output.result(rows if output.as_json else [_row(row) for row in rows])
    output.note(f"{len(rows)} records")


def _refuse_unknown(target: str | None) -> None:
    """Refuse the name of a target that has neither a record nor a file: it is a typo."""
    from edgetune.target.target import target_names
    from edgetune.yaml_reader.nearest import nearest

    if target is not None and target not in (names := target_names()):
        raise click.UsageError(f"unknown target '{target}': {nearest(target, names)}")


@command.command("show")
@click.argument("record", metavar="ID", type=int)
@_DB
@output_options
def show(output: Output, /, record: int, db: DatabaseLocation | None) -> None:
    """Show one record in full: board, trust, samples, environment, schedule and earlier measurements."""
    with _open(db) as store:
        found = store.get(record)
        started = store.origins(found)
    shown = {"id": record, **dataclasses.asdict(found), "started": started}
    output.result(shown if output.as_json else _for_people(shown), title=f"record {record}")


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@_DB
@_filters
@output_options
def export(output: Output, /, file: Path, db: DatabaseLocation | None, **filters: Any) -> None:
    """Write records to FILE, one JSON object per line."""
    from edgetune.records import RecordFilter

    with _open(db) as store:
        count = store.export_jsonl(file, RecordFilter(**filters))
    if output.as_json:
        output.result({"exported": count, "file": file})
    else:
        output.line(f"exported {count} records to {file}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_DB
@output_options
def import_(output: Output, /, file: Path, db: DatabaseLocation | None) -> None:
    """Add the records of FILE, an export of this or another database; records that are already there are skipped."""
    from edgetune.errors import DatabaseError
    from edgetune.records.exchange import check_export

    check_export(file)  # no database is created for an import without records
    with _open(db, create=True) as store:
        counts = store.import_jsonl(file)
    taken = counts.to_dict()
    output.result(taken, title=f"import of {file}")
    if counts.refused:
        line, reason = counts.reasons[0]
        raise DatabaseError(
            f"{counts.refused} lines of {file} were refused, first line {line} ({reason}): correct or delete them"
        )


@command.command("copy")
@click.argument("source", metavar="FROM", type=DatabaseOption())
@click.argument("destination", metavar="TO", type=DatabaseOption())
@output_options
def copy(output: Output, /, source: DatabaseLocation, destination: DatabaseLocation) -> None:
    """Add the records of the database FROM to the database TO: files, or postgresql://USER@HOST/NAME.

    TO is created where it is missing; records that are already there are skipped.
    """
    from edgetune.records import RecordStore, exchange

    with (
        RecordStore.open(source, create=False) as read,
        RecordStore.open(destination) as written,
    ):
        counts = exchange.copy(read.database, written.database)
    output.result(counts.to_dict(), title=f"copy to {destination}")


@command.command("prune")
@_DB
@click.option("--keep-best", type=click.IntRange(min=0), help="Keep only the N fastest per kernel and board.")
@click.option(
    "--older-codegen/--all-codegen",
    default=True,
    help="Delete records of older code generators (default), or keep them.",
)
@click.option("--dry-run", is_flag=True, help="Count the records, but delete none.")
@output_options
def prune(
    output: Output, /, db: DatabaseLocation | None, *, keep_best: int | None, older_codegen: bool, dry_run: bool
) -> None:
    """Delete records that no package would use."""
    with _open(db) as store:
        kept = store.kept(keep_best, older_codegen) if keep_best else None
        count = store.prune(keep_best=keep_best, older_codegen=older_codegen, dry_run=dry_run)
    if output.as_json:
        counts = {"kernels": kept.kernels, "fastest": len(kept.fastest), "spare": len(kept.spare)} if kept else {}
        output.result({"pruned": count, "dry_run": dry_run, **counts})
        return
    left = ""
    if kept:
        left = f", and {'would keep' if dry_run else 'kept'} {len(kept.fastest)} of {kept.kernels} kernels"
        if kept.spare:
            left += f" and {len(kept.spare)} for settings that forbid the algorithm of the fastest (winograd, flash)"
    output.line(f"{'would prune' if dry_run else 'pruned'} {count} records{left}")


@command.command("upgrade")
@_DB
@output_options
def upgrade(output: Output, /, db: DatabaseLocation | None) -> None:
    """Bring the tables of a database that an older edgetune wrote to the present schema; nothing is lost.

    End what uses the database first. A killed upgrade leaves it as it was; the same command does it again.
    """
    from edgetune.config.settings import resolve_db
    from edgetune.records.upgrading import upgrade as upgrade_tables

    location = resolve_db(db, os.environ, Path.cwd())
    found = upgrade_tables(location)
    if output.as_json:
        output.result({"db": str(location), "before": found.before, "after": found.after})
    elif found.before == found.after:
        output.line(f"{location} has schema version {found.after} already")
    else:
        output.line(f"{location} has schema version {found.after} now; it had {found.before}")


def _row(row: dict[str, Any]) -> dict[str, object]:
    """Select and shorten the fields that fit in a table."""
    shown = {key: row[key] for key in _COLUMNS if key in row}
    if isinstance(shown.get("workload"), str):
        shown["workload"] = shown["workload"][:_SHORT_HASH]
    environment = shown.pop("environment", None) or {}
    cost = _cost(shown.pop("median_ns", None), environment.get("clock") == "instructions")
    rest = {key: shown.pop(key) for key in _LAST if key in shown}
    return {**shown, **cost, "trust": environment.get("trust"), **rest}


def _for_people(shown: dict[str, Any]) -> dict[str, object]:
    """Put a record's board, trust and cost first, and its earlier measurements last."""
    from edgetune.records.history import EARLIER

    environment = dict(shown.pop("environment"))
    grade, why = environment.pop("trust", None), environment.pop("trust_reason", None)
    counted = environment.pop("clock", None) == "instructions"
    earlier = environment.pop(EARLIER, None)
    first = {name: shown.pop(name) for name in ("id", "workload_name", "board", "status")}
    first |= {"trust": grade or "not graded", "trust_reason": why, **_cost(shown["median_ns"], counted)}
    return {**first, **shown, "environment": environment, "measured_before": _told(earlier)}


def _cost(median_ns: float | None, counted: bool) -> dict[str, object]:
    """The cost of a call in microseconds or, where the board counts them, instructions (stored as nanoseconds)."""
    if counted:
        return {"median_us": None, "instructions": None if median_ns is None else round(median_ns)}
    return {"median_us": None if median_ns is None else median_ns / 1000}


def _told(earlier: object) -> list[str]:
    """Format each earlier measurement of a candidate as one line."""
    from edgetune.records.history import read_earlier

    items = read_earlier(earlier)
    reasons = [f" ({item['reason']})" if item.get("reason") else "" for item in items]
    return [f"{i.get('created_utc')}: {i.get('status')}{reason}" for i, reason in zip(items, reasons, strict=True)]
