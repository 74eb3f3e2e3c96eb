"""Which record should be fastest in a package, where threads share kernels and weights may come from memory.

Records are timed on one thread, with their weights in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, prod
from typing import Any

from tvm import DataType

from edgetune.codegen.expected_time import expected_share
from edgetune.codegen.lower import flat
from edgetune.codegen.prefetching import ANNOTATION, asks_ahead
from edgetune.config.target import Target
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel, Program
from edgetune.tuning.forms.catalogue import form_named
from edgetune.tuning.forms.realise import realise
from edgetune.tuning.records import Record
from edgetune.tuning.records.ranking import for_package

_CLEARLY = 0.85
"""Share of the time alone below which a record need not have been timed in a package."""

_WAITED = 0.25
"""Share of the time that weights take from memory for which a kernel waits that asks for them one block ahead."""


def streams(program: Program, target: Target) -> bool:
    """Whether the second cache keeps no weights of `program` from one run to the next, which kernels can prepare for.

    Never where the caches are swept before each call anyway, and where no time is measured.
    """
    return program.constant_bytes > target.l2_bytes and target.caches == "warm" and not target.emulated


def expected_order(
    kernel: Kernel, records: list[Record], target: Target, threads: int, *, streamed: bool
) -> list[Record]:
    """`records`, ranked by their times, so that the one comes first that should be fastest in the package.

    `streamed`: the second cache keeps no weights from one run of the package to the next.
    """
    if threads == 1 and not streamed:
        return list(records)

    @cache
    def weights_ns(form: str) -> float:
        return _weights_ns(kernel, form, target) if streamed else 0.0

    shares: dict[str, float] = {}

    def share(record: Record) -> float:
        if threads > 1 and record.candidate not in shares:
            shares[record.candidate] = _share(kernel, record, target, threads)
        return shares.get(record.candidate, 1.0)

    asking = {record.candidate for record in records if ANNOTATION in record.trace}
    while True:
        order = for_package(
            records,
            threads,
            share,
            lambda record: weights_ns(record.form) * (_WAITED if record.candidate in asking else 1.0),
        )
        if not streamed or not order or order[0].candidate not in asking or _asks_ahead(kernel, order[0]):
            return order
        asking.remove(order[0].candidate)


@dataclass(frozen=True)
class Stage:
    """A package that records are compared in: of which model (its SHA-256), for how many threads."""

    model: str
    threads: int

    def ns(self, record: Record) -> float | None:
        """What a call takes there, in nanoseconds; None where nobody looked."""
        told = record.environment.get(f"{self._name}_ns")
        return float(told) if isinstance(told, int | float) and not isinstance(told, bool) and told > 0 else None

    def noted(self, record: Record, nanoseconds: float | None, comparison: str = "", size: int = 0) -> Record:
        """`record` with what it takes there (None: without), one of the `size` in a comparison of that name."""
        facts = {key: fact for key, fact in record.environment.items() if not key.startswith(f"{self._name}_")}
        if nanoseconds is not None:
            facts |= {f"{self._name}_ns": nanoseconds, f"{self._name}_among": f"{size} {comparison}"}
        return replace(record, environment=facts)

    def compared(self, records: Sequence[Record]) -> list[Record]:
        """Those of `records` that were compared there, if all that were are among them: a part says nothing."""
        found: dict[str, list[Record]] = {}
        for record in records:
            if self.ns(record) is not None:
                found.setdefault(str(record.environment.get(f"{self._name}_among", "")), []).append(record)
        whole = [group for among, group in found.items() if among.partition(" ")[0] == str(len(group))]
        return whole[0] if len(whole) == 1 else []

    @property
    def _name(self) -> str:
        return f"in_package_{self.model[:12]}_{self.threads}"


def compared_first(records: list[Record], stage: Stage) -> list[Record]:
    """`records`, the one expected to be fastest first, with those that were compared in a package at their head.

    Before them only those that were expected to be faster, and are so clearly when timed alone.
    """
    there = stage.compared(records)
    if not there:
        return records
    clearly = _CLEARLY * min(record.median_ns or inf for record in there)
    expected = records[: min(records.index(record) for record in there)]
    ahead = [record for record in expected if (record.median_ns or inf) < clearly]
    behind = [record for record in records if record not in there and record not in ahead]
    return [*ahead, *sorted(there, key=lambda record: stage.ns(record) or inf), *behind]


def _weights_ns(kernel: Kernel, form: str, target: Target) -> float:
    """How long, in nanoseconds, the weights of a form of the kernel take from memory."""
    params = form_named(kernel.function, form).function.params
    constants = [params[number] for number, param in enumerate(kernel.params) if param.role == "constant"]
    size = sum(map(_bytes, constants))
    return size / target.memory_gb_per_s if size > target.l1_bytes else 0.0


def _bytes(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.shape) * -(-int(DataType(str(buffer.dtype)).bits) // 8)


def _asks_ahead(kernel: Kernel, record: Record) -> bool:
    try:
        return asks_ahead(flat(realise(kernel.function, record.trace).module).body)
    except KernelFailed:
        return False  # what is wrong with it is told where it is printed, should it come to that


def _share(kernel: Kernel, record: Record, target: Target, threads: int) -> float:
    try:
        return expected_share(realise(kernel.function, record.trace).module, target, threads)
    except KernelFailed:
        return 1.0  # as above
