"""The partitioned model: its kernels, the order of their calls, and the buffers that the calls use.

All later stages read this result of the graph passes. Only `Kernel.function` is a TVM object; the rest is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from edgetune.graph.layout.axis_order import reordered, to_model
from edgetune.graph.parts import BufferPart, Part
from edgetune.target.preferences import Io, Layout
from edgetune.tvm_types import PrimFunc

Role = Literal["input", "constant", "output"]
BufferKind = Literal["input", "output", "intermediate", "constant", "state"]

_IN_ARENA: Mapping[Io, frozenset[BufferKind]] = {
    "caller": frozenset({"intermediate"}),
    "arena": frozenset({"intermediate", "input", "output"}),
}


def byte_size(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a dense tensor of `shape` (elements per axis) and numpy dtype name `dtype`."""
    return prod(shape) * np.dtype(dtype).itemsize


@dataclass(frozen=True)
class LinearQuantisation:
    """What the integers of a tensor stand for: (integer - zero_point) * scale. `scale` is a float32."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of the model, with the name its author gave it; `dtype` is a numpy dtype name.

    `shape` has the axes in the order of the interface; `layout` is how that order derives from the model's order.
    `image` is true if the tensor is (N, C, spatial...) in the model. `selection` is true if its first rows are those of
    selected boxes, and its remaining rows are -1. `quantisation` says what its integers stand for, where that is known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout = "model"
    image: bool = field(default=False, compare=False)
    selection: bool = field(default=False, compare=False)
    quantisation: LinearQuantisation | None = field(default=None, compare=False)

    def of_model(self) -> TensorSpec:
        """The tensor with its axes in the order of the model."""
        return TensorSpec(self.name, reordered(self.shape, to_model(len(self.shape), self.layout)), self.dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return byte_size(self.shape, self.dtype)


@dataclass(frozen=True)
class Ring:
    """A ring buffer: `rows` rows along one `axis` of a tensor, which lies outermost in memory.

    A run writes `count` rows behind those of the run before; the first rows follow the last ones. `rows` is a multiple
    of `count`, so the rows of a run lie together. `position` is the input of the program (int32) that counts the runs
    since the reset, modulo `steps`.
    """

    axis: int
    rows: int
    count: int
    position: str = ""

    @property
    def steps(self) -> int:
        """After so many runs, the same rows are written again."""
        return self.rows // self.count

    def shape(self, tensor: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the memory for a tensor of this shape."""
        return (self.rows, *tensor[: self.axis], *tensor[self.axis + 1 :])

    def laid(self, tensor: np.ndarray, fill: int) -> np.ndarray:
        """The memory before the first run: the rows of `tensor` are its last ones, and others are `fill`."""
        last = np.moveaxis(tensor, self.axis, 0)
        whole = np.full(self.shape(tensor.shape), fill, tensor.dtype)
        whole[self.rows - len(last) :] = last
        return whole

    def in_order(self, memory: np.ndarray, position: int, kept: int) -> np.ndarray:
        """The tensor of the last `kept` rows that the memory has before the run at a position."""
        return np.moveaxis(np.roll(memory, -position * self.count, 0)[self.rows - kept :], 0, self.axis)


