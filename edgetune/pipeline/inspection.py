"""Inspection of a model: its facts, and whether and how fast a board may run it, without a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from types import MappingProxyType
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from edgetune.config.input_stream import InputStream
from edgetune.frontend.model_facts import InterfaceTensor, ModelFacts, RamSource, UnsupportedNode
from edgetune.frontend.model_format import AxisSizes, Model, ModelSource, Shapes
from edgetune.pipeline.compile_input import regions_of
from edgetune.pipeline.model_formats import name_of_format, read_stored, require_model
from edgetune.target.board_kind import BoardKind

_MEGA = 1e6
_BYTES = frozenset({"int8", "uint8"})
_GIGA = 1e9


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InspectedQuantisation(_Part):
    """real = scale * (stored - zero point), of a whole tensor or of each slice along `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None


class InspectedTensor(_Part):
    """An input or output of the model."""

    name: str
    shape: tuple[int | str, ...] | None = Field(
        description="Sizes of axes; an open one is its name in the file, or '?'. Null where the file states none."
    )
    type: str = Field(description="Type of an element, as NumPy calls it.")
    quantisation: InspectedQuantisation | None = Field(
        default=None, description="Of the integers it holds, or of those that its floats are made into or from at once."
    )


class UnsupportedEntry(_Part):
    """A node that cannot be imported."""

    operator: str
    node: str
    reason: str


class StatePair(_Part):
    """An input and an output that look like the state of a recurrent model."""

    input: str
    output: str


class InspectedStep(_Part):
    """One step of a model whose inputs are streams, beside a run of its window."""

    multiply_adds: int
    state_bytes: int = Field(description="Rows and states that a step keeps for the next one.")
    live_bytes: int = Field(description="Tensors of a step that are alive at once, at most.")
    window_multiply_adds: int
    window_live_bytes: int
    latency_frames: int = Field(description="Frames of the first stream that go in before all results count.")


class LeastRam(_Part):
    """The least memory of a run, in bytes."""

    workspace_bytes: int = Field(description="Tensors between layers.")
    interface_bytes: int = Field(description="Inputs and outputs, which the program around the package holds.")
    shared_bytes: int | None = Field(
        default=None,
        description="Tensors between layers, inputs and outputs together, where these share memory (--io arena). Null "
        "where the model has states by itself: there a build says it.",
    )
    state_bytes: int = Field(default=0, description="States that the model has by itself.")
    found_by: RamSource = Field(
        description="Memory plan of the program; or the largest set of tensors that are alive at once, if elementwise "
        "operators write what is read by them."
    )


class MemoryFit(_Part):
    """Whether a kind of memory suffices. Code counts as none: only a build knows its size."""

    needed_bytes: int | None = Field(description="At least; null where it is not known.")
    available_bytes: int | None = Field(description="Null where the target does not say.")
    suffices: bool | None = Field(description="Null where one of them is not known.")


class TimeEstimate(_Part):
    """The time of a run if one core, or the GPU, did nothing but what limits it: no measurement, and a lower bound."""

    is_estimate: Literal[True] = True
    seconds: float
    limited_by: Literal["multiply-adds", "reading weights"]
    assumes: str


class RegionFit(_Part):
    """A region of a board's RAM, the fastest first."""

    name: str
    available_bytes: int = Field(description="Most bytes of a workspace in it.")
    suffices: bool | None = Field(description="For all tensors between layers; null where their bytes are not known.")


class BoardFit(_Part):
    """What is expected on a board."""

    name: str
    flash: MemoryFit
    ram: MemoryFit
    regions: tuple[RegionFit, ...] = Field(default=(), description="Where the target names several regions of RAM.")
    time: TimeEstimate | None = None
    no_time: str = Field(default="", description="Why there is no estimate of time.")


class Inspection(_Part):
    """A model as `edgetune inspect` shows it."""

    model: str
    format: str
    version: str
    producer: str
    sha256: str
    inputs: tuple[InspectedTensor, ...]
    outputs: tuple[InspectedTensor, ...]
    operators: dict[str, int] = Field(description="Operators of the file, with counts.")
    unsupported: tuple[UnsupportedEntry, ...]
    states: tuple[StatePair, ...]
    kept: tuple[InspectedTensor, ...] = Field(
        description="States that the model has by itself, in every package of it."
    )
    multiply_adds: int | None = Field(description="Of one run, without unsupported nodes; null where sizes are open.")
    weight_bytes: dict[str, int] = Field(description="Bytes of stored tensors, by type.")
    least_ram: LeastRam | None = Field(description="Without unsupported nodes; null where sizes are open.")
    remarks: tuple[str, ...] = Field(description="What was assumed, and what is to be stated.")
    step: InspectedStep | None = Field(default=None, description="Where inputs are said to be streams.")
    board: BoardFit | None = None


def inspect_model(
    source: ModelSource,
    shapes: Shapes,
    sizes: AxisSizes,
    target: BoardKind | None = None,
    streams: Mapping[str, InputStream] = MappingProxyType({}),
) -> Inspection:
    """What `source` is, with these shapes of inputs and sizes of axes, and how it fits `target`.

    With `streams`, it has what a step costs. Raises ModelError, and what `StoredModel.facts` and `Model.stepped` raise.
    """
    require_model(source, "")
    stored = read_stored(source)
    facts = stored.facts(shapes, sizes)
    interface = sum(map(_bytes, (*facts.inputs, *facts.outputs)))
    ram = None
    if facts.ram_bytes is not None:
        ram = LeastRam(
            workspace_bytes=facts.ram_bytes,
            interface_bytes=interface,
            shared_bytes=None if facts.kept else facts.shared_ram_bytes,
            state_bytes=sum(map(_bytes, facts.kept)),
            found_by=facts.ram_source,
        )
    return Inspection(
        model=str(source),
        format=facts.format or name_of_format(source),
        version=facts.version,
        producer=facts.producer,
        sha256=stored.sha256,
        inputs=tuple(map(_shown, facts.inputs)),
        outputs=tuple(map(_shown, facts.outputs)),
        operators=dict(facts.operators),
        unsupported=tuple(map(_unsupported, facts.unsupported)),
        states=tuple(StatePair(input=one, output=other) for one, other in facts.states),
        kept=tuple(map(_shown, facts.kept)),
        multiply_adds=facts.macs,
        weight_bytes=dict(facts.weights),
        least_ram=ram,
        remarks=facts.remarks,
        step=_step(stored.with_axes(shapes, sizes).stepped(streams)) if streams else None,
        board=None if target is None else _on_board(facts, ram, target),
    )


def _step(model: Model) -> InspectedStep | None:
    stream = model.stream()
    return (
        None
        if stream is None
        else InspectedStep(
            multiply_adds=stream.step_macs,
            state_bytes=sum(state.first.nbytes for state in model.states()),
            live_bytes=stream.step_ram,
            window_multiply_adds=stream.window_macs,
            window_live_bytes=stream.window_ram,
            latency_frames=stream.latency_frames,
        )
    )


def _shown(tensor: InterfaceTensor) -> InspectedTensor:
    quantisation = None if tensor.quantisation is None else InspectedQuantisation(**asdict(tensor.quantisation))
    return InspectedTensor(name=tensor.name, shape=tensor.shape, type=tensor.dtype, quantisation=quantisation)


def _unsupported(node: UnsupportedNode) -> UnsupportedEntry:
    return UnsupportedEntry(operator=node.operator, node=node.node, reason=node.reason)


def _bytes(tensor: InterfaceTensor) -> int:
    """Bytes of a tensor; 0 where its shape is open or not known, or its elements have no size."""
    shape = tensor.shape or ()
    sizes = [size for size in shape if isinstance(size, int)]
    if tensor.shape is None or len(sizes) < len(shape) or tensor.dtype in {"unknown", "object"}:
        return 0
    return prod(sizes) * (np.dtype(tensor.dtype).itemsize if hasattr(np, tensor.dtype) else 1)


def _on_board(facts: ModelFacts, ram: LeastRam | None, target: BoardKind) -> BoardFit:
    weights = sum(facts.weights.values())
    needed = None if ram is None else ram.workspace_bytes + ram.interface_bytes + ram.state_bytes
    available = _available(target)
    if facts.macs is None:
        time, why = None, "the multiply-adds of the model are not known"
    else:
        time, why = _estimate(facts.macs, facts.weights, target)
    return BoardFit(
        name=target.name,
        flash=_fit(weights, available.get("flash")),
        ram=_fit(needed, available.get("ram")),
        regions=tuple(
            RegionFit(
                name=region.name,
                available_bytes=region.nbytes,
                suffices=None if ram is None else ram.workspace_bytes <= region.nbytes,
            )
            for region in regions_of(target)
        ),
        time=time,
        no_time=why,
    )


def _available(target: BoardKind) -> Mapping[str, int]:
    """Bytes of RAM and flash that a package may take, as `tune` and `build` refuse more."""
    stated = target.defaults.memory
    limits = {} if stated is None else {"ram": stated.ram, "flash": stated.flash}
    sizes = {
        key: [size for size in (target.memory_sizes.get(key), limits.get(key)) if size] for key in ("ram", "flash")
    }
    return {key: min(found) for key, found in sizes.items() if found}


def _fit(needed: int | None, available: int | None) -> MemoryFit:
    suffices = None if needed is None or available is None else needed <= available
    return MemoryFit(needed_bytes=needed, available_bytes=available, suffices=suffices)


def _estimate(macs: int, weights: Mapping[str, int], target: BoardKind) -> tuple[TimeEstimate | None, str]:
    peak = target.peak()
    if peak is None:
        return None, f"the file of target '{target.name}' states no clock_mhz"
    per_cycle, kind = peak.multiply_adds(integers=not _BYTES.isdisjoint(weights))
    computing = macs / (per_cycle * peak.clock_mhz * _MEGA)
    reading = sum(weights.values()) / (peak.memory_gb_per_s * _GIGA)
    return TimeEstimate(
        seconds=max(computing, reading),
        limited_by="multiply-adds" if computing >= reading else "reading weights",
        assumes=f"{per_cycle} {kind} multiply-adds per cycle at {peak.clock_mhz:g} MHz on "
        f"{peak.unit}, and {peak.memory_gb_per_s:g} GB/s",
    ), ""
