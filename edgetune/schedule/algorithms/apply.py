"""Schedule application: from a kernel's function and schedule text to the scheduled module and its constant transforms.

It replays the trace's JSON text on the function. The same trace always gives the same program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from edgetune.codegen.cuda.tile_intrinsics import declare
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.packing import split_packing
from edgetune.codegen.scale_tables import ScaleTable
from edgetune.errors import KernelFailed
from edgetune.schedule.algorithms.algorithm import Chain, ConstantTransform
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import algorithm_and_trace
from edgetune.schedule.sketches.after_schedule import rewrite_scheduled
from edgetune.schedule.sketches.reducers import with_infinite_starts
from edgetune.schedule.sketches.spaces import module_of
from edgetune.tvm_types import IRModule, PrimFunc

_TENSORIZE = "Tensorize"
"""TVM's kind of the instructions of a trace that use intrinsics, which must be declared before."""


def replay(function: PrimFunc, trace_json: str) -> IRModule:
    """`replay_plainly`, with accumulations that padding leaves out guarded by a condition."""
    return rewrite_scheduled(replay_plainly(function, trace_json))


def replay_plainly(function: PrimFunc, trace_json: str) -> IRModule:
    """The IRModule of the one scheduled PrimFunc that `trace_json` makes of the unscheduled `function`.

    Raises KernelFailed if the text is not a trace, or the trace does not fit the function.
    """
    sch = Schedule(module_of(function), seed=1)
    try:
        trace = json.loads(trace_json)
        if any(instruction[0] == _TENSORIZE for instruction in trace[0]):
            declare()
        Trace.apply_json_to_schedule(trace, sch)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1].strip() if lines else type(error).__name__
        msg = f"a recorded schedule does not fit its kernel ({reason}): delete the record or tune again"
        raise KernelFailed(msg) from error
    return with_infinite_starts(sch.mod)


@dataclass(frozen=True)
class Scheduled:
    """A module of one scheduled function, ready to be printed.

    `constants` has, by parameter index, the change of the program's array when the package is built: the algorithm's
    transform, then the layout that the schedule wants. All other arrays stay unchanged.
    """

    algorithm: str
    module: IRModule
    constants: Mapping[int, ConstantTransform]

    def constants_of(self, source: KernelSource) -> dict[int, ConstantTransform]:
        """The same for the kernel that is printed of it, some constants of which are tables of scales."""
        made = dict(self.constants)
        for number, param in enumerate(source.params):
            if param.table:
                made[number] = _then(made.get(number), ScaleTable(of_bytes=param.table == "byte table"))
        return made


def _then(first: ConstantTransform | None, second: ConstantTransform) -> ConstantTransform:
    return second if first is None else Chain((first, second))


def apply_schedule(function: PrimFunc, text: str) -> Scheduled:
    """The algorithm that `text` names, derived from the kernel's unscheduled `function` and scheduled.

    Equal arguments always give the same result. Raises KernelFailed if the kernel does not have this algorithm, or the
    trace does not fit it.
    """
    name, trace = algorithm_and_trace(text)
    algorithm = algorithm_named(function, name)
    module, layouts = split_packing(replay(algorithm.function, trace))
    constants: dict[int, ConstantTransform] = {}
    for index in sorted(algorithm.transforms.keys() | layouts.keys()):
        steps = [step for step in (algorithm.transforms.get(index), layouts.get(index)) if step is not None]
        constants[index] = steps[0] if len(steps) == 1 else Chain(tuple(steps))
    return Scheduled(name, module, constants)
