"""Measurement history: a new record of a candidate replaces the old one and keeps it as history, with its samples."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from edgetune.records.record import Record

EARLIER = "earlier"
"""Key in a record's environment: JSON text of its other measurements, a list of objects in chronological order."""

MOST_EARLIER = 12
"""How many earlier measurements a record keeps; beyond that the oldest is dropped."""

_KEPT = ("status", "reason", "created_utc", "median_ns", "ci_low_ns", "ci_high_ns", "samples_ns")


def measured_again(earlier: Record, record: Record) -> tuple[Record, Record]:
    """What is stored of a candidate whose record is `earlier` after `record`, and what its search learns from it.

    They differ where the new samples were refused and the earlier record is correct, which stays.
    """
    new = followed(earlier, record)
    kept = earlier.status == "ok" and record.status == "refused_noisy"
    return noted(earlier, record) if kept else new, new


def followed(earlier: Record, record: Record) -> Record:
    """`record`, a new measurement of the candidate of `earlier`, with the id, seed, round and trace of `earlier`."""
    text = _text([*earlier_of(earlier), _facts(earlier)])
    return replace(
        record,
        id=earlier.id,
        seed=earlier.seed,
        round=earlier.round,
        trace=earlier.trace,
        environment={**record.environment, EARLIER: text},
    )


def noted(earlier: Record, refused: Record) -> Record:
    """`earlier` unchanged, except for a note of a later measurement that was refused."""
    text = _text([*earlier_of(earlier), _facts(refused)])
    return replace(earlier, environment={**earlier.environment, EARLIER: text})


def earlier_of(record: Record) -> list[dict[str, Any]]:
    """The earlier measurements of this candidate, oldest first; an imported record may hold any text there."""
    return read_earlier(record.environment.get(EARLIER))


def read_earlier(text: object) -> list[dict[str, Any]]:
    """Parses the value of `EARLIER` in an environment; an empty list where edgetune did not write it."""
    try:
        told = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []


def _facts(record: Record) -> dict[str, Any]:
    facts = {name: value for name, value in record.to_dict().items() if name in _KEPT}
    facts["environment"] = {name: value for name, value in record.environment.items() if name != EARLIER}
    return facts


def _text(told: list[dict[str, Any]]) -> str:
    return json.dumps(told[-MOST_EARLIER:], sort_keys=True, separators=(",", ":"))


def statuses(record: Record) -> list[str]:
    """The status of every measurement of this candidate, oldest first."""
    return [*(str(item.get("status")) for item in earlier_of(record)), record.status]
