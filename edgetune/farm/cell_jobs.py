"""Jobs of cells: the tables of procrastinate in the records database, and when a job goes back to its queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.schema import SchemaManager
from sqlalchemy import Connection, text

from edgetune.errors import DatabaseError
from edgetune.records.database import Database

_FIRST, _NEWEST = "procrastinate_jobs", "procrastinate_retry_job_v2"
"""A table of every version, and what the oldest version that works here added."""


BEHIND = 10_000
"""How far the priority of a job falls that goes back: behind all others of its board."""


AT_ONCE = datetime(2000, 1, 1, tzinfo=UTC)
"""When a job runs again that goes back: by the server's clock now, whatever the clock of this host says."""


class CellLeft(Exception):  # noqa: N818  it is no fault
    """A cell has no verdict: its job goes back behind the others of its board."""


class Behind(BaseRetryStrategy):
    """Tries again what was left, and nothing else: a cell that failed has a verdict."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return when and with which priority a job runs again; None where it does not."""
        if not isinstance(exception, CellLeft):
            return None
        return RetryDecision(retry_at=AT_ONCE, priority=job.priority - BEHIND)


def prepare(database: Database) -> None:
    """Make the tables unless they are there. Raises DatabaseError for those of a version that is too old."""
    with database.writing() as connection:
        database.hold_schema(connection)
        if connection.scalar(text("SELECT to_regclass(:name)"), {"name": _FIRST}) is None:
            driver(connection).execute(SchemaManager.get_schema())
        elif connection.scalar(text("SELECT to_regproc(:name)"), {"name": _NEWEST}) is None:
            raise DatabaseError(
                f"{database.location} has the tables of an older procrastinate: apply the migrations of version 3.10"
            )


def driver(connection: Connection) -> psycopg.Connection[Any]:
    """The driver's own connection, for statements in the same transaction."""
    found = connection.connection.driver_connection
    assert isinstance(found, psycopg.Connection)  # noqa: S101  SQLAlchemy's driver for postgresql+psycopg
    return found
