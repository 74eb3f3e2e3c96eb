"""Measurements that survive: one SQLite file, keyed by workload, target, toolchain and codegen version.

What enters is a `Record` per candidate, measured or failed, and lines of other databases' exports; what
leaves are the fastest records of a key, counts for the budget, and JSONL. This package knows neither TVM
nor boards nor how a candidate is searched or timed; a trace is text to it.
"""

from edgetune.tuning.records.exchange import ImportCounts
from edgetune.tuning.records.record import STATUSES, Record, RecordKey, Status, utc_now
from edgetune.tuning.records.schema import SCHEMA_VERSION
from edgetune.tuning.records.store import RecordStore, Start

__all__ = [
    "SCHEMA_VERSION",
    "STATUSES",
    "ImportCounts",
    "Record",
    "RecordKey",
    "RecordStore",
    "Start",
    "Status",
    "utc_now",
]
