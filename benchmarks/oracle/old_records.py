"""What became of the records of an older middle end: whether their schedules still give the C that was timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.pipeline.compile_input import program_for
from edgetune.pipeline.model_formats import read_model
from edgetune.records.record import Record
from edgetune.records.schema import RecordFilter
from edgetune.records.store import RecordStore
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.source import make_source
from edgetune.target.target import Target, load_target

SAME, OTHER, REFUSED, ORPHANED = "the C that was timed", "other C", "no schedule", "orphaned"
"""What a correct record is now. A search measures the schedules of the second ones again: the first thing it does."""


def fates(model: Path, database: Path) -> Iterator[str]:
    """One line for each kernel that the records of a model are of, and one with the sums.

    A record is orphaned where the model has no kernel with its workload any more, in no form that a search measures.
    """
    target = load_target("host")
    program = program_for(read_model(model), target)
    kernels = {kernel.workload: kernel for one in (program, *program.divisions) for kernel in one.kernels}
    with RecordStore.open(database, create=False) as store:
        found = [store.get(row["id"]) for row in store.list(RecordFilter(status="ok"))]
    counts: dict[tuple[str, str], Counter[str]] = {}
    for record in found:
        fate = _fate(record, kernels.get(record.workload), target)
        counts.setdefault((record.workload_name, record.workload), Counter())[fate] += 1
    for (name, workload), count in counts.items():
        yield f"  {name} ({workload[:8]}): {_said(count)}"
    versions = ", ".join(map(str, sorted({record.codegen_version for record in found})))
    total = sum(counts.values(), Counter[str]())
    yield f"{model.stem}: {len(found)} records of code generator {versions}, now {CODEGEN_VERSION}; {_said(total)}"


def _fate(record: Record, kernel: Kernel | None, target: Target) -> str:
    if kernel is None:
        return ORPHANED
    try:
        unit = make_source(kernel_spec(kernel, 0), record.trace, target).unit
    except KernelFailed:
        return REFUSED
    return SAME if sha256(unit.encode()).hexdigest() == record.candidate else OTHER


def _said(count: Counter[str]) -> str:
    return ", ".join(f"{count[fate]} {fate}" for fate in (SAME, OTHER, REFUSED, ORPHANED) if count[fate])
