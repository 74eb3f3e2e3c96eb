"""Row writes: a call that writes some rows of a state into the state's own memory, where the state says, and no others.

Until then, it is a function that makes a whole tensor of another one (`rings.row_write`). Here the rows alone are
written: by a copy, or by the kernel that computes them, whose output lies in the state then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tvm import te, tirx

from edgetune.graph.kernels import copy_function, kernel_of, named, plain_function
from edgetune.graph.loops import loops_around, times_called
from edgetune.graph.parts import NumberedRow, Part
from edgetune.graph.program import Buffer, Call, Kernel, Program, Ring, Rows, StateSpec
from edgetune.graph.row_functions import ROW_WRITE
from edgetune.graph.views.strided_view import with_gaps
from edgetune.graph.workload import workload_hash
from edgetune.tvm_types import PrimFunc

_MEMORY, _ROWS, _NUMBER, _RESULT = range(4)
"""Parameters of the function `row_write`."""

Step = tuple[Kernel, Call]
"""A call and its kernel."""


def steps_of(program: Program) -> list[Step]:
    """The calls of `program` in their order, with their kernels."""
    return [(program.kernels[call.kernel], call) for call in program.calls]


def with_steps(program: Program, steps: Sequence[Step]) -> Program:
    """`program` that makes other calls, of kernels that may be new ones; it has no loops that these would move.

    Intermediate tensors and constants that no call uses are gone.
    """
    used = {buffer for _, call in steps for buffer in call.buffers}
    kept = [b for b in program.buffers if b.id in used or b.kind not in {"intermediate", "constant"}]
    numbers = {buffer.id: number for number, buffer in enumerate(kept)}
    kernels = {kernel.workload: kernel for kernel, _ in steps}
    index = {workload: number for number, workload in enumerate(kernels)}
    changed = replace(
        program,
        buffers=tuple(replace(buffer, id=numbers[buffer.id]) for buffer in kept),
        calls=tuple(replace(call.in_buffers(numbers), kernel=index[kernel.workload]) for kernel, call in steps),
        constants={numbers[one]: array for one, array in program.constants.items() if one in numbers},
        states=tuple(replace(state, buffer=numbers[state.buffer]) for state in program.states),
    )
    weights = dict.fromkeys(kernels, 0)
    for number, (kernel, _) in enumerate(steps):
        weights[kernel.workload] += times_called(changed, number)
    return replace(changed, kernels=named([replace(kernels[one], weight=weights[one]) for one in kernels]))


def with_rows_written(program: Program, old: int, new: int, unit: int = 1) -> Program | None:
    """`program` whose buffer `old`, a state, gets only those rows that make it `new`; None where that cannot be.

    It cannot where all of the new state is computed, or something reads the old one after it was written. Numbers count
    groups of `unit` rows.
    """
    program = _with_numbers_first(program)
    writer = _row_write(program, old, new)
    if writer is None or program.loops:
        return None
    readers = [number for number, call in enumerate(program.calls) if old in call.buffers]
    if max(readers) > writer:
        return None
    call = program.calls[writer]
    rows = program.buffers[call.arguments[_ROWS]]
    memory, written = (program.kernels[call.kernel].params[number].shape for number in (_MEMORY, _ROWS))
    axis = next((axis for axis, extent in enumerate(memory) if written[axis] < extent), 0)
    inner = prod(memory[axis + 1 :])
    row = NumberedRow(call.arguments[_NUMBER], unit * inner, (memory[axis] - written[axis]) // unit + 1)
    there = Part(0, rows.shape, row=row)
    steps = steps_of(program)
    lengths = prod(memory[:axis]), written[axis] * inner, memory[axis] * inner
    if lengths[0] == 1 and _is_movable(program, rows, writer, old):
        steps = [(kernel, _moved(one, rows.id, old, there)) for kernel, one in steps[:writer] + steps[writer + 1 :]]
    else:
        steps[writer] = (_copying(*lengths, rows.dtype), Call(0, (rows.id, old), call.label, {1: there}))
    steps = [(kernel, _moved(one, new, old, None)) for kernel, one in steps]
    return with_steps(replace(program, buffers=_without_output(program, new)), steps)


def _row_write(program: Program, old: int, new: int) -> int | None:
    """The call, by number, that makes the state `new` of `old` by a write of rows, both whole tensors."""
    for number, call in enumerate(program.calls):
        writes = program.kernels[call.kernel].sources == (ROW_WRITE,) and not call.parts
        if writes and (call.arguments[_MEMORY], call.arguments[_RESULT]) == (old, new):
            return number
    return None


def _with_numbers_first(program: Program) -> Program:
    """`program` that begins with the calls that make numbers of rows of its inputs: whatever writes rows knows them."""
    numbers = {
        call.arguments[_NUMBER] for call in program.calls if program.kernels[call.kernel].sources == (ROW_WRITE,)
    }
    first = [
        number
        for number, call in enumerate(program.calls)
        if numbers.intersection(call.arguments)
        and program.kernels[call.kernel].sources != (ROW_WRITE,)
        and all(program.buffers[one].kind == "input" or one in numbers for one in call.arguments)
    ]
    if not first or program.loops:
        return program
    rest = [number for number in range(len(program.calls)) if number not in first]
    return replace(program, calls=tuple(program.calls[number] for number in (*first, *rest)))


def _without_output(program: Program, new: int) -> tuple[Buffer, ...]:
    return tuple(replace(one, kind="intermediate") if one.id == new else one for one in program.buffers)


def _is_movable(program: Program, rows: Buffer, writer: int, state: int) -> bool:
    """Whether the kernel that computes `rows` may write them into the state: all that uses them finds them there.

    One call writes them, whole, after their number is known, and nothing reads the state between that and the call
    `writer`.
    """
    if rows.kind != "intermediate":
        return False
    uses = [
        (number, parameter, place)
        for number, call in enumerate(program.calls)
        for parameter, place in call.places
        if place.buffer == rows.id
    ]
    if any(place.part != Part(0, ()) and parameter in program.calls[number].parts for number, parameter, place in uses):
        return False
    if any(loops_around(program, number) for number, _, _ in uses):
        return False
    writes = _writers(program, rows.id)
    if len(writes) != 1 or any(one > writes[0] for one in _writers(program, program.calls[writer].arguments[_NUMBER])):
        return False
    return not any(state in call.buffers for call in program.calls[writes[0] : writer])


def _writers(program: Program, buffer: int) -> list[int]:
    """The calls, by number, that write a buffer or a part of it."""
    return [
        number
        for number, call in enumerate(program.calls)
        for one, param in zip(call.arguments, program.kernels[call.kernel].params, strict=True)
        if one == buffer and param.role == "output"
    ]


def _moved(call: Call, old: int, new: int, part: Part | None) -> Call:
    """A call that uses the buffer `new`, or that part of it, where it used `old`."""
    parts = dict(call.parts)
    if part is not None:
        parts |= {number: part for number, buffer in enumerate(call.arguments) if buffer == old}
    return replace(call, arguments=tuple(new if one == old else one for one in call.arguments), parts=parts)


def _copying(outer: int, length: int, pitch: int, dtype: str) -> Kernel:
    """The copy of so many dense pieces of `length` elements to places that are `pitch` elements apart."""
    if outer == 1:
        function = plain_function(copy_function((length,), dtype), (False,))
        return kernel_of(("copy",), workload_hash(function), function, (False,), 0)
    function = with_gaps(copy_function((outer, length), dtype), {1: (outer, pitch)})
    plain = plain_function(function, (False,))
    return kernel_of(("copy",), workload_hash(plain), plain, (False,), 0, {1: Rows(length, pitch)})


def advanced(program: Program, ring: Ring) -> tuple[Program, int, StateSpec]:
    """`program` that ends with the next position of rings, its buffer, and the state that the position is.

    The position leaves the inputs.
    """
    number = [spec.name for spec in program.inputs].index(ring.position)
    position = program.input_buffers()[number].id
    function = plain_function(_next(ring.steps), (False,))
    kernel = kernel_of(("next_position",), workload_hash(function), function, (False,), 0)
    result = Buffer(len(program.buffers), "next position", (), "int32", "intermediate")
    state = StateSpec("", ring.position, (), "int32", buffer=position)
    buffers = [replace(one, kind="state") if one.id == position else one for one in program.buffers]
    kept = replace(
        program,
        inputs=tuple(spec for spec in program.inputs if spec.name != ring.position),
        buffers=(*buffers, result),
        states=(*program.states, state),
    )
    call = Call(0, (position, result.id), f"next {ring.position}")
    return with_steps(kept, [*steps_of(kept), (kernel, call)]), result.id, state


def _next(steps: int) -> PrimFunc:
    """The position after a run, of so many."""
    position = te.placeholder((), "int32", "position")
    first, more = tirx.const(0, "int32"), position() + tirx.const(1, "int32")
    last = position() >= tirx.const(steps - 1, "int32")
    return te.create_prim_func([position, te.compute((), lambda: tirx.Select(last, first, more), name="next")])
