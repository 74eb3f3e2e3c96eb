"""States: turns inputs and outputs of a program into tensors that it keeps from run to run.

The output of a state is written into the state's own buffer. Where a call may read the old state after the first call
that writes the new one, the new one gets a buffer of its own, and a copy at the end of the run. That copy is left out
where the last reader of the old state overwrites it (`states_in_place`), which is known when its loops are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from edgetune.graph.kernels import copy_function, kernel_of, named, plain_function
from edgetune.graph.layout.axis_order import exchanged
from edgetune.graph.loops import loops_around, stage_of_each_call
from edgetune.graph.program import Buffer, Call, Program, StateSpec
from edgetune.graph.ring_reads import with_rings_read
from edgetune.graph.row_writes import advanced, with_rows_written
from edgetune.graph.workload import workload_hash

_COPY = ("copy",)
_MOST_FILLED = 1 << 24
"""The largest number that fills a state: it is an int in C on every board, and a float32 has it exactly."""


def with_states(
    program: Program, pairs: Mapping[str, str], first: Mapping[str, np.ndarray] = MappingProxyType({})
) -> Program:
    """`program` that keeps the outputs `pairs` (by input) from run to run, in its divisions as well.

    Input and output of a pair have equal shapes, types and layouts, and no output is in two pairs. `first` are the
    values before the first run, by input, in the model's axes; without one, all elements stand for 0.
    """
    if not pairs:
        return program
    for name_in, name_out in pairs.items():
        program = _with_state(program, name_in, name_out, first.get(name_in))
    for ring in {ring.position: ring for ring, _ in program.rings.values()}.values():
        program, new, position = advanced(program, ring)
        program = _with_copy(program, new, position)
    divisions = tuple(with_states(division, pairs, first) for division in program.divisions)
    kept = replace(program, rings={}, divisions=divisions)
    return with_rings_read(kept) if program.rings else kept


def _with_state(program: Program, name_in: str, name_out: str, first: np.ndarray | None) -> Program:
    names = [spec.name for spec in program.inputs], [spec.name for spec in program.outputs]
    spec, old = program.inputs[names[0].index(name_in)], program.input_buffers()[names[0].index(name_in)].id
    new = program.output_buffers()[names[1].index(name_out)].id
    zero = 0 if spec.quantisation is None else spec.quantisation.zero_point
    ring, shape = program.rings.get(name_in, (None, spec.shape))
    state = StateSpec(name_in, name_out, shape, spec.dtype, spec.layout, zero, ring=ring, buffer=old)
    if first is not None:
        state = _that_begins(state, exchanged({name_in: first}, {name_in: spec.layout})[name_in])
    buffers = [replace(b, kind="state") if b.id == old else b for b in program.buffers]
    buffers[new] = replace(buffers[new], kind="intermediate")
    kept = replace(
        program,
        inputs=tuple(one for one in program.inputs if one.name != name_in),
        outputs=tuple(one for one in program.outputs if one.name != name_out),
        buffers=tuple(buffers),
        states=(*program.states, state),
    )
    written = with_rows_written(kept, old, new, 1 if ring is None else ring.count)
    if written is not None:
        return written
    if max(_layers(kept, old, written=False), default=-1) < min(_layers(kept, new, written=True), default=0):
        return _joined(kept, new, old)[0]
    return _with_copy(kept, new, state)


def _that_begins(state: StateSpec, first: np.ndarray) -> StateSpec:
    """`state` with other values before the first run, in the axes of the interface."""
    values = np.ascontiguousarray(first, state.dtype)
    alike = values.size == 0 or values.tobytes() == values.ravel()[:1].tobytes() * values.size
    zero = float(values.ravel()[0]) if alike and values.size else 0.0
    if alike and zero.is_integer() and abs(zero) <= _MOST_FILLED and (zero or not np.signbit(zero)):
        return replace(state, zero=int(zero))
    return replace(state, values=values.tobytes())


def _layers(program: Program, buffer: int, *, written: bool) -> list[int]:
    """The layers that read a buffer, or write it: what a loop reads, it may read after it has written."""
    layers = stage_of_each_call(program)
    return [layers[number] for number, _ in _accesses(program, buffer, written=written)]


def _accesses(program: Program, buffer: int, *, written: bool) -> list[tuple[int, int]]:
    """Call and parameter, both by number, where a buffer is read, or written."""
    return [
        (number, parameter)
        for number, call in enumerate(program.calls)
        for parameter, place in call.places
        if place.buffer == buffer and (program.kernels[call.kernel].params[parameter].role == "output") == written
    ]


def _with_copy(program: Program, new: int, state: StateSpec) -> Program:
    """`program` that ends with a copy of the buffer `new` into a state."""
    function = plain_function(copy_function(state.memory_shape, state.dtype), (False,))
    copying = kernel_of(_COPY, workload_hash(function), function, (False,), 0)
    workloads = [kernel.workload for kernel in program.kernels]
    kernels = list(program.kernels)
    if copying.workload not in workloads:
        kernels.append(copying)
        workloads.append(copying.workload)
    number = workloads.index(copying.workload)
    kernels[number] = replace(kernels[number], weight=kernels[number].weight + 1)
    call = Call(number, (new, state.buffer), f"{state.name_out} (copy)")
    return replace(program, kernels=named(kernels), calls=(*program.calls, call))


def states_in_place(program: Program, replaceable: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Tensors that a copy at the end moves into a state, and that overwrite it instead: by the state's buffer.

    `replaceable` is as in `in_place_outputs`. One call writes such a tensor, no later one reads the old state, and
    where that call itself reads it, it may write in place.
    """
    found = {}
    for state in program.states:
        copying = copy_into(program, state.buffer)
        if copying is None:
            continue
        new = program.calls[copying].arguments[0]
        writes = _accesses(program, new, written=True)
        if len(writes) == 1 and _may_overwrite(program, state.buffer, *writes[0], replaceable):
            found[new] = state.buffer
    return found


