"""Public interface of a package: tensors as C struct fields, sizes, alignment, and a fingerprint over all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from edgetune.codegen.kernel_source import KernelSource
from edgetune.graph.layout.axis_order import axis_names, from_model, reordered, to_model
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Buffer, LinearQuantisation, Program, TensorSpec
from edgetune.graph.stream import SteppedTensor, StreamedTensor, WindowStream
from edgetune.package.ctext import c_type, element_type, real
from edgetune.package.golden import OutputTolerance
from edgetune.package.ident import unique_identifiers
from edgetune.package.states import WORD_BYTES, KeptState, layout_word, state_bytes
from edgetune.package.workspaces import PackageWorkspace
from edgetune.target.preferences import Io, Layout

LAYOUT_VERSION = 2
CONTEXT_WORDS = 8
WORKSPACE_ALIGNMENT = 64


@dataclass(frozen=True)
class PublicTensor:
    """An input or output: `field` of the C struct, `name` as in the model (untrusted), shape in elements, `nbytes`.

    `layout` says how the order of its axes differs from the model's, `image` whether the model has (N, C, spatial...).
    `selection`: only the first rows are selected, all later rows are -1. `quantisation`: what integers stand for.
    `offset` is where it begins in a workspace, by the number of it, in bytes; None where the caller has it.
    """

    field: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    c_type: str
    elements: int
    nbytes: int
    alignment: int
    buffer: int
    tolerance: OutputTolerance
    layout: Layout = "model"
    image: bool = False
    selection: bool = False
    quantisation: LinearQuantisation | None = None
    offset: int | None = None
    workspace: int = 0

    @property
    def extents(self) -> tuple[tuple[str, int], ...]:
        """Macro name and extent of each axis, in order: N, C, H, W of an image, else DIM0, DIM1..."""
        names: Sequence[str] = [f"DIM{axis}" for axis in range(len(self.shape))]
        if self.image:
            names = reordered(axis_names(len(self.shape)), from_model(len(self.shape), self.layout))
        return tuple(zip(names, self.shape, strict=True))

    @property
    def axes(self) -> str:
        """The meaning of the axes, where their order is not the model's; "" otherwise."""
        if self.layout == "model":
            return ""
        names = axis_names(len(self.shape))
        here = reordered(names, from_model(len(names), self.layout))
        return f"({', '.join(here)}; in the model {', '.join(names)})"

    @property
    def model_shape(self) -> tuple[int, ...]:
        """The shape with the axes in the order of the model."""
        return reordered(self.shape, to_model(len(self.shape), self.layout))

    @property
    def macro(self) -> str:
        """The field in capitals, for macro names."""
        return self.field.upper()

    @property
    def meaning(self) -> str:
        """The meaning of an element, for the header's comment."""
        special = {
            "float16": "IEEE 754 half precision, as bits",
            "bfloat16": "bfloat16, as bits",
            "bool": "0 or 1",
            "float32": "IEEE 754 single precision",
            "float64": "IEEE 754 double precision",
        }
        kind = special.get(self.dtype, f"{'unsigned' if self.dtype[0] == 'u' else 'signed'} integer")
        if self.quantisation is not None:
            kind += f" q that stands for {self.real_value('q')}"
        return f"{kind}, -1 in all rows after the selected ones" if self.selection else kind

    def real_value(self, integer: str) -> str:
        """The real number that an `integer` of a quantised tensor stands for, as a formula."""
        found = self.quantisation
        if found is None:
            return integer
        sign = "-" if found.zero_point >= 0 else "+"
        centred = f"({integer} {sign} {abs(found.zero_point)})" if found.zero_point else integer
        return f"{centred} * {self.scale_literal}"

    @property
    def scale_literal(self) -> str:
        """The scale in the fewest decimal digits that give the same float."""
        return "" if self.quantisation is None else str(np.float32(self.quantisation.scale))

    @property
    def element_type(self) -> str:
        """Name of the element type in the self-test."""
        return element_type(self.dtype)

    def tolerance_literal(self, suffix: str) -> str:
        """Return the tolerance as C initialisers, with the `suffix` of the literals' type."""
        numbers = {name: getattr(self.tolerance, name) for name in ("relative", "absolute", "share")}
        return ", ".join(f".{name} = {real(number, suffix)}" for name, number in numbers.items())


