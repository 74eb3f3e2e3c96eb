"""Which record should be fastest in a package, where threads share kernels and weights may come from memory.

Records are timed on one thread, with their weights in a cache.
"""

from __future__ import annotations

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


def in_package_fact(threads: int) -> str:
    """Key in a record's environment: nanoseconds of a call in a run of a package for so many threads."""
    return f"in_package_ns_{threads}"


def in_package_ns(record: Record, threads: int) -> float | None:
    """What a call takes in a run of a package for `threads` threads, in nanoseconds; None where nobody looked."""
    told = record.environment.get(in_package_fact(threads))
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) and told > 0 else None


def rehearsed_first(records: list[Record], threads: int) -> list[Record]:
    """`records` with those first that were timed in a package, the fastest there before the others.

    Before them only who takes clearly less alone than any of them, as one does that was found since.
    """
    there = [record for record in records if in_package_ns(record, threads) is not None]
    if not there:
        return records
    clearly = _CLEARLY * min(record.median_ns or inf for record in there)
    others = [record for record in records if record not in there]
    ahead = [record for record in others if (record.median_ns or inf) < clearly]
    behind = [record for record in others if record not in ahead]
    return [*ahead, *sorted(there, key=lambda record: in_package_ns(record, threads) or inf), *behind]


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
