"""Pruning: selects the records that a prune deletes."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select

from edgetune.records.ranking import ranked
from edgetune.records.record import RecordKey
from edgetune.records.schema import of_forms, of_key, standings
from edgetune.records.tables import IDENTITY, records
from edgetune.schedule.algorithms.schedule_text import FORMS


def doomed_by(connection: Connection, keep_best: int | None, older_codegen: bool) -> ColumnElement[bool]:
    """The condition of the records to delete.

    All but the `keep_best` fastest of each key, board and algorithm, and with `older_codegen` those of older code
    generators.
    """
    terms: list[ColumnElement[bool]] = [records.c.id.is_(None)]
    if older_codegen:
        newest = select(func.max(records.c.codegen_version)).scalar_subquery()
        terms.append(records.c.codegen_version < newest)
    if keep_best is not None:
        keys = connection.execute(select(*(records.c[name] for name in IDENTITY[:-1])).distinct()).all()
        kept = [
            standing.id
            for key in keys
            for form in FORMS  # settings may forbid the fastest one
            for standing in ranked(
                standings(connection, records, and_(of_key(records, RecordKey(*key)), of_forms(records, [form])))
            )[:keep_best]
        ]
        # Written into the statement: engines limit the number of parameters.
        terms.append(records.c.id.not_in(bindparam("kept", kept, expanding=True, literal_execute=True)))
    return or_(*terms)
