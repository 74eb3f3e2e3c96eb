"""From a trace's JSON text to the scheduled kernel. The same trace gives the same program, always."""

from __future__ import annotations

import json
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from edgetune.errors import KernelFailed
from edgetune.tuning.sketches.guards import guard_accumulations
from edgetune.tuning.sketches.spaces import module_of


def replay(function: Any, trace_json: str) -> Any:
    """The IRModule of the one scheduled PrimFunc that `trace_json` makes of the unscheduled `function`.

    Raises KernelFailed when the text is not a trace, or the trace does not fit the function.
    """
    sch = Schedule(module_of(function), seed=1)
    try:
        Trace.apply_json_to_schedule(json.loads(trace_json), sch)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1].strip() if lines else type(error).__name__
        msg = f"a recorded schedule does not fit its kernel ({reason}): delete the record or tune again"
        raise KernelFailed(msg) from error
    return guard_accumulations(sch.mod)
