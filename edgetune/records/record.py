"""`Record`: one measured candidate, and the checks that every record passes before it is stored.

`record_line` writes a record as one line of JSON. `parse_line` reads such a line and validates all of it.
`RecordStore.add` passes its record through both, so that every stored record can be exported and imported again.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from edgetune.schedule.algorithms.schedule_text import algorithm_of
from edgetune.yaml_reader.messages import complaint

MAX_LINE_BYTES = 4 << 20
"""Longest JSON line of one record, without the line end; longer ones are neither stored nor imported."""

MAX_REASON_CHARS = 4000

MAX_NAME_BYTES = 800
"""Longest name in UTF-8: an entry of PostgreSQL's index holds 2704 bytes, which are three names and two hashes."""

Status = Literal[
    "ok",
    "build_failed",
    "lower_failed",
    "crashed",
    "timeout",
    "wrong_result",
    "refused_noisy",
    "over_scratch",
]
STATUSES: tuple[str, ...] = get_args(Status)

_LARGEST = 2**63 - 1  # SQLite's integers
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _indexable(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise ValueError(f"has more than {MAX_NAME_BYTES} bytes in UTF-8, which no index of PostgreSQL holds")
    return name


Name = Annotated[
    str,
    Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"),
    AfterValidator(_indexable),
]
Count = Annotated[int, Field(ge=0, le=_LARGEST)]
Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Nanoseconds = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Fact = str | int | Annotated[float, Field(allow_inf_nan=False)] | bool | None


def utc_now() -> str:
    """The current time in the format of records: ``2025-01-31T12:00:00.000000Z``."""
    return _utc(datetime.now(UTC).isoformat())


def _utc(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("created_utc has no time zone")
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    except OverflowError as error:
        raise ValueError("created_utc is out of range") from error


@dataclass(frozen=True)
class RecordKey:
    """Identifies comparable measurements: same function, target, compiler with flags, and code generator.

    ``board=None`` stands for any board of that target; a search of a single board names it.
    """

    workload: str
    target_fingerprint: str
    toolchain: str
    codegen_version: int
    board: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """One candidate's measurement or failure. Times are nanoseconds per call, sizes bytes, durations seconds.

    ``candidate`` is the sha256 of the C text (of the trace, where lowering failed and there is no C text).
    ``median_ns``, ``ci_low_ns``, ``ci_high_ns`` and ``samples_ns`` are required when ``status`` is "ok"; the
    median lies within the samples. ``max_error`` is None where nothing was compared or the difference was
    not finite. ``created_utc`` takes any ISO time with a zone and keeps it in UTC. ``reason`` is cut to
    4000 characters, its control characters replaced. ``trace`` also names the algorithm, unless that is
    the direct one (`schedule_text`). ``id`` is 0 until the store assigns one.
    Raises ValueError where these rules are broken.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    workload: Hash
    workload_name: Name
    target: Name
    target_fingerprint: Name
    toolchain: Name
    codegen_version: Count
    board: Name
    candidate: Hash
    status: Status
    tool_version: Name
    trace: str = ""
    reason: str = ""
    samples_ns: tuple[Nanoseconds, ...] = ()
    median_ns: Nanoseconds | None = None
    ci_low_ns: Nanoseconds | None = None
    ci_high_ns: Nanoseconds | None = None
    max_error: Amount | None = None
    scratch_bytes: Count = 0
    code_bytes: Count = 0
    environment: dict[str, Fact] = field(default_factory=dict)
    seed: Count = 0
    round: Count = 0
    build_seconds: Amount = 0.0
    measure_seconds: Amount = 0.0
    created_utc: str = field(default_factory=utc_now)
    id: Count = 0

    def __post_init__(self) -> None:
        """Normalises free text, the error and the time, and checks that the times agree."""
        reason = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", self.reason)[:MAX_REASON_CHARS]
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "created_utc", _utc(self.created_utc))
        if self.max_error is not None and not math.isfinite(self.max_error):
            object.__setattr__(self, "max_error", None)
        if self.trace:
            from_json(self.trace)
        if self.status == "ok":
            self._check_times()

    def _check_times(self) -> None:
        median, low, high = self.median_ns, self.ci_low_ns, self.ci_high_ns
        if not self.samples_ns or median is None or low is None or high is None:
            raise ValueError("status ok needs samples_ns, median_ns, ci_low_ns and ci_high_ns")
        if not min(self.samples_ns) <= median <= max(self.samples_ns):
            raise ValueError("median_ns lies outside samples_ns")
        if low > high:
            raise ValueError("ci_low_ns is larger than ci_high_ns")

    @property
    def key(self) -> RecordKey:
        """The key under which this record is found, its board included."""
        return RecordKey(self.workload, self.target_fingerprint, self.toolchain, self.codegen_version, self.board)

    @property
    def form(self) -> str:
        """The algorithm of the kernel that was measured, "direct" for its function unchanged."""
        return algorithm_of(self.trace)

    def to_dict(self) -> dict[str, object]:
        """All fields as plain JSON values, in the order of the class."""
        values = asdict(self)
        values["samples_ns"] = [*self.samples_ns]
        return values


FIELDS: tuple[str, ...] = tuple(item.name for item in fields(Record))
_ADAPTER = TypeAdapter(Record)


def record_line(record: Record) -> str:
    """The record without its id as one line of JSON without line end; equal records give equal text.

    Raises TypeError or ValueError for a value that JSON does not have.
    """
    values = record.to_dict()
    del values["id"]
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def parse_line(line: bytes | str) -> Record:
    """The record of one line of JSON, id 0. Raises ValueError with a short reason for an invalid line."""
    data = line.encode("utf-8") if isinstance(line, str) else line
    if len(data) > MAX_LINE_BYTES:
        raise ValueError(f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        return replace(_ADAPTER.validate_json(data), id=0)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80]
        raise ValueError(f"{where!r} {complaint(first)}" if where else f"it {complaint(first)}") from error
