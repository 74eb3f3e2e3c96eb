"""A candidate measured again: the new record takes the place of the old one and carries it along, samples and all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from edgetune.tuning.records.record import Record

EARLIER = "earlier"
"""Key in a record's environment: JSON text of what was measured before, a list of objects, oldest first."""

MOST_EARLIER = 12
"""How many earlier measurements a record carries; of more, the oldest is dropped."""

_KEPT = ("status", "reason", "created_utc", "median_ns", "ci_low_ns", "ci_high_ns", "samples_ns")


def followed(earlier: Record, record: Record) -> Record:
    """`record`, a new measurement of the candidate of `earlier`, with the place in the search of the earlier one."""
    facts = {name: value for name, value in earlier.to_dict().items() if name in _KEPT}
    facts["environment"] = {name: value for name, value in earlier.environment.items() if name != EARLIER}
    told = [*earlier_of(earlier), facts][-MOST_EARLIER:]
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return replace(
        record,
        id=earlier.id,
        seed=earlier.seed,
        round=earlier.round,
        trace=earlier.trace,
        environment={**record.environment, EARLIER: text},
    )


def earlier_of(record: Record) -> list[dict[str, Any]]:
    """What was measured of this candidate before, oldest first; an imported record may hold any text there."""
    return read_earlier(record.environment.get(EARLIER))


def read_earlier(text: object) -> list[dict[str, Any]]:
    """What the value of `EARLIER` in an environment tells; nothing where it is not ours."""
    try:
        told = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []


def statuses(record: Record) -> list[str]:
    """The status of every measurement of this candidate, oldest first."""
    return [*(str(item.get("status")) for item in earlier_of(record)), record.status]