@dataclass(frozen=True)
class StateTensor:
    """What a run leaves for the next one: the input `name_in` of the model, which the output `name_out` becomes.

    Before the first run all its elements are `zero`, or those of `values`: their bytes in C order, with the axes in the
    order of the interface. The other fields are those of `TensorSpec`, the same for input and output.
    With a `ring`, it is the last rows of a ring buffer. The position of rings is a state without an input, whose output
    has the name of `Ring.position`: no model has it.
    """

    name_in: str
    name_out: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout = "model"
    zero: int = 0
    values: bytes = b""
    ring: Ring | None = None

    @property
    def of_model(self) -> bool:
        """Whether the model has it, as an input and an output."""
        return bool(self.name_in)

    @property
    def ends(self) -> tuple[TensorSpec, ...]:
        """The input and the output of the model."""
        names = (self.name_in, self.name_out) if self.of_model else ()
        return tuple(TensorSpec(name, self.shape, self.dtype, self.layout) for name in names)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of what lies in memory."""
        return self.shape if self.ring is None else self.ring.shape(self.shape)

    def in_memory(self, value: np.ndarray) -> np.ndarray:
        """What lies in memory where it has this value and its ring begins anew, in `memory_shape`."""
        return value.reshape(self.shape) if self.ring is None else self.ring.laid(value.reshape(self.shape), self.zero)

    @property
    def first(self) -> np.ndarray:
        """Its value before the first run, with the axes in the order of the interface."""
        if self.values:
            return np.frombuffer(self.values, self.dtype).reshape(self.shape)
        return np.full(self.shape, self.zero, self.dtype)

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return byte_size(self.memory_shape, self.dtype)


@dataclass(frozen=True)
class StateSpec(StateTensor):
    """A state of a program, in the `buffer` that keeps it from run to run."""

    buffer: int = field(kw_only=True)


@dataclass(frozen=True)
class Rows:
    """The elements that a kernel touches in a tensor with gaps: the first `length` of every `pitch` elements.

    With `inner`, it touches only those rows of these rows.
    """

    length: int
    pitch: int
    inner: Rows | None = None

    def elements(self, count: int) -> np.ndarray:
        """Their indices among the first `count` elements, in order; `count` is a multiple of the pitch."""
        return self._among(np.arange(count))

    def _among(self, places: np.ndarray) -> np.ndarray:
        found = places.reshape(-1, self.pitch)[:, : self.length].reshape(-1)
        return found if self.inner is None else self.inner._among(found)  # noqa: SLF001 - of the same class

    @property
    def share(self) -> float:
        """The part of all elements that the kernel touches."""
        return self.length / self.pitch * (1.0 if self.inner is None else self.inner.share)

    def __str__(self) -> str:
        outer = f"the first {self.length} of every {self.pitch} elements"
        return outer if self.inner is None else f"{outer}, and of these {self.inner}"


@dataclass(frozen=True)
class Param:
    """One tensor parameter of a kernel, with its shape before any weight packing.

    With `rows`, the kernel touches only those rows: `shape` then includes the gaps, which belong to other tensors.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    rows: Rows | None = None

    @property
    def elements(self) -> np.ndarray:
        """Indices of the elements that the kernel may touch, in order, counted from its first element."""
        return np.arange(prod(self.shape)) if self.rows is None else self.rows.elements(prod(self.shape))


@dataclass(frozen=True)
class Kernel:
    """One fused operator group, called `weight` times per run.

    `function` is the unscheduled PrimFunc; its parameters are tensors: inputs and constants in call order, then
    outputs. `workload` is the SHA-256 of its structure: equal workloads are one tuning task. `scratch` is the number of
    scratch bytes that each thread may always use, because the kernel saves the arena the memory of intermediate
    tensors. `unaligned` are parameters that some call passes as a part of a tensor at no multiple of 16 bytes.
    `slices` has the parameters that are touched slice by slice, with the elements of a slice: these may have gaps
    between them, not in them. `definition` is what a tensor expression says, before any pass: other forms of the kernel
    are made of it.
    """

    name: str
    workload: str
    function: PrimFunc
    params: tuple[Param, ...]
    sources: tuple[str, ...]
    macs: int
    weight: int
    scratch: int = 0
    unaligned: tuple[int, ...] = ()
    slices: Mapping[int, int] = field(default_factory=dict)
    definition: PrimFunc = None


@dataclass(frozen=True)
class Buffer:
    """A tensor of the running model; `Program.in_arena` says whether it lies in the arena."""

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: BufferKind

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return byte_size(self.shape, self.dtype)


@dataclass(frozen=True)
class Loop:
    """The calls from `start` to `stop` - 1 run `steps` times, one after the other; loops lie within each other.

    `label` names the operator that it comes from.
    """

    start: int
    stop: int
    steps: int
    label: str


@dataclass(frozen=True)
class Call:
    """One call of a run: kernel index and one buffer id per kernel parameter; `label` names the source operators.

    `parts` has, by number, the arguments that are parts of their buffer; all others start where their buffer starts.
    """

    kernel: int
    arguments: tuple[int, ...]
    label: str
    parts: Mapping[int, Part] = field(default_factory=dict)

    @property
    def places(self) -> Iterator[tuple[int, BufferPart]]:
        """Each argument by its number and place; one that is elsewhere in a first iteration has both places."""
        for number, buffer in enumerate(self.arguments):
            yield from ((number, place) for place in BufferPart(buffer, self.parts.get(number, Part(0, ()))).all_places)

    @property
    def buffers(self) -> tuple[int, ...]:
        """All buffers that it reads or writes in some iteration, and those with numbers of rows."""
        return tuple(dict.fromkeys((*(place.buffer for _, place in self.places), *self.numbers_of_rows)))

    @property
    def numbers_of_rows(self) -> tuple[int, ...]:
        """The buffers that say at which row an argument begins."""
        return tuple(part.row.buffer for part in self.parts.values() if part.row is not None)

    def in_buffers(self, numbers: Mapping[int, int]) -> Call:
        """This call with new numbers of buffers."""
        parts = {number: part.in_buffers(numbers) for number, part in self.parts.items()}
        return replace(self, arguments=tuple(numbers[one] for one in self.arguments), parts=parts)


