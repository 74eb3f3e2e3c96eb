"""Ring reads: kernels that read rows where they lie in a ring buffer, instead of a copy of them in their order.

Which row of the memory a row is depends on the position alone, so the remainder is taken once for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.kernels import kernel_of
from edgetune.graph.parts import Part
from edgetune.graph.program import Call, Kernel, Program
from edgetune.graph.reduction_stage import ReductionStage, variable, with_inlined, with_statements_inlined
from edgetune.graph.row_axes import with_rows
from edgetune.graph.row_functions import RING_READ, ROW_WRITE
from edgetune.graph.row_writes import Step, steps_of, with_steps
from edgetune.graph.workload import workload_hash
from edgetune.graph.written_loops import is_written
from edgetune.target.core import WIDEST
from edgetune.target.costs import Costs
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, TvmBuffer

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
        steps = _without(reading, steps)
    for moving in [step for step in steps if _only_moves(step[0].sources) and RING_READ in step[0].sources]:
        if program.buffers[moving[1].arguments[-1]].kind != "intermediate":
            continue
        steps = [step if step[1] is moving[1] else _moving(step, moving) for step in steps]
        steps = _without(moving, steps)
    return with_steps(program, steps)


def _without(made: Step, steps: Sequence[Step]) -> list[Step]:
    """`steps` without the call that made a tensor which no other one uses."""
    result = made[1].arguments[-1]
    rest = [step for step in steps if step[1] is not made[1]]
    return list(steps) if any(result in call.buffers for _, call in rest) else rest


def _moving(step: Step, moving: Step) -> Step:
    """A call that reads a ring where it read what `moving` takes of it, such as some channels; or the same call."""
    kernel, call = step
    mover, source = moving
    result = source.arguments[-1]
    if source.parts or not _in_runs(mover.function):
        return step
    for number in reversed(range(len(call.arguments))):
        param = kernel.params[number]
        is_whole = call.arguments[number] == result and number not in call.parts and param.role == "input"
        if is_whole and _is_plain(kernel) and param.rows is None and param.shape == mover.params[-1].shape:
            inputs = sum(one.role != "output" for one in kernel.params)
            function = _with_mover(kernel.function, number, inputs, mover.function)
            kernel, call = _with_position(kernel, call, number, function, (mover, source))
    return kernel, call


def _with_mover(function: PrimFunc, number: int, inputs: int, mover: PrimFunc) -> PrimFunc:
    """`function` whose parameter `number` is what `mover` makes of a ring at a position."""
    memory, position, made = mover.params
    names = {str(one.name) for one in function.params}
    index = str(memory.shape[0].ty.dtype)
    new = [
        _parameter(name, names, [int(extent) for extent in old.shape], str(old.dtype), index)
        for name, old in (("ring", memory), ("position", position))
    ]
    renamed = {memory: new[0], position: new[1], made: function.params[number]}

    def change(one: TvmBuffer) -> TvmBuffer:
        return next((other for old, other in renamed.items() if one.same_as(old)), one)

    body = tvm_ffi.structural_map(mover.body, [(type(memory), change)])
    params = [new[0] if n == number else one for n, one in enumerate(function.params)]
    params.insert(inputs, new[1])
    return with_statements_inlined(function, params, body.block, [function.params[number]])


def _reading(step: Step, reading: Step, rows: int) -> Step:
    """A call that reads the ring where it read `rows` in their order; the same call where it cannot."""
    kernel, call = step
    for number in reversed(range(len(call.arguments))):
        if call.arguments[number] == rows and _can_read(kernel, call, number, reading[0]):
            kernel, call = _composed(kernel, call, number, reading)
    return kernel, call


def _can_read(kernel: Kernel, call: Call, number: int, read: Kernel) -> bool:
    """Whether a kernel can read a ring; not where it does not know rows, and would divide for each element."""
    param = kernel.params[number]
    row = prod(read.params[_MEMORY].shape[1:])
    if call.parts.get(number, Part(0, ())).offset % row or param.role != "input" or param.rows is not None:
        return False
    known = _axes_of_a_row(param.shape, row) is not None
    return _is_plain(kernel) and (known or with_rows(kernel.function, number, row) is not None)


def _is_plain(kernel: Kernel) -> bool:
    """Whether what a kernel reads may be inlined in it."""
    root = kernel.function.body
    plain = isinstance(root, s_tir.SBlockRealize) and not root.block.match_buffers
    return plain and not is_written(kernel.function) and not kernel.slices and kernel.sources != (ROW_WRITE,)


def _composed(kernel: Kernel, call: Call, number: int, reading: Step) -> Step:
    """A kernel that reads a ring in place of its parameter `number`, and the position behind what it reads."""
    inputs = sum(param.role != "output" for param in kernel.params)
    part = call.parts.get(number, Part(0, ()))
    row = prod(reading[0].params[_MEMORY].shape[1:])
    known = _axes_of_a_row(kernel.params[number].shape, row) is not None
    function = kernel.function if known else with_rows(kernel.function, number, row)
    assert function is not None, "_can_read has looked"  # noqa: S101
    function = _with_ring(function, number, inputs, reading[0].function, part.offset)
    return _with_position(kernel, call, number, function, reading)


def _with_position(kernel: Kernel, call: Call, number: int, function: PrimFunc, reading: Step) -> Step:
    """A call of `function`, whose parameter `number` is the ring that `reading` reads, and which has its position."""
    read, source = reading
    memory, position = source.arguments[_MEMORY], source.arguments[_POSITION]
    inputs = sum(param.role != "output" for param in kernel.params)
    mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
    rows = {_later(n, inputs): param.rows for n, param in enumerate(kernel.params) if param.rows is not None}
    made = kernel_of((*read.sources, *kernel.sources), workload_hash(function), function, [*mask, False], 0, rows)
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
    index = str(param.shape[0].ty.dtype) if shape else "int64"
    axes = [(variable(f"i{axis}", index), extent) for axis, extent in enumerate(shape)]
    place = [axis for axis, _ in axes]
    inner = _axes_of_a_row(shape, row)
    assert inner is not None, "only kernels that know rows read a ring"  # noqa: S101
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


def states_moved(program: Program) -> frozenset[str]:
    """The rings, by the name of their input, whose rows a kernel moves that does nothing else, or writes all of."""
    moving = [call for call in program.calls if _only_moves(program.kernels[call.kernel].sources)]
    read = {
        one
        for call in moving
        for one in call.arguments
        if {RING_READ, ROW_WRITE}.intersection(program.kernels[call.kernel].sources)
    }
    return frozenset(one.name_in for one in program.states if one.ring is not None and one.buffer in read)


def cost_of_moves(program: Program) -> float:
    """About how many cycles of a run only move elements, in calls that do nothing else."""
    kernels = (program.kernels[call.kernel] for call in program.calls)
    return sum(_cost(kernel, WIDEST.costs) for kernel in kernels if _only_moves(kernel.sources))


def _only_moves(sources: Sequence[str]) -> bool:
    return _MOVES.issuperset(sources)


def _cost(kernel: Kernel, costs: Costs) -> float:
    moved = sum(param.elements.size for param in kernel.params if param.role == "output")
    return moved * (costs.move_along_rows if _in_runs(kernel.function) else costs.move_apart)


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
    return not any(mentions(index, axis) for index in indices[:-1]) and step_along(indices[-1], axis) == 1
