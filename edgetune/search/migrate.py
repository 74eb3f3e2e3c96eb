"""Record migration: finds records of older code generators whose trace still gives the very C text that was timed.

Such records are stored again under the key of today's code generator. A new version of the code generator changes the
text of only some kernels; the measurements of all others, which took boards many nights, need not be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.records import Record, RecordKey, RecordStore
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.source import make_source
from edgetune.target.identity import target_fingerprint, toolchain_id
from edgetune.target.target import Target

MOST_CARRIED = 32
"""Records per kernel to check, the fastest first: enough to build with, and to continue a search from."""

MOST_CHANGED = 2
"""After so many records of a kernel in a row give other text, the rest is not checked."""


def record_key(kernel: Kernel, target: Target) -> RecordKey:
    """The key under which `kernel` was measured on any board of `target` with today's compiler and C printer."""
    return RecordKey(kernel.workload, target_fingerprint(target), toolchain_id(target), CODEGEN_VERSION)


def trouble(kernel: Kernel, record: Record, target: Target) -> str:
    """Why the text that `record` timed differs from what its trace gives today; empty when it is the same."""
    try:
        unit = make_source(kernel_spec(kernel, record.scratch_bytes), record.trace, target).unit
    except KernelFailed as error:
        return error.message
    return "" if hashlib.sha256(unit.encode()).hexdigest() == record.candidate else "its trace now gives different C"


def still_valid(kernel: Kernel, target: Target, store: RecordStore) -> Iterator[Record]:
    """Yields the fastest correct records of older code generators that are still valid, under today's key.

    Yields none when a correct record of today's generator exists: that one is better evidence.
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
    """The kernels, each workload once, whose only correct records are of older code generators."""
    found = []
    for kernel in {kernel.workload: kernel for kernel in kernels}.values():
        key = record_key(kernel, target)
        if not store.best(key) and store.older(key, 1):
            found.append(kernel)
    return found


def outdated(kernels: int, remedy: str) -> str:
    """The sentence that says why a user's records of so many kernels are not used."""
    which = "1 kernel" if kernels == 1 else f"{kernels} kernels"
    return f"the records of {which} do not count: another version of edgetune timed them as other C text; {remedy}"


def carry_over(kernels: Sequence[Kernel], target: Target, store: RecordStore) -> int:
    """Store the `still_valid` records of the kernels under today's key; return their number."""
    carried = 0
    for kernel in known_to_older(kernels, target, store):
        found = [*still_valid(kernel, target, store)]
        store.add_all(found)
        carried += len(found)
    return carried