class LeftOut(NamedTuple):
    """A layer that computes all but `channels_left_out` of its `channels`: those are one number for every input."""

    label: str
    channels_left_out: int
    channels: int


@dataclass(frozen=True)
class Program:
    """A whole model. Every model output has its own buffer, written by one call, or by several calls in parts.

    `loops` are in the order of their first calls, outer ones before those in them. `divisions` are other programs of
    the same name, inputs and outputs, with other kernels (see `pipeline/divisions.py`). `states` are kept from run to
    run (see `states.py`); neither `inputs` nor `outputs` have them. `rings` are the ring buffers among the
    inputs that are to become states, by name, with the shapes that the model gives these inputs. `io` says where inputs
    and outputs lie; states and constants never lie in the arena.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    calls: tuple[Call, ...]
    constants: dict[int, np.ndarray] = field(repr=False)
    model_sha256: str
    divisions: tuple[Program, ...] = ()
    loops: tuple[Loop, ...] = ()
    states: tuple[StateSpec, ...] = ()
    rings: Mapping[str, tuple[Ring, tuple[int, ...]]] = field(default_factory=dict)
    constant_channels: tuple[LeftOut, ...] = ()
    io: Io = "caller"

    def with_io(self, io: Io) -> Program:
        """The program with its inputs and outputs in another place, in its divisions as well."""
        return replace(self, io=io, divisions=tuple(division.with_io(io) for division in self.divisions))

    def in_arena(self, buffer: int) -> bool:
        """Whether a buffer lies in the arena, where the memory plan gives it a place among the others."""
        return self.buffers[buffer].kind in _IN_ARENA[self.io]

    def with_quantisation(self, known: Mapping[str, LinearQuantisation]) -> Program:
        """The program with the quantisation of its inputs and outputs, by name, in its divisions as well."""
        if not known:
            return self
        inputs, outputs = (
            tuple(replace(spec, quantisation=known.get(spec.name)) for spec in side)
            for side in (self.inputs, self.outputs)
        )
        divisions = tuple(division.with_quantisation(known) for division in self.divisions)
        return replace(self, inputs=inputs, outputs=outputs, divisions=divisions)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """The inputs and outputs of the model, also those that are states."""
        return (*self.inputs, *self.outputs, *(end for state in self.states for end in state.ends))

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, each counted once; a run reads only a part of a lookup table."""
        return sum(array.nbytes for array in self.constants.values())

    def moving(self) -> frozenset[int]:
        """Buffers of which the iterations of a loop read or write one slice each."""
        return frozenset(
            call.arguments[number] for call in self.calls for number, part in call.parts.items() if part.movements
        )

    def written_in_parts(self) -> frozenset[int]:
        """Buffers that no call writes completely: several calls write one part each."""
        return frozenset(call.arguments[number] for call, number in self._parts_written()) - self._written_whole()

    def renewed_in_parts(self) -> frozenset[int]:
        """Buffers that one call writes completely and later calls overwrite in part, when those parts are dead."""
        return frozenset(call.arguments[number] for call, number in self._parts_written()) & self._written_whole()

    def parts_read(self) -> int:
        """Number of tensors that calls read as parts of larger ones, counted once per call."""
        return sum(
            self.kernels[call.kernel].params[number].role != "output" and not part.movements
            for call in self.calls
            for number, part in call.parts.items()
        )

    def copies_into_parts(self) -> int:
        """Number of calls that only copy a tensor into its part of a buffer."""
        return sum(self.kernels[call.kernel].sources == ("copy",) for call, _ in self._parts_written())

    def _parts_written(self) -> Iterator[tuple[Call, int]]:
        for call in self.calls:
            for number, part in call.parts.items():
                if self.kernels[call.kernel].params[number].role == "output" and not part.movements:
                    yield call, number

    def _written_whole(self) -> frozenset[int]:
        return frozenset(
            argument
            for call in self.calls
            for number, (argument, param) in enumerate(
                zip(call.arguments, self.kernels[call.kernel].params, strict=True)
            )
            if param.role == "output" and number not in call.parts
        )

    def input_buffers(self) -> tuple[Buffer, ...]:
        """Buffers of kind "input", in the order of `inputs`."""
        return tuple(b for b in self.buffers if b.kind == "input")

    def output_buffers(self) -> tuple[Buffer, ...]:
        """Buffers of kind "output", in the order of `outputs`."""
        return tuple(b for b in self.buffers if b.kind == "output")
