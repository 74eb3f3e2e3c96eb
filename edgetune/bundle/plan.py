"""Lines of a bundle's plan for the candidates of a kernel, and the files that they name.

Inputs and weights are drawn by the runner (`drawn`); candidates and references travel, and so does a weight whose
packed layout no steps along its axes give.
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

from edgetune.boards.protocol import gap_fill
from edgetune.bundle.drawn import Axis, Drawn, axes_of, drawn_input
from edgetune.bundle.kinds.kind import Compiled
from edgetune.bundle.manifest import BundledCandidate
from edgetune.codegen.packing import PackedLayout
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.program import Kernel
from edgetune.measure.reference import of_whole, own_elements, tolerance_of, with_gaps
from edgetune.schedule.source import WeightLayout

_ROLES = {
    "float32": "o",
    "float64": "d",
    "float16": "h",
    "bfloat16": "b",
    "int8": "y",
    "uint8": "Y",
    "int16": "z",
    "uint16": "Z",
}  # of outputs; all others are compared exactly

_REST = 192 << 10  # bytes of the runner, compiled as well, and of the manifest's head
LEAST_ROOM = _REST + (64 << 10)
"""Bytes of a bundle with one usual candidate, beside its references."""

_SEEDS = 1 << 8  # parameters of a kernel at most, each with a seed of its own


@dataclass(frozen=True)
class KernelData:
    """What the candidates of a kernel get, and the outputs that they must give."""

    kernel: Kernel
    inputs: Sequence[Drawn]
    outputs: Sequence[np.ndarray]
    judged: Sequence[str]
    _lines: dict[tuple[int, PackedLayout | None], str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, seed: int) -> KernelData:
        """Inputs from a seed, the reference's outputs for them, and how far these may be off."""
        inputs = []
        for place, param in enumerate(kernel.params):
            if param.role != "output":
                others = tuple(other for other in kernel.params if other is not param)
                inputs.append(drawn_input(param, others, seed * _SEEDS + place))
        outputs = [param for param in kernel.params if param.role == "output"]
        given = [one.array for one in inputs]
        found = ReferenceFunction(kernel.function).run(given, [(param.shape, param.dtype) for param in outputs])
        text, judged = str(kernel.function.script()), []
        for param, array in zip(outputs, found, strict=True):
            allowed = of_whole(param, tolerance_of(param, text, own_elements(param, array)))
            fill = gap_fill(param.dtype) if param.rows else _FILL
            judged.append(f"{allowed.relative:g} {allowed.absolute:g} {allowed.share:g} {fill}")
        filled = [with_gaps(param, array) for param, array in zip(outputs, found, strict=True)]
        return cls(kernel, inputs, filled, judged)

    def plan(self, one: Compiled, store: Callable[[str, bytes], str]) -> Iterator[str]:
        """The lines for a candidate; `store` takes a folder and the bytes of a file, and returns its name."""
        outputs = [param.dtype for param in self.kernel.params if param.role == "output"]
        yield f"candidate {one.name} {store(BINARY, one.binary)}"
        for place, drawn in enumerate(self.inputs):
            layout = one.packing.get(place)
            known = self._lines.get((place, layout)) if isinstance(layout, PackedLayout | None) else None
            if known is not None:
                yield known
                continue
            packed, axes = _laid_out(drawn, layout)
            if axes is None:
                yield f"buffer i {packed.nbytes} {store('data', packed.tobytes())}"
                continue
            line = drawn.line(packed, axes)
            if isinstance(layout, PackedLayout | None):
                self._lines[place, layout] = line
            yield line
        for dtype, array, allowed in zip(outputs, self.outputs, self.judged, strict=True):
            name = store("data", np.ascontiguousarray(array).tobytes())
            yield f"buffer {_ROLES.get(dtype, 'e')} {array.nbytes} {name} {allowed}"
        if one.scratch_bytes:
            yield f"buffer s {one.scratch_bytes} -"
        yield from one.calls
        yield "end"


BINARY = "binary"
"""The kind of file that a candidate is, for `store`; the folder is called as the kind of candidates."""

_FILL = 0xFF  # a byte of outputs before the first call: NaN as a float


def _laid_out(drawn: Drawn, layout: WeightLayout | None) -> tuple[np.ndarray, tuple[Axis, ...] | None]:
    """An input in the layout of a candidate, and its axes there; None where it travels."""
    if layout is None:
        return drawn.array, (Axis(drawn.array.size, drawn.array.size, 1),) if drawn.array.size else None
    packed = np.ascontiguousarray(layout.apply(drawn.array))
    return packed, _axes(layout) if isinstance(layout, PackedLayout) else None


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

    def __init__(self, folder: Path, binaries: str, most: int | None) -> None:
        self._places = {BINARY: folder / binaries, "data": folder / "data"}
        for place in self._places.values():
            place.mkdir()
        self._most = most
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
            if not (self._places[kind] / name).exists():
                files[self._places[kind] / name] = content
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
        candidate=one.name,
        trace=one.trace,
        scratch_bytes=one.scratch_bytes,
        code_bytes=one.code_bytes,
    )
