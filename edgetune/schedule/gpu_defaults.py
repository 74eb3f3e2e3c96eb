"""Default schedules for GPUs: the formula's first choice among designs; nothing is compiled or timed.

A kernel that no design fits gets the first rule that does. Most rules are those of TVM's DLight
(`tvm.s_tir.dlight.gpu`). A reduction of few elements stays in one thread: a block
that shares it would mostly wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, TypeAlias

from tvm.s_tir import Schedule, dlight

from edgetune.codegen.axes import is_reduction
from edgetune.codegen.cuda.lower import lowering_target
from edgetune.errors import TVM_REFUSALS, KernelFailed
from edgetune.graph.written_loops import is_written
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.default_schedule import WRITTEN_NOTE, has_empty_tensor
from edgetune.schedule.gpu.spaces import first_schedules
from edgetune.schedule.sketches.spaces import module_of
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import PrimFunc, SBlockRV, TvmTarget

_FEW = 63  # elements of a reduction that one thread sums up by itself
_BLOCK, _WARP = 256, 32  # threads
_PRAGMAS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")

Rule: TypeAlias = Any
"""A rule in the form of DLight's: `apply(function, target, tunable)` gives a schedule, or None."""


def default_gpu_schedule(function: PrimFunc, target: GpuTarget) -> tuple[str, str]:
    """Trace of the design with the lowest estimate, or of the first rule that schedules `function`; a note for people.

    Raises KernelFailed where neither design nor rule fits.
    """
    if (found := next(gpu_schedules(function, target), None)) is not None:
        return found
    raise KernelFailed("no default schedule for GPUs fits this kernel")


def gpu_schedules(function: PrimFunc, target: GpuTarget) -> Iterator[tuple[str, str]]:
    """Traces of all designs and of all rules that schedule `function`, the most promising first, with notes."""
    plain = Schedule(module_of(function))
    if is_written(function):
        yield trace_text(plain.trace), WRITTEN_NOTE
        return
    if not any(prod(map(int, w.source.shape)) for block in _blocks(plain) for w in plain.get(block).writes):
        yield trace_text(plain.trace), "nothing to compute: the output is empty"
        return
    if not has_empty_tensor(function):
        yield from first_schedules(function, target)
    facts = lowering_target(target.arch, target.most_shared_bytes)
    for name, rule in _rules(parallel=_largest_reduction(function) > _FEW):
        sch = _scheduled(rule, function, facts)
        if sch is not None:
            yield trace_text(sch.trace), name


class _OneThreadEach:
    """A rule: each thread computes one element of the output, with its whole reduction in a register."""

    def apply(self, function: PrimFunc, target: TvmTarget, _tunable: bool) -> Schedule | None:
        """The scheduled function; None where it is not one reduction at most, followed by one elementwise block."""
        del target
        sch = Schedule(module_of(function))
        for block in _blocks(sch)[:-1]:
            if not _reduces(sch, block):
                sch.compute_inline(block)
        blocks = _blocks(sch)
        sums = [block for block in blocks if _reduces(sch, block)]
        if len(sums) > 1 or len(blocks) > 2:  # noqa: PLR2004  a sum and what follows it
            return None
        last = sch.cache_write(blocks[-1], 0, "local") if sums == blocks[-1:] else blocks[-1]
        fused = sch.fuse(*(sch.get_loops(last) or [sch.add_unit_loop(last)]))
        grid, inside = sch.split(fused, [None, _threads(int(sch.get(fused).extent))])
        sch.bind(grid, "blockIdx.x")
        sch.bind(inside, "threadIdx.x")
        for block in sums:
            sch.compute_at(block, inside)
            for written in range(len(sch.get(block).writes)):  # two of an argmax
                sch.set_scope(block, written, "local")
            if has_empty_tensor(function):  # no step of a sum without terms would set it to zero
                sch.decompose_reduction(block, sch.get_loops(block)[2])  # the first loop below grid and threads
        return sch


def _threads(elements: int) -> int:
    """Threads of a block: whole warps that leave no thread idle, if there is such a number; else one warp or more."""
    fitting = [threads for threads in range(_WARP, _BLOCK + 1, _WARP) if elements % threads == 0]
    return max(fitting, default=min(_BLOCK, -(-elements // _WARP) * _WARP))


@cache
def _rules(*, parallel: bool) -> tuple[tuple[str, Rule], ...]:
    """Names of rules for people, and the rules; a reduction of many elements is shared by threads where possible."""
    shared: tuple[tuple[str, Rule], ...] = (
        ("matrix times vector", dlight.gpu.GEMV()),
        ("reductions", dlight.gpu.Reduction()),
        ("several reductions", dlight.gpu.GeneralReduction()),
    )
    alone: tuple[tuple[str, Rule], ...] = (("one thread for each output", _OneThreadEach()),)
    return (
        ("products of matrices", dlight.gpu.Matmul()),
        *((*shared, *alone) if parallel else (*alone, shared[-1])),
        ("all else", dlight.gpu.Fallback()),
    )


def _scheduled(rule: Rule, function: PrimFunc, target: TvmTarget) -> Schedule | None:
    """The function scheduled by `rule`, without its pragmas: nvcc unrolls. None where the rule does not fit."""
    try:
        with target:
            found = rule.apply(module_of(function)["main"], target, False)
            sch = found[0] if isinstance(found, list) else found
            if sch is None or not all(_in_a_launch(sch, block) for block in _blocks(sch)):
                return None
            _without_pragmas(sch)
    except TVM_REFUSALS:
        return None
    return sch


def _in_a_launch(sch: Schedule, block: SBlockRV) -> bool:
    """Whether the outermost loop of a block is over blocks or threads of a launch."""
    loops = sch.get_loops(block)
    return bool(loops) and sch.get(loops[0]).thread_binding is not None


def _without_pragmas(sch: Schedule) -> None:
    for block in _blocks(sch):
        for loop in sch.get_loops(block):
            for pragma in _PRAGMAS:
                if pragma in sch.get(loop).annotations:
                    sch.unannotate(loop, pragma)


def _blocks(sch: Schedule) -> list[SBlockRV]:
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def _reduces(sch: Schedule, block: SBlockRV) -> bool:
    return any(is_reduction(axis) for axis in sch.get(block).iter_vars)


def _largest_reduction(function: PrimFunc) -> int:
    """Elements of the largest reduction of a function."""
    sch = Schedule(module_of(function))
    return max(
        prod(int(axis.dom.extent) for axis in sch.get(block).iter_vars if is_reduction(axis)) for block in _blocks(sch)
    )
