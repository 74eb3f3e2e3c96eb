"""The partitioned model: its kernels, the order of their calls, and the buffers that the calls use.

All later stages read this result of the graph passes. Only `Kernel.function` is a TVM object; the rest is plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

import numpy as np

from edgetune.graph.layout.axis_order import reordered, to_model
from edgetune.graph.tvm_types import PrimFunc
from edgetune.target.preferences import Layout

Role = Literal["input", "constant", "output"]
_VECTOR_BYTES = 16
BufferKind = Literal["input", "output", "intermediate", "constant", "state"]


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
class StateTensor:
    """What a run leaves for the next one: the input `name_in` of the model, which the output `name_out` becomes.

    Before the first run all its elements are `zero`, or those of `values`: their bytes in C order, with the axes in the
    order of the interface. The other fields are those of `TensorSpec`, the same for input and output.
    """

    name_in: str
    name_out: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout = "model"
    zero: int = 0
    values: bytes = b""

    @property
    def ends(self) -> tuple[TensorSpec, TensorSpec]:
        """The input and the output of the model."""
        one, other = (TensorSpec(name, self.shape, self.dtype, self.layout) for name in (self.name_in, self.name_out))
        return one, other

    @property
    def first(self) -> np.ndarray:
        """Its value before the first run, with the axes in the order of the interface."""
        if self.values:
            return np.frombuffer(self.values, self.dtype).reshape(self.shape)
        return np.full(self.shape, self.zero, self.dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return byte_size(self.shape, self.dtype)


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
    between them, not in them.
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


@dataclass(frozen=True)
class Buffer:
    """A tensor of the running model. Model inputs, outputs, states and constants live outside the arena."""

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
class Part:
    """An argument that is a part of its buffer: it starts `offset` elements into it, and its `shape` has no gaps.

    With `movements`, it starts elsewhere in each iteration of the loops around its call.
    """

    offset: int
    shape: tuple[int, ...]
    movements: tuple[Movement, ...] = ()

    def with_firsts(self, changed: Callable[[BufferPart], BufferPart]) -> Part:
        """This part with other places in the first iterations: what `changed` makes of each."""
        return replace(
            self,
            movements=tuple(m if m.first is None else replace(m, first=changed(m.first)) for m in self.movements),
        )

    def in_buffers(self, numbers: Mapping[int, int]) -> Part:
        """This part with new numbers of the buffers that it is in first iterations."""
        return self.with_firsts(lambda first: BufferPart(numbers[first.buffer], first.part.in_buffers(numbers)))

    def is_unaligned(self, dtype: str) -> bool:
        """Whether it may begin at another place than a multiple of the widest access of one thread of a GPU."""
        steps = (self.offset, *(movement.elements for movement in self.movements))
        firsts = (movement.first.part for movement in self.movements if movement.first is not None)
        return any(byte_size((abs(step),), dtype) % _VECTOR_BYTES for step in steps) or any(
            first.is_unaligned(dtype) for first in firsts
        )


@dataclass(frozen=True)
class Movement:
    """How an argument moves with a loop: iteration i adds `elements` * ((i + `ahead`) mod `rows`) to where it starts.

    Without `rows`, nothing is wrapped. Where there is a `first`, the argument is that instead in the first iteration:
    the value that a state has before the loop.
    """

    loop: int
    elements: int
    rows: int = 0
    ahead: int = 0
    first: BufferPart | None = None

    def at(self, iteration: int) -> int:
        """Elements that `iteration` adds."""
        row = iteration + self.ahead
        return self.elements * (row % self.rows if self.rows else row)


@dataclass(frozen=True)
class BufferPart:
    """A buffer, and the part of it that is meant."""

    buffer: int
    part: Part


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
            yield from ((number, place) for place in _places(BufferPart(buffer, self.parts.get(number, Part(0, ())))))

    @property
    def buffers(self) -> tuple[int, ...]:
        """All buffers that it reads or writes in some iteration."""
        return tuple(dict.fromkeys(place.buffer for _, place in self.places))

    def in_buffers(self, numbers: Mapping[int, int]) -> Call:
        """This call with new numbers of buffers."""
        parts = {number: part.in_buffers(numbers) for number, part in self.parts.items()}
        return replace(self, arguments=tuple(numbers[one] for one in self.arguments), parts=parts)


def _places(place: BufferPart) -> Iterator[BufferPart]:
    yield place
    for movement in place.part.movements:
        if movement.first is not None:
            yield from _places(movement.first)


@dataclass(frozen=True)
class Program:
    """A whole model. Every model output has its own buffer, written by one call, or by several calls in parts.

    `loops` are in the order of their first calls, outer ones before those in them. `divisions` are
    other programs of the same name, inputs and outputs, with the work divided into other kernels. `states` are kept
    from run to run (see `states.py`); neither `inputs` nor `outputs` have them.
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
