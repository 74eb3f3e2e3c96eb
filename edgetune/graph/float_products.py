"""Float products: the calls of a quantised program that still multiply floats, and why they are not integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.element_type import type_of
from edgetune.graph.program import Kernel, Program
from edgetune.graph.reduction_stage import ReductionStage, factors_of, reduction_of
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer

_INTEGERS = ("int", "uint")


@dataclass(frozen=True)
class FloatProducts:
    """A call with the number `call`, called `label`, that multiplies `macs` pairs of floats, and `why`, for people."""

    call: int
    label: str
    macs: int
    why: str


@dataclass(frozen=True)
class Products:
    """The multiply-accumulates of a run by integers, and the calls that have some by floats, in execution order."""

    integers: int
    floats: tuple[FloatProducts, ...]

    @property
    def float_macs(self) -> int:
        """Multiply-accumulates of a run by floats."""
        return sum(one.macs for one in self.floats)


def products_of(program: Program) -> Products:
    """The products of two tensors, by type; a kernel that multiplies one tensor by numbers of its own has none."""
    integers, found = 0, []
    for number, call in enumerate(program.calls):
        kernel = program.kernels[call.kernel]
        for stage in _products(kernel.function):
            count = prod(extent for _, extent in (*stage.spatial, *stage.summed))
            if type_of(stage.out).startswith(_INTEGERS):
                integers += count
            else:
                found.append(FloatProducts(number, call.label, count, _reason(kernel)))
    return Products(integers, tuple(found))


def _products(function: PrimFunc) -> list[ReductionStage]:
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize):
        return []
    body = root.block.body
    stages = map(reduction_of, body.seq if isinstance(body, tirx.SeqStmt) else [body])
    return [stage for stage in stages if stage is not None and _multiplies_two(stage)]


def _multiplies_two(stage: ReductionStage) -> bool:
    """Whether a sum multiplies elements of two tensors."""
    if stage.combine is not tirx.Add:
        return False
    read = [tensors for factor in factors_of(stage.term) if (tensors := _tensors(factor))]
    return any(not one.same_as(other) for tensors in read[1:] for one, other in zip(tensors, read[0], strict=False))


def _tensors(value: Expr | Stmt) -> list[TvmBuffer]:
    found: list[TvmBuffer] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, lambda load: found.append(load.source)))
    return found


def _reason(kernel: Kernel) -> str:
    types = {
        role: {param.dtype for param in kernel.params if param.role == role and len(param.shape) > 1}
        for role in ("input", "constant")
    }
    narrow = {
        role: [one for one in found if one.startswith(_INTEGERS) and one.endswith(("8", "16"))]
        for role, found in types.items()
    }
    if types["constant"] and not narrow["constant"]:
        return "its weights are floats"
    if not narrow["input"]:
        return "its data are floats, or integers of 16 bits whose sums may need more than 32"
    return "its integers have scales or zero points that differ among the terms of a sum"