def copy_into(program: Program, state: int) -> int | None:
    """The call, by number, that copies a whole tensor of the workspace into a state, after all loops."""
    writes = _accesses(program, state, written=True)
    number = writes[0][0] if len(writes) == 1 else -1
    if number < max((loop.stop for loop in program.loops), default=0):
        return None
    call = program.calls[number]
    whole = program.kernels[call.kernel].sources == _COPY and not call.parts
    return number if whole and program.buffers[call.arguments[0]].kind == "intermediate" else None


def _may_overwrite(
    program: Program, state: int, writer: int, result: int, replaceable: Mapping[int, Sequence[int]]
) -> bool:
    """Whether the call `writer` may write its parameter `result` over a state."""
    call = program.calls[writer]
    if result in call.parts or loops_around(program, writer):
        return False
    reads = _accesses(program, state, written=False)
    own = [parameter for number, parameter in reads if number == writer]
    if any(number > writer for number, _ in reads) or len(own) > 1:
        return False
    return all(one in replaceable.get(call.kernel, ()) and one not in call.parts for one in own)


def with_states_overwritten(program: Program, in_place: Mapping[int, int]) -> tuple[Program, dict[int, int]]:
    """`program` without the copies of those tensors `in_place` that overwrite a state, and the rest of `in_place`."""
    rest = dict(in_place)
    while True:
        new = next((one for one, over in rest.items() if program.buffers[over].kind == "state"), None)
        if new is None:
            return program, rest
        old = rest.pop(new)
        copying = copy_into(program, old)
        calls = tuple(call for number, call in enumerate(program.calls) if number != copying)
        program, numbers = _joined(replace(program, calls=calls), new, old)
        rest = {numbers[one]: numbers[over] for one, over in rest.items()}


def as_built(program: Program, copied: Mapping[str, bool]) -> Program:
    """`program` as a package has it that says of its states, by input, whether a copy ends the run."""
    every = {number: range(len(kernel.params)) for number, kernel in enumerate(program.kernels)}
    own = {state.buffer for state in program.states if not copied[state.name_in]}
    found = {new: old for new, old in states_in_place(program, every).items() if old in own}
    return with_states_overwritten(program, found)[0]


def _joined(program: Program, gone: int, kept: int) -> tuple[Program, dict[int, int]]:
    """`program` in which one buffer takes the place of another, and the new numbers of all buffers."""
    left = [buffer for buffer in program.buffers if buffer.id != gone]
    numbers = {buffer.id: number for number, buffer in enumerate(left)}
    numbers[gone] = numbers[kept]
    buffers: list[Buffer] = [replace(buffer, id=number) for number, buffer in enumerate(left)]
    joined = replace(
        program,
        buffers=tuple(buffers),
        calls=tuple(call.in_buffers(numbers) for call in program.calls),
        constants={numbers[buffer]: array for buffer, array in program.constants.items()},
        states=tuple(replace(state, buffer=numbers[state.buffer]) for state in program.states),
    )
    return joined, numbers
