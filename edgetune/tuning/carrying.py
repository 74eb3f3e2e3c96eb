"""Records of an older code generator that still hold: their trace gives today the very C text that was timed.

What enters are kernels and the database, what leaves are records under today's key. A new version of the code generator
changes the text of some kernels; what boards measured of all others in many nights need not be measured again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetune.codegen import CODEGEN_VERSION
from edgetune.config.identity import target_fingerprint, toolchain_id
from edgetune.config.target import Target
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.measure.candidate import make_source
from edgetune.measure.jobs import kernel_spec
from edgetune.tuning.records import Record, RecordKey, RecordStore

MOST_CARRIED = 32
"""Records per kernel that are looked at, the fastest first: enough to build with, and to search on from."""

MOST_CHANGED = 2
"""So many of a kernel that give other text in a row, and the rest is not looked at."""


def record_key(kernel: Kernel, target: Target) -> RecordKey:
    """The key under which `kernel` was measured on any board of `target` with today's compiler and C printer."""
    return RecordKey(kernel.workload, target_fingerprint(target), toolchain_id(target), CODEGEN_VERSION)


def trouble(kernel: Kernel, record: Record, target: Target) -> str:
    """Why what `record` timed is not what its trace gives today; empty when it is the same text."""
    try:
        unit = make_source(kernel_spec(kernel, record.scratch_bytes), record.trace, target).unit
    except KernelFailed as error:
        return error.message
    return "" if hashlib.sha256(unit.encode()).hexdigest() == record.candidate else "its trace gives other C text today"


def still_valid(kernel: Kernel, target: Target, store: RecordStore) -> Iterator[Record]:
    """The fastest correct records of older code generators that hold today, under today's key, one after the other.

    None when something that is correct was measured with today's generator: it is better known.
    """
    key = record_key(kernel, target)
    if store.best(key):
        return
    changed = 0
    for record in store.older(key, MOST_CARRIED):
        if trouble(kernel, record, target):
            changed += 1
            if changed == MOST_CHANGED:
                return
            continue
        changed = 0
        facts = {**record.environment, "codegen_version": record.codegen_version}
        yield replace(record, codegen_version=key.codegen_version, environment=facts, id=0)


def known_to_older(kernels: Sequence[Kernel], target: Target, store: RecordStore) -> list[Kernel]:
    """Those of the kernels, each workload once, of which only older code generators have correct records."""
    found = []
    for kernel in {kernel.workload: kernel for kernel in kernels}.values():
        key = record_key(kernel, target)
        if not store.best(key) and store.older(key, 1):
            found.append(kernel)
    return found


def carry_over(kernels: Sequence[Kernel], target: Target, store: RecordStore) -> int:
    """Store what is `still_valid` of the kernels under today's key; return how many records that are."""
    carried = 0
    for kernel in known_to_older(kernels, target, store):
        found = [*still_valid(kernel, target, store)]
        store.add_all(found)
        carried += len(found)
    return carried
