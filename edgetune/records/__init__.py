"""Records: measurements that survive, in SQLite or PostgreSQL, keyed by workload, target and toolchain.

The input is a `Record` per candidate, measured or failed, and lines of other databases' exports. The
output is the fastest records of a key, counts for the budget, and JSONL. This package depends neither on TVM
nor on boards, nor on how candidates are searched or timed; it treats a trace as text.
"""

from edgetune.records.exchange import ImportCounts
from edgetune.records.record import STATUSES, Record, RecordKey, Status, utc_now
from edgetune.records.schema import RecordFilter
from edgetune.records.store import RecordStore
from edgetune.records.tables import SCHEMA_VERSION

__all__ = [
    "SCHEMA_VERSION",
    "STATUSES",
    "ImportCounts",
    "Record",
    "RecordFilter",
    "RecordKey",
    "RecordStore",
    "Status",
    "utc_now",
]
