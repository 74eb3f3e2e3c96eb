"""The seam between the loop and whatever measures: orders go in, one measurement each comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgetune.tuning.records import Record, RecordKey


@dataclass(frozen=True)
class Order:
    """A schedule to build and time: which kernel, and the JSON text of its trace.

    With `again`, its candidate has a record and is measured all the same.
    """

    workload: str
    trace: str
    again: bool = False


@dataclass(frozen=True)
class Measurement:
    """What became of an order.

    `record` is complete but for `seed` and `round`; None for a duplicate, whose C text equals that of `candidate`
    in the store, and for an order dropped by `cancel`. `seconds` has "lower", "compile" and "timing". `more` says
    whether the store holds one record more than before.
    """

    order: Order
    candidate: str | None
    record: Record | None
    seconds: Mapping[str, float] = field(default_factory=dict)
    more: bool = True


Starting = Callable[[RecordKey, str], None]
"""Called with key and candidate right before a candidate is run for the first time."""


class Measurer(Protocol):
    """Builds and times candidates of known kernels; used from one thread, `cancel` from any."""

    def key(self, workload: str) -> RecordKey:
        """The key under which measurements of a kernel are recorded."""
        ...

    def measure(
        self, orders: Sequence[Order], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[Measurement]:
        """Yield a measurement per order as it is ready, in any order; those not begun at a `cancel` are left out.

        `best_ns` is the best time known per workload: much slower candidates are timed briefly.
        """
        ...

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        """Time recorded candidates of one kernel anew, interleaved, `sweeps` times each; yield them with new samples.

        A candidate that crashes, hangs, gives a wrong result or can no longer be built is yielded with that status
        and without times. All others have equally many sweeps; after a `cancel` perhaps none, and are not yielded.
        """
        ...

    def summary(self) -> Mapping[str, object]:
        """Where the time went, as JSON values: "boards" by name, "bottleneck" in a phrase; after `close` as well."""
        ...

    def cancel(self) -> None:
        """End the `measure` or `time_again` now running, soon; no effect on later ones."""
        ...

    def close(self) -> None:
        """End all processes; from the thread that measured."""
        ...