@dataclass(frozen=True)
class Interface:
    """Everything an application compiles against."""

    prefix: str
    inputs: tuple[PublicTensor, ...]
    outputs: tuple[PublicTensor, ...]
    workspace_bytes: int
    layers: int
    external_weights: bool
    weights_bytes: int
    threads: int = 1
    states: tuple[KeptState, ...] = ()
    stream: WindowStream | None = None
    io: Io = "caller"
    workspaces: tuple[PackageWorkspace, ...] = ()

    def __post_init__(self) -> None:
        if not self.workspaces:
            object.__setattr__(self, "workspaces", (PackageWorkspace("", "", self.workspace_bytes),))

    @property
    def regions(self) -> tuple[PackageWorkspace, ...]:
        """The workspaces, where there are several: then an instance is given a struct of them."""
        return self.workspaces if len(self.workspaces) > 1 else ()

    @property
    def passed(self) -> tuple[str, ...]:
        """What a run is passed of its tensors: two structs of pointers, or nothing where they lie in the workspace."""
        return () if self.io == "arena" else ("inputs", "outputs")

    def arena(self, workspace: int, slot: str) -> str:
        """C of a place in a workspace, by the number of it: `slot` is an offset, without the prefix of its name."""
        return f"ARENA({self.regions[workspace].field}, {slot})" if self.regions else f"ARENA({slot})"

    def spelled(self, side: Literal["inputs", "outputs"], tensor: PublicTensor) -> str:
        """How C names a tensor: as a field of the struct that a run is passed, or as the function with its address."""
        if side in self.passed:
            return f"{side}.{tensor.field}"
        return f"{self.prefix}_{side.removesuffix('s')}_{tensor.field}"

    @property
    def run_function(self) -> str:
        """The function that computes all outputs: a step of a stream, or a run."""
        return f"{self.prefix}_{self.turn}"

    @property
    def turn(self) -> str:
        """What a call of `run_function` is called."""
        return "run" if self.stream is None else "step"

    @property
    def streamed(self) -> list[tuple[PublicTensor, StreamedTensor]]:
        """The inputs that come frame by frame."""
        return (
            [(t, one) for one in self.stream.inputs for t in self.inputs if t.name == one.name] if self.stream else []
        )

    @property
    def stepped(self) -> list[tuple[PublicTensor, SteppedTensor]]:
        """The outputs of a step."""
        found = self.stream.outputs if self.stream else ()
        return [(t, one) for one in found for t in self.outputs if t.name == one.name]

    @property
    def pool_bytes(self) -> int:
        """Bytes at the end of the workspace for the synchronisation of `threads` threads; 0 for one thread."""
        return pool_bytes(self.threads)

    @property
    def state_bytes(self) -> int:
        """Bytes of what an instance keeps from run to run, and of a copy of it; 0 without states."""
        return state_bytes(self.states)

    @property
    def context_words(self) -> int:
        """Words of 64 bits that an instance has, with its states."""
        return CONTEXT_WORDS + len(self.workspaces) - 1 + self.state_bytes // WORD_BYTES

    @property
    def quantised(self) -> bool:
        """Whether an input or output is known to be quantised."""
        return any(tensor.quantisation is not None for tensor in (*self.inputs, *self.outputs))

    @property
    def upper(self) -> str:
        """Prefix of macros."""
        return self.prefix.upper()

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that change with every property that a caller can notice at compile time."""
        facts: dict[str, object] = {
            "layout": LAYOUT_VERSION,
            "prefix": self.prefix,
            "tensors": [
                [(t.field, t.dtype, t.extents, t.alignment) for t in side] for side in (self.inputs, self.outputs)
            ],
            "workspace": [self.workspace_bytes, WORKSPACE_ALIGNMENT],
            "context": self.context_words,
            "layers": self.layers,
            "external": self.external_weights and self.weights_bytes,
        }
        exchanged = [[t.field, t.layout] for t in (*self.inputs, *self.outputs) if t.layout != "model"]
        if exchanged:  # the shape alone does not distinguish 3 channels of 3 x 3 pixels from 3 rows
            facts["layouts"] = exchanged
        quantised = [
            [t.field, t.quantisation.scale, t.quantisation.zero_point]
            for t in (*self.inputs, *self.outputs)
            if t.quantisation is not None
        ]
        if quantised:
            facts["quantisation"] = quantised
        if self.threads > 1:
            facts["threads"] = [self.threads, self.pool_bytes]
        if self.states:
            facts["states"] = layout_word(self.states)
        if self.stream is not None:
            facts["stream"] = self.stream.latency_frames
        if not self.passed:
            facts["offsets"] = [[t.field, t.offset] for t in (*self.inputs, *self.outputs)]
        if self.regions:
            facts["regions"] = [[one.field, one.nbytes] for one in self.regions]
            facts["places"] = [[t.field, t.workspace] for t in (*self.inputs, *self.outputs)]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def workspace_bytes(arena_bytes: int, threads: int) -> int:
    """Bytes of the workspace: the arena and, for several threads, the memory of their synchronisation."""
    arena = max(arena_bytes, ARENA_ALIGNMENT)
    return arena if threads == 1 else -(-arena // ARENA_ALIGNMENT) * ARENA_ALIGNMENT + pool_bytes(threads)


def pool_bytes(threads: int) -> int:
    """Bytes of the pool of `threads` threads, a multiple of the workspace's alignment; 0 for one thread.

    Each thread has two cache lines; mutex and conditions have room for twice what any known system needs.
    """
    return WORKSPACE_ALIGNMENT * (10 + 2 * threads) if threads > 1 else 0


def alignments(program: Program, sources: Sequence[KernelSource]) -> dict[int, int]:
    """Return, for each buffer, the largest alignment in bytes that any kernel using it requires."""
    needed: dict[int, int] = {}
    for call in program.calls:
        for number, place in call.places:
            alignment = sources[call.kernel].params[number].alignment
            needed[place.buffer] = max(needed.get(place.buffer, 1), alignment)
    return needed


def public_tensors(
    specs: Sequence[TensorSpec],
    buffers: Sequence[Buffer],
    needed: Mapping[int, int],
    fallback: str,
    tolerances: Mapping[str, OutputTolerance],
    plan: MemoryPlan,
) -> tuple[PublicTensor, ...]:
    """Return the inputs or outputs, in the model's order; unnamed tensors use `fallback`.

    Tensors that `plan` has a place for lie in a workspace, and have the alignment of the arena.
    """
    fields = unique_identifiers([spec.name for spec in specs], fallback)
    return tuple(
        PublicTensor(
            field=field,
            name=spec.name,
            shape=spec.shape,
            dtype=spec.dtype,
            c_type=c_type(spec.dtype),
            elements=prod(spec.shape),
            nbytes=spec.nbytes,
            alignment=ARENA_ALIGNMENT
            if buffer.id in plan.offsets
            else max(_natural_alignment(spec.dtype), needed.get(buffer.id, 1)),
            buffer=buffer.id,
            tolerance=tolerances.get(spec.name, OutputTolerance.default(spec.dtype)),
            layout=spec.layout,
            image=spec.image or spec.layout != "model",
            selection=spec.selection,
            quantisation=spec.quantisation,
            offset=plan.offsets.get(buffer.id),
            workspace=plan.regions.get(buffer.id, 0),
        )
        for field, spec, buffer in zip(fields, specs, buffers, strict=True)
    )


def _natural_alignment(dtype: str) -> int:
    sizes = {"float": 4, "double": 8}
    name = c_type(dtype)
    return sizes.get(name) or int("".join(filter(str.isdigit, name))) // 8
