"""Lines of a bundle's plan for the candidates of a kernel, and the files that they name.

Inputs and weights are drawn by the runner (`drawn`); cubins and references travel, and so does a weight whose packed
layout no steps along its axes give.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from edgetune.bundle.drawn import Axis, Drawn, axes_of, drawn_input
from edgetune.bundle.manifest import BundledCandidate
from edgetune.codegen.packing import PackedLayout
from edgetune.graph.accuracy import Tolerance
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.program import Kernel
from edgetune.schedule.gpu.candidate import GpuCandidate

_ROLES = {
    "float32": "o",
    "float64": "d",
    "float16": "h",
    "bfloat16": "b",
}  # of outputs; all others are compared exactly

_REST = 64 << 10  # bytes of the runner and of the manifest's head
LEAST_ROOM = _REST + (64 << 10)
"""Bytes of a bundle with one usual candidate, beside its references."""

_SEEDS = 1 << 8  # parameters of a kernel at most, each with a seed of its own


@dataclass(frozen=True)
class Compiled:
    """A candidate and what the runner needs for it."""

    candidate: GpuCandidate
    cubin: bytes
    spills: bool


@dataclass(frozen=True)
class KernelData:
    """What the candidates of a kernel get, and the outputs that they must give."""

    kernel: Kernel
    inputs: Sequence[Drawn]
    outputs: Sequence[np.ndarray]
    _lines: dict[tuple[int, PackedLayout | None], str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, seed: int) -> KernelData:
        """Inputs from a seed, and the reference's outputs for them."""
        inputs = []
        for place, param in enumerate(kernel.params):
            if param.role != "output":
                others = tuple(other for other in kernel.params if other is not param)
                inputs.append(drawn_input(param, others, seed * _SEEDS + place))
        wanted = [(param.shape, param.dtype) for param in kernel.params if param.role == "output"]
        outputs = ReferenceFunction(kernel.function).run([one.array for one in inputs], wanted)
        return cls(kernel, inputs, outputs)

    def plan(self, one: Compiled, store: Callable[[str, bytes], str]) -> Iterator[str]:
        """The lines for a candidate; `store` takes a folder and the bytes of a file, and returns its name."""
        source, packing = one.candidate.source, one.candidate.packing
        outputs = [param.dtype for param in self.kernel.params if param.role == "output"]
        tolerance = max(Tolerance.default(dtype).relative for dtype in outputs)
        yield f"candidate {one.candidate.name} {store('cubins', one.cubin)} {tolerance:g}"
        for place, drawn in enumerate(self.inputs):
            layout = packing.get(place)
            if (place, layout) in self._lines:
                yield self._lines[place, layout]
                continue
            packed, axes = _laid_out(drawn, layout)
            if axes is None:
                yield f"buffer i {packed.nbytes} {store('data', packed.tobytes())}"
                continue
            self._lines[place, layout] = drawn.line(packed, axes)
            yield self._lines[place, layout]
        for dtype, array in zip(outputs, self.outputs, strict=True):
            name = store("data", np.ascontiguousarray(array).tobytes())
            yield f"buffer {_ROLES.get(dtype, 'e')} {array.nbytes} {name}"
        if source.scratch_bytes:
            yield f"buffer s {source.scratch_bytes} -"
        for launch in source.launches:
            extents = " ".join(map(str, (*launch.grid, *launch.block)))
            scratch = len(self.kernel.params)
            places = [(scratch, o.offset) if o.param is None else (o.param, 0) for o in launch.operands]
            operands = "".join(f" {buffer}:{offset}" for buffer, offset in places)
            yield f"launch {launch.kernel} {extents} {launch.dynamic_bytes} {len(launch.operands)}{operands}"
        yield "end"


def _laid_out(drawn: Drawn, layout: PackedLayout | None) -> tuple[np.ndarray, tuple[Axis, ...] | None]:
    """An input in the layout of a candidate, and its axes there; None where it travels."""
    if layout is None:
        return drawn.array, (Axis(drawn.array.size, drawn.array.size, 1),) if drawn.array.size else None
    return layout.apply(drawn.array), _axes(layout)


@cache
def _axes(layout: PackedLayout) -> tuple[Axis, ...] | None:
    places = np.arange(1, prod(layout.source_shape) + 1, dtype=np.int64).reshape(layout.source_shape)
    return axes_of(layout.apply(places))


def output_bytes(kernel: Kernel) -> int:
    """Bytes of the references of a kernel."""
    outputs = [param for param in kernel.params if param.role == "output"]
    return sum(prod(param.shape) * np.dtype(param.dtype).itemsize for param in outputs)


class BundleFiles:
    """The files of a bundle, each called by its hash, and the lines of its plan, up to a size in bytes (None: any)."""

    def __init__(self, folder: Path, most: int | None) -> None:
        for name in ("cubins", "data"):
            (folder / name).mkdir()
        self._folder, self._most = folder, most
        self.plan: list[str] = []
        self.entries: list[BundledCandidate] = []
        self._bytes = _REST

    def has_room(self, size: int) -> bool:
        """Whether that many bytes fit as well."""
        return self._most is None or self._bytes + size <= self._most

    def add(self, data: KernelData, one: Compiled) -> bool:
        """Add a candidate where all of it fits; whether it does."""
        files: dict[Path, bytes] = {}

        def store(kind: str, content: bytes) -> str:
            name = hashlib.sha256(content).hexdigest()
            if not (self._folder / kind / name).exists():
                files[self._folder / kind / name] = content
            return name

        lines, entry = list(data.plan(one, store)), _entry(data.kernel, one)
        text = sum(len(line) + 1 for line in lines) + len(json.dumps(entry.model_dump(), indent=3)) + _COMMA
        size = text + sum(map(len, files.values()))
        if not self.has_room(size):
            return False
        for path, content in files.items():
            path.write_bytes(content)
        self.plan += lines
        self.entries.append(entry)
        self._bytes += size
        return True


_COMMA = 8  # bytes around an entry of the manifest


def _entry(kernel: Kernel, one: Compiled) -> BundledCandidate:
    return BundledCandidate(
        workload=kernel.workload,
        workload_name=kernel.name,
        candidate=one.candidate.name,
        trace=one.candidate.trace,
        scratch_bytes=one.candidate.source.scratch_bytes,
        code_bytes=len(one.cubin),
    )
