"""The partitioned model: its kernels, the order of their calls, and the buffers that the calls use.

All later stages read this result of the graph passes. Only `Kernel.function` is a TVM object; the rest is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

import numpy as np

from edgetune.graph.layout.axis_order import reordered, to_model
from edgetune.graph.tvm_types import PrimFunc
from edgetune.target.preferences import Layout

Role = Literal["input", "constant", "output"]
BufferKind = Literal["input", "output", "intermediate", "constant"]


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


@dataclass(frozen=True)
class Buffer:
    """A tensor of the running model. Model inputs, outputs and constants live outside the arena."""

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
    """An argument that is a part of its buffer: it starts `offset` elements into it, and its `shape` has no gaps."""

    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One step of a run: kernel index and one buffer id per kernel parameter; `label` names the source operators.

    `parts` has, by number, the arguments that are parts of their buffer; all others start where their buffer starts.
    """

    kernel: int
    arguments: tuple[int, ...]
    label: str
    parts: Mapping[int, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A whole model. Every model output has its own buffer, written by one call, or by several calls in parts.

    `divisions` are other programs of the same name, inputs and outputs, with the work divided into other kernels.
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
    def constant_bytes(self) -> int:
        """Bytes of all constants, each counted once; a run reads only a part of a lookup table."""
        return sum(array.nbytes for array in self.constants.values())

    def written_in_parts(self) -> frozenset[int]:
        """Buffers that no call writes completely: several calls write one part each."""
        return frozenset(call.arguments[number] for call, number in self._parts_written()) - self._written_whole()

    def renewed_in_parts(self) -> frozenset[int]:
        """Buffers that one call writes completely and later calls overwrite in part, when those parts are dead."""
        return frozenset(call.arguments[number] for call, number in self._parts_written()) & self._written_whole()

    def parts_read(self) -> int:
        """Number of tensors that calls read as parts of larger ones, counted once per call."""
        return sum(
            self.kernels[call.kernel].params[number].role != "output" for call in self.calls for number in call.parts
        )

    def copies_into_parts(self) -> int:
        """Number of calls that only copy a tensor into its part of a buffer."""
        return sum(self.kernels[call.kernel].sources == ("copy",) for call, _ in self._parts_written())

    def _parts_written(self) -> Iterator[tuple[Call, int]]:
        for call in self.calls:
            for number in call.parts:
                if self.kernels[call.kernel].params[number].role == "output":
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
