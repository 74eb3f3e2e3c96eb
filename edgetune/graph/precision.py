"""Precision: constants and tensors between kernels in 16 bits, while every kernel computes and sums in float32.

The scales of stored integers stay as they are.

A kernel converts what it loads and rounds what it stores. Inputs and outputs of the model keep their types, so that the
interface of a package is the same for every precision. Stages that only move elements, such as padding, keep the type
of what they move: then shared memory holds 16 bits as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.expressions import is_branch
from edgetune.graph.kernels import SCALES, kernel_of, named
from edgetune.graph.loops import without_loops
from edgetune.graph.program import Buffer, Call, Kernel, Program
from edgetune.graph.workload import workload_hash
from edgetune.target.preferences import Precision
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Node, PrimFunc, SBlock, TvmBuffer, Var

STORED: Mapping[Precision, str] = {"fp16": "float16", "bf16": "bfloat16"}
"""The type of elements in memory, by precision."""

ALLOWED: Mapping[Precision, float] = {"fp16": 1e-2, "bf16": 3e-2}
"""How far an output may be from its reference, relative to the largest element."""

_WIDE = "float32"
_NUMPY = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def with_precision(program: Program, precision: Precision) -> Program:
    """`program` with float32 constants and tensors between kernels stored as `precision` says.

    A kernel that some calls give an input of the model, and others a tensor between kernels, becomes several.
    """
    if precision not in STORED:
        return program
    program = without_loops(program)  # a state is an input of the model at first, and a tensor between kernels then
    stored, scales = STORED[precision], _scales(program)
    buffers = tuple(b if b.id in scales else replace(b, dtype=_stored(b, stored)) for b in program.buffers)
    kernels: dict[str, Kernel] = {}
    calls: list[tuple[str, Call]] = []
    for call in program.calls:
        kernel = program.kernels[call.kernel]
        types = [buffers[buffer].dtype for buffer in call.arguments]
        function = with_types(kernel.function, types)
        key = workload_hash(function)
        if key not in kernels:
            mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
            rows = {number: param.rows for number, param in enumerate(kernel.params) if param.rows is not None}
            kernels[key] = kernel_of(kernel.sources, key, function, mask, 0, rows)
        calls.append((key, call))
    return replace(
        program,
        buffers=buffers,
        kernels=named([_counted(key, kernel, calls) for key, kernel in kernels.items()]),
        calls=tuple(replace(call, kernel=[*kernels].index(key)) for key, call in calls),
        constants={
            n: a.astype(_NUMPY[stored]) if a.dtype == _WIDE and n not in scales else a
            for n, a in program.constants.items()
        },
        divisions=tuple(with_precision(division, precision) for division in program.divisions),
    )


def _scales(program: Program) -> set[int]:
    """The buffers of scales of stored integers: few numbers, some of them smaller than 16 bits hold exactly."""
    return {
        argument
        for call in program.calls
        for argument, param in zip(call.arguments, program.kernels[call.kernel].params, strict=True)
        if param.role == "constant" and param.name.rstrip("_0123456789") == SCALES
    }


def _stored(buffer: Buffer, stored: str) -> str:
    return stored if buffer.dtype == _WIDE and buffer.kind in {"intermediate", "constant"} else buffer.dtype


def _counted(key: str, kernel: Kernel, calls: Sequence[tuple[str, Call]]) -> Kernel:
    own = [call for other, call in calls if other == key]
    unaligned = {
        number for call in own for number, part in call.parts.items() if part.is_unaligned(kernel.params[number].dtype)
    }
    return replace(kernel, weight=len(own), unaligned=tuple(sorted(unaligned)))


def with_types(function: PrimFunc, types: Sequence[str]) -> PrimFunc:
    """An unscheduled `function` whose parameters have those element `types`; it computes as before."""
    changed = [number for number, p in enumerate(function.params) if str(p.dtype) != types[number]]
    if not changed:
        return function
    function = _sums_apart(function, {function.params[number] for number in changed})
    narrow = {
        function.params[number]: tirx.decl_buffer(
            list(function.params[number].shape), types[number], function.params[number].name
        )
        for number in changed
    }
    kept = set(function.params) - narrow.keys()
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda block: _narrow_copies(block, narrow, kept)))
    change = _Change(narrow)
    callbacks = [(tirx.BufferStore, change.store), (ir.TensorLoad, change.load), (ir.Var, change.variable)]
    return tvm_ffi.structural_map(function, callbacks, order="post")


def _sums_apart(function: PrimFunc, changed: set[TvmBuffer]) -> PrimFunc:
    """`function` in which no reduction writes a `changed` parameter: another stage copies the sums there."""
    sch = Schedule(function)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        found = sch.get(block)
        if found.init is not None and any(write.source in changed for write in found.writes):
            sch.cache_write(block, 0, "global")
    return sch.mod["main"].with_attrs(function.attrs)


def _narrow_copies(block: SBlock, narrow: dict[TvmBuffer, TvmBuffer], kept: Collection[TvmBuffer]) -> None:
    """Add to `narrow` what a stage writes that only moves elements of a narrow buffer, unless its type is `kept`."""
    body = block.body
    if block.init is not None or not isinstance(body, tirx.BufferStore) or body.buffer in {*narrow, *kept}:
        return
    source = _moved(body.value)
    if source in narrow and str(body.buffer.dtype) == _WIDE:
        narrow[body.buffer] = tirx.decl_buffer(
            list(body.buffer.shape), str(narrow[source].dtype), body.buffer.name, scope=body.buffer.scope()
        )


def _moved(value: Expr) -> TvmBuffer | None:
    """The buffer of which a value is an element, if it is that or zero."""
    if is_branch(value):
        return _moved(value.args[1]) if _is_zero(value.args[2]) else None
    if isinstance(value, tirx.Select):
        return _moved(value.true_value) if _is_zero(value.false_value) else None
    return value.source if isinstance(value, ir.TensorLoad) else None


def _is_zero(e: Expr) -> bool:
    return isinstance(e, tirx.FloatImm) and float(e.value) == 0


class _Change:
    """Replaces buffers by narrow ones: loads are widened, stores rounded, and moved elements neither.

    A node is visited after what it is made of: the buffer of a load or store is the new one by then.
    """

    def __init__(self, narrow: dict[TvmBuffer, TvmBuffer]) -> None:
        self._narrow = narrow
        self._new = set(narrow.values())

    def load(self, node: BufferLoad) -> Expr:
        """A widened load."""
        if node.source not in self._new:
            return node
        return tirx.Cast(_WIDE, tirx.BufferLoad(node.source, list(node.indices)))

    def store(self, node: BufferStore) -> BufferStore:
        """A rounded store."""
        if node.buffer not in self._new:
            return node
        return tirx.BufferStore(node.buffer, _rounded(node.value, str(node.buffer.dtype)), list(node.indices))

    def variable(self, node: Var) -> Node:
        """A buffer's name, in a region or among parameters."""
        return self._narrow.get(node, node)


def _rounded(value: Expr, dtype: str) -> Expr:
    """A value as `dtype`; an element that was only widened is what it was."""
    if isinstance(value, tirx.Cast) and str(value.value.ty) == dtype:
        return value.value
    if is_branch(value):
        chosen = [_rounded(one, dtype) for one in value.args[1:]]
        return tirx.if_then_else(value.args[0], *chosen)
    if isinstance(value, tirx.FloatImm):
        return tirx.FloatImm(dtype, float(value.value))
    return tirx.Cast(dtype, value)
