"""In-model cost: predicts the fastest record in a package whose threads share kernels and weights may come from memory.

Records are timed on one thread, with their weights in a cache, so their own times alone do not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, prod
from typing import Any

from tvm import DataType

from edgetune.codegen.lower import flat
from edgetune.codegen.parallel_time import expected_share
from edgetune.codegen.prefetch.weights_l2 import ANNOTATION, prefetches_weights_l2
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel, Program
from edgetune.records import Record
from edgetune.records.ranking import for_package
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.target.target import Target

_CLEARLY = 0.85
"""Share of the time alone below which a record wins without having been timed in a package."""

_WAITED = 0.25
"""Share of the weights' transfer time that a kernel still waits when it prefetches them one block ahead."""


def streams(program: Program, target: Target) -> bool:
    """Whether the second cache keeps no weights of `program` from run to run, so that kernels can prepare for it.

    Never where the caches are flushed before each call anyway, and where no time is measured.
    """
    return program.constant_bytes > target.l2_bytes and target.caches == "warm" and not target.emulated


def expected_order(
    kernel: Kernel, records: list[Record], target: Target, threads: int, *, streamed: bool
) -> list[Record]:
    """`records`, ranked by their times, reordered so that the expected fastest in the package comes first.

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
        if not streamed or not order or order[0].candidate not in asking or _prefetches_weights(kernel, order[0]):
            return order
        asking.remove(order[0].candidate)


@dataclass(frozen=True)
class PackageContext:
    """The package in which records are compared: its model (SHA-256) and its number of threads."""

    model: str
    threads: int

    def ns(self, record: Record) -> float | None:
        """Nanoseconds of a call there; None where it was not measured."""
        told = record.environment.get(f"{self._name}_ns")
        return float(told) if isinstance(told, int | float) and not isinstance(told, bool) and told > 0 else None

    def noted(self, record: Record, nanoseconds: float | None, comparison: str = "", size: int = 0) -> Record:
        """`record` with its time there (None removes it), as one of `size` records in a comparison of that name."""
        facts = {key: fact for key, fact in record.environment.items() if not key.startswith(f"{self._name}_")}
        if nanoseconds is not None:
            facts |= {f"{self._name}_ns": nanoseconds, f"{self._name}_among": f"{size} {comparison}"}
        return replace(record, environment=facts)

    def compared(self, records: Sequence[Record]) -> list[Record]:
        """The `records` of one comparison there, if it is complete among them: an incomplete one decides nothing."""
        found: dict[str, list[Record]] = {}
        for record in records:
            if self.ns(record) is not None:
                found.setdefault(str(record.environment.get(f"{self._name}_among", "")), []).append(record)
        whole = [group for among, group in found.items() if among.partition(" ")[0] == str(len(group))]
        return whole[0] if len(whole) == 1 else []

    @property
    def _name(self) -> str:
        return f"in_package_{self.model[:12]}_{self.threads}"


def compared_first(records: list[Record], stage: PackageContext) -> list[Record]:
    """`records`, the expected fastest first, reordered so that those compared in a package come first.

    Only records that were expected to be faster, and are clearly faster when timed alone, stay before them.
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
    """Nanoseconds to load the weights of an algorithm of the kernel from memory."""
    params = algorithm_named(kernel.function, form).function.params
    constants = [params[number] for number, param in enumerate(kernel.params) if param.role == "constant"]
    size = sum(map(_bytes, constants))
    return size / target.memory_gb_per_s if size > target.l1_bytes else 0.0


def _bytes(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.shape) * -(-int(DataType(str(buffer.dtype)).bits) // 8)


def _prefetches_weights(kernel: Kernel, record: Record) -> bool:
    try:
        return prefetches_weights_l2(flat(apply_schedule(kernel.function, record.trace).module).body)
    except KernelFailed:
        return False  # if this record is chosen, printing it reports the error


def _share(kernel: Kernel, record: Record, target: Target, threads: int) -> float:
    try:
        return expected_share(apply_schedule(kernel.function, record.trace).module, target, threads)
    except KernelFailed:
        return 1.0  # as above
