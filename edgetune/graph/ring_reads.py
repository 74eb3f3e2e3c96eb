"""Ring reads: kernels that read rows where they lie in a ring buffer, instead of a copy of them in their order.

Which row of the memory a row is depends on the position alone, so the remainder is taken once for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from edgetune.graph.kernels import kernel_of
from edgetune.graph.parts import Part
from edgetune.graph.program import Call, Kernel, Program
from edgetune.graph.reduction_stage import ReductionStage, mentions, variable, with_inlined, with_places
from edgetune.graph.row_functions import RING_READ, ROW_WRITE
from edgetune.graph.row_writes import Step, steps_of, with_steps
from edgetune.graph.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, TvmBuffer
from edgetune.graph.workload import workload_hash
from edgetune.graph.written_loops import is_written

_MEMORY, _POSITION, _RESULT = range(3)
"""Parameters of the function `ring_read`."""


def with_rings_read(program: Program) -> Program:
    """`program` in which kernels read rings themselves, wherever they can; other rows are put in order by a copy."""
    if program.loops:
        return program
    steps = steps_of(program)
    for reading in [step for step in steps if step[0].sources == (RING_READ,) and not step[1].parts]:
        rows = reading[1].arguments[_RESULT]
        if program.buffers[rows].kind != "intermediate":
            continue
        steps = [step if step[1] is reading[1] else _reading(step, reading, rows) for step in steps]
        rest = [step for step in steps if step[1] is not reading[1]]
        if not any(rows in call.arguments for _, call in rest):
            steps = rest
    return with_steps(program, steps)


def _reading(step: Step, reading: Step, rows: int) -> Step:
    """A call that reads the ring where it read `rows` in their order; the same call where it cannot."""
    kernel, call = step
    for number in reversed(range(len(call.arguments))):
        if call.arguments[number] == rows and _can_read(kernel, call, number, reading[0]):
            kernel, call = _composed(kernel, call, number, reading)
    return kernel, call


def _can_read(kernel: Kernel, call: Call, number: int, read: Kernel) -> bool:
    """Whether a kernel can read a ring; not where it does not know rows, and would divide for each element."""
    param, root = kernel.params[number], kernel.function.body
    row = prod(read.params[_MEMORY].shape[1:])
    if _axes_of_a_row(param.shape, row) is None or call.parts.get(number, Part(0, ())).offset % row:
        return False
    plain = isinstance(root, s_tir.SBlockRealize) and not root.block.match_buffers
    itself = plain and not is_written(kernel.function) and not kernel.slices and kernel.sources != (ROW_WRITE,)
    return itself and param.role == "input" and param.rows is None


def _composed(kernel: Kernel, call: Call, number: int, reading: Step) -> Step:
    """A kernel that reads a ring in place of its parameter `number`, and the position behind what it reads."""
    read, source = reading
    memory, position = source.arguments[_MEMORY], source.arguments[_POSITION]
    inputs = sum(param.role != "output" for param in kernel.params)
    part = call.parts.get(number, Part(0, ()))
    function = _with_ring(kernel.function, number, inputs, read.function, part.offset)
    mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
    rows = {_later(n, inputs): param.rows for n, param in enumerate(kernel.params) if param.rows is not None}
    made = kernel_of((RING_READ, *kernel.sources), workload_hash(function), function, [*mask, False], 0, rows)
    arguments = [memory if n == number else one for n, one in enumerate(call.arguments)]
    arguments.insert(inputs, position)
    parts = {_later(n, inputs): one for n, one in call.parts.items() if n != number}
    return made, replace(call, arguments=tuple(arguments), parts=parts)


def _later(number: int, inputs: int) -> int:
    return number + (number >= inputs)


def _with_ring(function: PrimFunc, number: int, inputs: int, read: PrimFunc, offset: int) -> PrimFunc:
    """`function` whose parameter `number` is what `read` makes of a ring, from the element `offset` on."""
    param, memory = function.params[number], read.params[_MEMORY]
    shape = [int(extent) for extent in param.shape]
    row = prod(int(extent) for extent in memory.shape[1:])
    inner = _axes_of_a_row(shape, row)
    assert inner is not None, "only kernels that know rows read a ring"  # noqa: S101
    index = str(param.shape[0].ty.dtype) if shape else "int64"
    axes = [(variable(f"i{axis}", index), extent) for axis, extent in enumerate(shape)]
    place = [axis for axis, _ in axes]
    at, rest = _flat(place[:inner], shape[:inner]) + tirx.IntImm(index, offset // row), place[inner:]
    names = {str(one.name) for one in function.params}
    ring = _parameter("ring", names, [int(memory.shape[0]), *shape[inner:]], str(memory.dtype), index)
    position = _parameter("position", names, [1], str(read.params[_POSITION].dtype), index)
    value = tirx.BufferLoad(ring, [_row_of(read, at, position), *rest])
    params = [ring if n == number else one for n, one in enumerate(function.params)]
    params.insert(inputs, position)
    return with_inlined(function, params, [ReductionStage("row", param, tuple(place), tuple(axes), (), value)])


def _axes_of_a_row(shape: Sequence[int], row: int) -> int | None:
    """The first of the axes of a tensor that together are a row; None where an axis is only partly in it."""
    return next((axis for axis in range(len(shape) + 1) if prod(shape[axis:]) == row), None)


def _flat(place: list[Expr], shape: list[int]) -> Expr:
    whole: Expr = 0
    for index, extent in zip(place, shape, strict=True):
        whole = whole * extent + (index if extent > 1 else 0)
    return whole


def _parameter(name: str, taken: set[str], shape: list[int], dtype: str, index: str) -> TvmBuffer:
    own = next(one for one in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if one not in taken)
    return tirx.decl_buffer([tirx.IntImm(index, extent) for extent in shape], dtype, own)


def _row_of(read: PrimFunc, row: Expr, position: TvmBuffer) -> Expr:
    """Where a `row` of the result of `read` lies in the ring, whose position is in another parameter."""
    found: list[Expr] = []

    def visit(block: object) -> None:
        body = getattr(block, "body", None)
        if isinstance(body, tirx.BufferStore):
            axes: Mapping[Expr, Expr] = {block.iter_vars[0].var: row}  # type: ignore[attr-defined]
            found.append(with_places(body.value.indices[0], axes))

    tvm_ffi.structural_walk(read.body, (s_tir.SBlock, visit))
    old = read.params[_POSITION]

    def load(node: Expr) -> Expr:
        if not node.source.same_as(old):
            return node
        return tirx.BufferLoad(position, [tirx.IntImm(str(position.shape[0].ty.dtype), 0)])

    return tvm_ffi.structural_map(found[0], (ir.TensorLoad, load))


_MOVES = frozenset({"copy", "concatenate", "strided_slice", "transpose", RING_READ, ROW_WRITE})
"""Operators that only move elements."""
_LANES, _APART = 4, 6
"""Elements of a row that an instruction moves, and instructions that move an element whose neighbours lie elsewhere."""


def states_moved(program: Program) -> frozenset[str]:
    """The rings, by the name of their input, whose rows a kernel moves that does nothing else."""
    moving = [call for call in program.calls if _only_moves(program.kernels[call.kernel].sources)]
    read = {one for call in moving for one in call.arguments if RING_READ in program.kernels[call.kernel].sources}
    return frozenset(one.name_in for one in program.states if one.ring is not None and one.buffer in read)


def cost_of_moves(program: Program) -> float:
    """About how many instructions of a run only move elements, in calls that do nothing else."""
    kernels = (program.kernels[call.kernel] for call in program.calls)
    return sum(_cost(kernel) for kernel in kernels if _only_moves(kernel.sources))


def _only_moves(sources: Sequence[str]) -> bool:
    return _MOVES.issuperset(sources)


def _cost(kernel: Kernel) -> float:
    moved = sum(param.elements.size for param in kernel.params if param.role == "output")
    return moved / _LANES if _in_runs(kernel.function) else float(moved * _APART)


def _in_runs(function: PrimFunc) -> bool:
    """Whether the elements that a function moves to neighbouring places are neighbours."""
    found: list[bool] = []

    def visit(block: SBlock) -> None:
        inner = next((axis.var for axis in reversed(block.iter_vars) if int(axis.dom.extent) > 1), None)
        loads: list[BufferLoad] = []
        tvm_ffi.structural_walk(block.body, (ir.TensorLoad, loads.append))
        if inner is not None and isinstance(block.body, tirx.BufferStore):
            found.extend(_follows(load.indices, inner) for load in loads if len(load.source.shape))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return all(found)


def _follows(indices: Sequence[Expr], axis: Expr) -> bool:
    """Whether the last of indices goes on with an axis, and no other one changes with it; or none does."""
    if not indices or not any(mentions(index, axis) for index in indices):
        return True
    step = sym.Analyzer().simplify(with_places(indices[-1], {axis: axis + 1}) - indices[-1])
    return not any(mentions(index, axis) for index in indices[:-1]) and isinstance(step, tirx.IntImm) and int(step) == 1
