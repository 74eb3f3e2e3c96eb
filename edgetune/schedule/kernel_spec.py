"""The serialisable description of a kernel for other processes: its function as text, and the tensors of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.graph.program import Kernel, Param

if TYPE_CHECKING:
    import tvm

import edgetune.graph.fixed_point  # noqa: F401  kernels may call its operator


@dataclass(frozen=True)
class KernelSpec:
    """One kernel whose candidates are measured: `key` names it in jobs, `function_json` is `tvm.ir.save_json` of it.

    `params` are the tensors of a call before weight packing; `scratch_limit` is in bytes.
    """

    key: str
    symbol: str
    function_json: str
    params: tuple[Param, ...]
    scratch_limit: int


def kernel_spec(kernel: Kernel, scratch_limit: int) -> KernelSpec:
    """Describe a kernel of a program for measuring, under its workload hash; `scratch_limit` in bytes.

    The symbol comes from the workload, so equal kernels of two models have equal C text.
    """
    import tvm

    return KernelSpec(
        key=kernel.workload,
        symbol=f"kernel_{kernel.workload[:12]}",
        function_json=str(tvm.ir.save_json(kernel.function)),
        params=kernel.params,
        scratch_limit=scratch_limit,
    )


def function_of(spec: KernelSpec) -> tvm.tirx.PrimFunc:
    """The unscheduled function that `spec` describes."""
    import tvm

    from edgetune.graph.nan_extrema import register_nan_extrema

    register_nan_extrema()
    return tvm.ir.load_json(spec.function_json)
