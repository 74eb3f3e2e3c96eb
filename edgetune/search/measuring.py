"""Measurer interface: takes measure requests from the tuning loop and returns one result per request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgetune.records import Record, RecordKey


@dataclass(frozen=True)
class MeasureRequest:
    """A schedule to build and time: the kernel's workload, and the JSON text of its trace.

    With `again`, the candidate is measured although it has a record.
    """

    workload: str
    trace: str
    again: bool = False


@dataclass(frozen=True)
class RequestResult:
    """Result of one measure request.

    `record` is complete except for `seed` and `round`. It is None for a duplicate, whose C text equals that of
    `candidate` in the store, and for a request dropped by `cancel`. `seconds` has "lower", "compile" and "timing".
    `more` says whether the store holds one record more than before.
    """

    order: MeasureRequest
    candidate: str | None
    record: Record | None
    seconds: Mapping[str, float] = field(default_factory=dict)
    more: bool = True


Starting = Callable[[RecordKey, str], None]
"""Called with key and candidate immediately before a candidate runs for the first time."""


class Measurer(Protocol):
    """Builds and times candidates of known kernels. One thread uses it; any thread may call `cancel`."""

    def key(self, workload: str) -> RecordKey:
        """The key under which measurements of a kernel are recorded."""

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        """Yield one result per request when it is ready, in any order; a `cancel` leaves out requests not begun.

        `best_ns` is the best known time per workload: much slower candidates are timed only briefly.
        """

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        """Time recorded candidates of one kernel anew, interleaved, `sweeps` times each; yield them with new samples.

        A candidate that crashes, hangs, gives a wrong result or can no longer be built is yielded with that status
        and without times. All others have equally many sweeps. After a `cancel` these may be zero; then they are not
        yielded.
        """

    def summary(self) -> Mapping[str, object]:
        """Time account as JSON values: "boards" by name, and "bottleneck", a phrase; also available after `close`."""

    def cancel(self) -> None:
        """End the current `measure` or `time_again` soon; later calls are not affected."""

    def close(self) -> None:
        """End all processes; call it from the thread that measured."""
