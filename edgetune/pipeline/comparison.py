"""Comparison of two packages: what their manifests state of memory, flash, kernels, times and layers, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from edgetune.package.manifest_model import Manifest, ManifestKernel, ManifestLayer, parsed
from edgetune.target.preferences import Io
from edgetune.verify.notebook_table import table

Unit = Literal["bytes", "count", "us", "instructions"]
Aspect = Literal["name", "computation", "schedule", "shape", "bytes", "time"]
_DIGITS = 6


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparedPackage(_Part):
    """One of the two packages."""

    folder: str
    name: str
    version: str
    board: str
    threads: int
    model: str = Field(description="Name of the model's file.")
    model_sha256: str
    edgetune: str = Field(description="Version of edgetune that wrote it.")


class ComparedFigure(_Part):
    """A figure of both packages, or of a layer in both; null where it is not known, or where there is no such layer."""

    name: str
    unit: Unit
    a: int | float | None
    b: int | float | None
    difference: int | float | None = Field(description="B less A; null where one of them is not known.")
    percent: float | None = Field(description="The difference in percent of A; null where that is 0 or not known.")

    @property
    def equal(self) -> bool:
        """Whether both are known and the same."""
        return self.a is not None and self.a == self.b


class ComparedLayer(_Part):
    """A layer that differs, or that only one of the packages has."""

    layer: str
    index_a: int | None
    index_b: int | None
    differs: tuple[Aspect, ...] = Field(description="What differs of a layer that both have.")
    kernel_a: str | None = Field(description="Of a loop, all kernels that its steps call.")
    kernel_b: str | None
    schedule_a: str | None = Field(description="Of a loop, those of all these kernels, in their order.")
    schedule_b: str | None
    bytes: ComparedFigure = Field(description="All tensors that it reads or writes, with weights and scratch memory.")
    time: ComparedFigure


class TimesInTurns(_Part):
    """Both packages, timed in turns by `--bench`; where `unit` is instructions, they were counted, which is exact."""

    unit: Literal["us", "instructions"]
    a: float
    b: float
    ratio: float = Field(description="B divided by A.")
    low: float
    high: float
    coverage: float = Field(description="Probability with which `low` and `high` enclose the ratio.")
    turns: int
    ran_on: str
    layers_a: tuple[float, ...]
    layers_b: tuple[float, ...]
    changed_layers: tuple[int, ...] = Field(
        description="Numbers of large layers that became slower or faster; only if both have the same number of layers."
    )


class PackageComparison(_Part):
    """Two packages as `edgetune compare` shows them."""

    a: ComparedPackage
    b: ComparedPackage
    same_files: bool = Field(description="Whether the packages are the same, byte for byte.")
    remarks: tuple[str, ...] = Field(description="What makes the packages hard to compare, and what is not known.")
    figures: tuple[ComparedFigure, ...]
    layers: tuple[ComparedLayer, ...] = Field(description="Those that differ, and those of only one package.")
    equal_layers: int
    timing: TimesInTurns | None = None

    @property
    def changed(self) -> tuple[ComparedFigure, ...]:
        """The figures that differ, or are known of only one package."""
        return tuple(figure for figure in self.figures if not figure.equal)

    def _repr_html_(self) -> str:
        rows = [figure.model_dump() for figure in (*self.changed, *(f for f in self.figures if f.equal))]
        return table(f"{self.a.folder} (a) and {self.b.folder} (b)", rows)


class _Called:
    """What a layer calls, in order: its kernel, or those of a loop, each with how often; nothing where one is lost."""

    def __init__(self, layer: ManifestLayer, kernels: Mapping[str, ManifestKernel]) -> None:
        calls = [(call.kernel, call.times) for call in layer.calls] or [(layer.kernel, 1)]
        found = [(kernels[name], times) for name, times in calls if name in kernels]
        self.calls = tuple(found) if len(found) == len(calls) else ()
        self.names = ", ".join(dict.fromkeys(name for name, _ in calls))

    @property
    def computation(self) -> list[tuple[str, int]]:
        """What is computed, and how often."""
        return [(kernel.provenance.workload, times) for kernel, times in self.calls]

    @property
    def schedules(self) -> list[tuple[str, str, str | None]]:
        """How it is computed."""
        found = [kernel.provenance for kernel, _ in self.calls]
        return [(one.form, one.schedule, one.trace_sha256) for one in found]

    @property
    def schedule(self) -> str | None:
        """The schedules as a text."""
        return "; ".join(dict.fromkeys(schedule for _, schedule, _ in self.schedules)) if self.calls else None

    def total(self, *figures: str) -> float | None:
        """The sum of a figure of provenance over all calls: of the first of `figures` that is known of a kernel.

        None where none is known of some kernel.
        """
        found: float = 0  # counts of instructions stay whole
        for kernel, times in self.calls:
            known = (getattr(kernel.provenance, figure) for figure in figures)
            value: float | None = next((one for one in known if one is not None), None)
            if value is None:
                return None
            found += value * times
        return found if self.calls else None


class _Side:
    """One of the packages: its layers with their kernels, and the times of layers, None where they are not known."""

    def __init__(self, folder: Path, manifest: Manifest, times: Sequence[float] = ()) -> None:
        self.folder, self.manifest = folder, manifest
        self._kernels = {kernel.name: kernel for kernel in manifest.kernels}
        self.layers = tuple(manifest.layers)
        counted = any(kernel.provenance.clock == "instructions" for kernel in manifest.kernels)
        self.unit: Literal["us", "instructions"] = "instructions" if counted else "us"
        timed = len(times) == len(self.layers)
        self.times = tuple(times) if timed else tuple(self._recorded(layer) for layer in self.layers)

    def called(self, layer: ManifestLayer) -> _Called:
        """What a layer calls."""
        return _Called(layer, self._kernels)

    def _recorded(self, layer: ManifestLayer) -> float | None:
        return self.called(layer).total("instructions" if self.unit == "instructions" else "median_us")

    @property
    def whole_time(self) -> float | None:
        """The sum over all layers; None where one was not measured."""
        known = [time for time in self.times if time is not None]
        return round(sum(known), _DIGITS) if known and len(known) == len(self.times) else None

    @property
    def package(self) -> ComparedPackage:
        """What is said of it."""
        manifest = self.manifest
        return ComparedPackage(
            folder=str(self.folder),
            name=manifest.name,
            version=manifest.version,
            board=manifest.target.name,
            threads=manifest.threads,
            model=manifest.model.file,
            model_sha256=manifest.model.sha256,
            edgetune=manifest.generator.version,
        )


def compare_manifests(
    folders: tuple[Path, Path], contents: tuple[dict[str, Any], dict[str, Any]], timing: TimesInTurns | None = None
) -> PackageComparison:
    """Compare two packages by the contents of their manifests, as `read_manifest` gives them.

    Layers are matched by their labels, then by the nodes that they come from. Times are those of `timing`, or else of
    the records that the kernels come from.
    """
    times = ((), ()) if timing is None else (timing.layers_a, timing.layers_b)
    a, b = (_Side(*each) for each in zip(folders, map(parsed, contents), times, strict=True))
    pairs = [_compared(a, b, pair, timing) for pair in _matched(a.layers, b.layers)]
    differing = [layer for layer in pairs if layer.differs or layer.index_a is None or layer.index_b is None]
    return PackageComparison(
        a=a.package,
        b=b.package,
        same_files=contents[0]["files"] == contents[1]["files"],
        remarks=tuple(_remarks(a, b, timing)),
        figures=tuple(_figures(a, b, timing)),
        layers=tuple(differing),
        equal_layers=len(pairs) - len(differing),
        timing=timing,
    )


def _figure(name: str, unit: Unit, a: float | None, b: float | None) -> ComparedFigure:
    difference = None if a is None or b is None else round(b - a, _DIGITS)
    percent = round(100 * difference / a, 3) if a and difference is not None else None
    return ComparedFigure(name=name, unit=unit, a=a, b=b, difference=difference, percent=percent)


def _figures(a: _Side, b: _Side, timing: TimesInTurns | None) -> Iterator[ComparedFigure]:
    """All figures that at least one manifest states."""
    memory = (a.manifest.memory, b.manifest.memory)
    flash = [None if each.code_bytes is None else each.code_bytes + each.weights_bytes for each in memory]
    figures = [
        *(_figure(name, "bytes", *(getattr(each, key) for each in memory)) for key, name in _MEMORY),
        _figure("flash in all", "bytes", *flash),
        _figure("kernels", "count", *(len(side.manifest.kernels) for side in (a, b))),
        _figure("layers", "count", *(len(side.layers) for side in (a, b))),
        _figure("multiply-adds", "count", *(sum(layer.macs for layer in side.layers) for side in (a, b))),
    ]
    if timing is None and a.unit == b.unit:
        name = "instructions of all layers" if a.unit == "instructions" else "time of all layers"
        figures.append(_figure(name, a.unit, a.whole_time, b.whole_time))
    return (figure for figure in figures if not (figure.a is None and figure.b is None))


_MEMORY = (
    ("workspace_bytes", "workspace"),
    ("arena_bytes", "arena"),
    ("io_bytes", "inputs and outputs"),
    ("state_bytes", "states"),
    ("call_stack_bytes", "stack of a call"),
    ("code_bytes", "code"),
    ("weights_bytes", "weights"),
)


_PLACES: Mapping[Io, str] = {"caller": "in memory of the caller", "arena": "in the workspace"}


def _remarks(a: _Side, b: _Side, timing: TimesInTurns | None) -> Iterator[str]:
    one, other = a.package, b.package
    if one.model_sha256 != other.model_sha256:
        yield f"the models differ: A is from {one.model} ({one.model_sha256[:12]}), B from {_model(one, other)}"
    if _interface(a) != _interface(b):
        yield "the interfaces differ: inputs or outputs have other names, shapes, types or scales"
    if a.manifest.memory.io != b.manifest.memory.io:
        places = [_PLACES[side.manifest.memory.io] for side in (a, b)]
        yield f"inputs and outputs lie in other memory: those of A {places[0]}, those of B {places[1]}"
    if one.board != other.board:
        yield f"the boards differ: A is for {one.board}, B for {other.board}"
    if one.threads != other.threads:
        yield f"the threads differ: A is for {one.threads}, B for {other.threads}"
    if one.edgetune != other.edgetune:
        yield f"the versions of edgetune differ: {one.edgetune or 'unknown'} wrote A, {other.edgetune or 'unknown'} B"
    compilers = [side.manifest.memory.measured_with for side in (a, b)]
    if compilers[0] != compilers[1] and all(compilers):
        yield f"code and stack were measured with different compilers: {compilers[0]} and {compilers[1]}"
    if timing is not None:
        return
    if a.unit != b.unit:
        yield "no times are compared: of one package instructions were counted, and the other was timed"
    elif a.whole_time is None or b.whole_time is None:
        counts = [f"{_measured(side)} of {len(side.layers)} layers of {word}" for side, word in ((a, "A"), (b, "B"))]
        yield f"times are not known of all layers: {counts[0]} and {counts[1]} were measured; --bench times both"


def _model(one: ComparedPackage, other: ComparedPackage) -> str:
    same = "another file of that name" if one.model == other.model else other.model
    return f"{same} ({other.model_sha256[:12]})"


def _interface(side: _Side) -> list[list[object]]:
    """What a caller sees of the tensors."""
    manifest = side.manifest
    return [
        [each.name, each.shape, each.dtype, each.layout, each.scale, each.zero_point]
        for tensors in (manifest.inputs, manifest.outputs)
        for each in tensors
    ]


def _measured(side: _Side) -> int:
    return sum(time is not None for time in side.times)


Pair = tuple[int | None, int | None]


def _matched(a: Sequence[ManifestLayer], b: Sequence[ManifestLayer]) -> list[Pair]:
    """Pairs of numbers of layers, those of A in their order, then those that only B has.

    Labels are unique in a package. A layer that is fused with other operators has another label, but the name of the
    same node in it: such layers are paired in their order, where both packages have as many of them.
    """
    labels = {layer.label: number for number, layer in enumerate(b)}
    found = {number: labels[layer.label] for number, layer in enumerate(a) if layer.label in labels}
    taken = set(found.values())
    left = (_by_node(a, set(found)), _by_node(b, taken))
    for node, numbers in left[0].items():
        if len(numbers) == len(left[1].get(node, [])):
            found |= zip(numbers, left[1][node], strict=True)
    taken = set(found.values())
    pairs: list[Pair] = [(number, found.get(number)) for number in range(len(a))]
    return pairs + [(None, number) for number in range(len(b)) if number not in taken]


def _by_node(layers: Sequence[ManifestLayer], without: set[int]) -> dict[str, list[int]]:
    """Numbers of layers by the node that each is named after; a label without brackets names operators, not a node."""
    found = defaultdict(list)
    for number, layer in enumerate(layers):
        node, bracket, _ = layer.label.partition(" (")
        if bracket and number not in without:
            found[node].append(number)
    return found


def _compared(a: _Side, b: _Side, pair: Pair, timing: TimesInTurns | None) -> ComparedLayer:
    one, other = (None if n is None else side.layers[n] for side, n in zip((a, b), pair, strict=True))
    comparable = timing is not None or a.unit == b.unit
    times = [None if n is None or not comparable else side.times[n] for side, n in zip((a, b), pair, strict=True)]
    called = [side.called(layer) if layer else None for side, layer in ((a, one), (b, other))]
    named = other or one
    assert named is not None  # noqa: S101  a pair has at least one layer
    differs: list[Aspect] = []
    if one and other and called[0] and called[1]:
        differs += _aspects(one, other, called[0], called[1])
        if _apart(called[0], called[1], pair, timing, comparable=comparable):
            differs.append("time")
    return ComparedLayer(
        layer=named.label,
        index_a=pair[0],
        index_b=pair[1],
        differs=tuple(differs),
        kernel_a=called[0].names if called[0] else None,
        kernel_b=called[1].names if called[1] else None,
        schedule_a=called[0].schedule if called[0] else None,
        schedule_b=called[1].schedule if called[1] else None,
        bytes=_figure("bytes", "bytes", one.nbytes if one else None, other.nbytes if other else None),
        time=_figure("time", timing.unit if timing else a.unit, *times),
    )


def _aspects(one: ManifestLayer, other: ManifestLayer, was: _Called, now: _Called) -> Iterator[Aspect]:
    """What differs between two layers that were matched, except for their times."""
    if one.label != other.label:
        yield "name"
    if was.calls and now.calls:
        if was.computation != now.computation:
            yield "computation"
        if was.schedules != now.schedules:
            yield "schedule"
    if one.output != other.output:
        yield "shape"
    if one.nbytes != other.nbytes:
        yield "bytes"


def _apart(was: _Called, now: _Called, pair: Pair, timing: TimesInTurns | None, *, comparable: bool) -> bool:
    """Whether times were told apart: in turns, or by records, whose intervals do not overlap or whose counts differ."""
    if timing is not None:
        return pair[0] == pair[1] and pair[0] in timing.changed_layers
    if not comparable:
        return False
    counts = [each.total("instructions") for each in (was, now)]
    if None not in counts:
        return counts[0] != counts[1]
    low, least = (each.total("low_us", "median_us") for each in (was, now))
    high, most = (each.total("high_us", "median_us") for each in (was, now))
    if low is None or least is None or high is None or most is None:
        return False
    return high < least or most < low
