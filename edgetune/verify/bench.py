"""Package benchmark: times a package as a whole and layer by layer, on this machine or on a board."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgetune.boards.environment import throttled
from edgetune.boards.statistics import Summary, summarise
from edgetune.errors import BoardUnavailable, PackageInvalid, SelfTestFailed
from edgetune.measure.trust import Conditions, trust_of
from edgetune.target.board_kind import BoardKind
from edgetune.verify.class_counts import ClassCounts
from edgetune.verify.driver import last_words
from edgetune.verify.image_counts import ImageCounts, image_counts
from edgetune.verify.notebook_table import table
from edgetune.verify.place import ExecutionPlace, Here
from edgetune.verify.probed import execution_place
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult, work_copy

TIMEOUT_S = 1800.0
_SAMPLES = "samples_ns:"
_EMULATED = "times under an emulator, which say nothing about a real core"
_COUNTED = "instructions counted under an emulator, 1000 of them written as 1 us: exact, but not times"
_TOO_SHORT = "a run takes less than a tick of the clock there, so the precision of the median is unknown"


@dataclass(frozen=True)
class LayerTime:
    """Median and least time of one layer in microseconds, from separate runs, without what reading the clock takes.

    Packages of earlier versions have the clock in them. `kernel` is empty for a loop, which calls several.
    """

    index: int
    name: str
    kernel: str
    macs: int
    median_us: float
    min_us: float
    estimated_cycles: int | None = None


@dataclass(frozen=True)
class BenchReport:
    """Times in microseconds, taken where `ran_on` says; where `emulated`, they say nothing about a real core.

    `samples_us` are all runs of the package as a whole, in their order; `outliers` of them are left out. With
    probability `coverage`, `interval_us` encloses the median. `trust` is a grade from A to D, `trust_reason` says why
    it is not better. Packages of earlier versions give no samples, nor do runs shorter than a tick of the clock (`note`
    reports this); then there is neither interval nor grade: () and "". `clock_us` is what reading the clock adds to a
    layer, which is not in the times of `layers`; 0.0 for packages that do not say it.

    Where instructions are counted, `counts` has those of a run by class. `estimated_cycles` are computed from them by
    the costs of the target, None where it states none, and `estimated_ms` from these at its clock.
    """

    package: str
    board: str
    compiler: str
    emulator: str | None
    ran_on: str
    emulated: bool
    median_us: float
    min_us: float
    runs: int
    threads: int
    layers: tuple[LayerTime, ...]
    clock_us: float = 0.0
    note: str = ""
    samples_us: tuple[float, ...] = ()
    outliers: int = 0
    interval_us: tuple[float, ...] = ()
    coverage: float = 0.0
    trust: str = ""
    trust_reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    estimated_cycles: int | None = None
    estimated_ms: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        title = f"{self.package} on {self.board}: median {self.median_us:.2f} us of {self.runs} runs"
        return table(title, [asdict(layer) for layer in self.layers])


def bench(
    package: Path,
    *,
    target: BoardKind | None = None,
    place: ExecutionPlace | None = None,
    cores: Sequence[int] = (),
    runs: int = 1000,
    seconds: float = 3.0,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> BenchReport:
    """Build a copy of `package` and run its benchmark: at most `runs` runs, not much longer than `seconds`.

    It runs at `place`, by default here as `verify` does, with the context of `alone` entered, and on `cores` of a
    board. Raises what the place raises, PackageInvalid, ToolchainMissing, CompileFailed and SelfTestFailed (it crashed
    or refused).
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest, target)
        place = place or here(tools, alone)
        binary = linked(copy, manifest, tools, place, TIMEOUT_S)
        words = (str(runs), f"{seconds:g}", str(manifest.get("threads", 1)), "samples")
        done, conditions = place.timed(binary, words, TIMEOUT_S, cores)
        result, layers = answer_of(package, manifest, done)
        counts = place.counts(binary, result["runs"], len(layers)) if isinstance(place, ImageCounts) else None
    report = BenchReport(
        package=manifest["prefix"],
        board=tools.board,
        compiler=tools.cc,
        emulator=tools.emulator[0] if tools.emulator and isinstance(place, Here) else None,
        ran_on=place.where,
        emulated=place.emulated,
        median_us=result["median_us"],
        min_us=result["min_us"],
        runs=result["runs"],
        threads=result["threads"],
        layers=layers,
        clock_us=result["clock_us"],
        note=_note(place, conditions),
    )
    if counts is not None:
        report = _counted(report, counts, tools)
    samples = _samples(package, done)
    if not all(samples):
        return replace(report, note="; ".join(filter(None, (report.note, _TOO_SHORT))))
    return _judged(report, samples, summarise(samples), conditions) if samples else report


def here(tools: PackageToolchain, alone: Callable[[], AbstractContextManager[object]] = nullcontext) -> Here:
    """Return this machine as the place of a benchmark; where programs are images, their instructions are counted.

    Counts need no context of `alone`: no other program changes them. Raises ToolchainMissing.
    """
    if not tools.images:
        return execution_place(tools, alone)
    tools.require()
    return image_counts(tools)


def _counted(report: BenchReport, counts: ClassCounts, tools: PackageToolchain) -> BenchReport:
    """Add what was counted by class, and the cycles that the target's costs estimate from it."""
    run = counts.estimated(tools.emulator[0], tools.cycles, tools.clock_mhz)
    of_layers = run.layer_cycles or [None] * len(report.layers)
    layers = zip(report.layers, of_layers, strict=True)
    return replace(
        report,
        counts=counts.named(),
        estimated_cycles=run.cycles,
        estimated_ms=run.milliseconds,
        layers=tuple(replace(layer, estimated_cycles=cycles) for layer, cycles in layers),
    )


def _note(place: ExecutionPlace, conditions: Conditions) -> str:
    if conditions.facts.get("clock") == "instructions":
        return _COUNTED
    return _EMULATED if place.emulated else ""


def _judged(report: BenchReport, samples: tuple[float, ...], summary: Summary, conditions: Conditions) -> BenchReport:
    """Add the confidence interval of the median and the trust grade, as for any measurement."""
    refused = ""
    if throttled(conditions.before, conditions.after):
        refused = "the core was throttled while timing"
    elif summary.noisy:
        refused = f"the confidence interval of the median is {100 * summary.relative_width:.0f} % of it"
    trust = trust_of(conditions, summary.relative_width, refused=refused)
    return replace(
        report,
        median_us=summary.median,
        samples_us=samples,
        outliers=summary.dropped,
        interval_us=(summary.low, summary.high),
        coverage=summary.coverage,
        trust=trust.grade,
        trust_reason=trust.reason,
    )


@contextmanager
def benchmark_of(package: Path, *, target: BoardKind) -> Iterator[Callable[[int, float], tuple[LayerTime, ...]]]:
    """Build a copy of `package` here, and yield a function that runs its benchmark.

    Its arguments are the maximum number of runs and the approximate seconds. Both raise what `bench` raises.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest, target)
        place = here(tools)
        binary = linked(copy, manifest, tools, place, TIMEOUT_S)

        def run(runs: int, seconds: float) -> tuple[LayerTime, ...]:
            done = place.execute(binary, (str(runs), f"{seconds:g}"), TIMEOUT_S)
            return answer_of(package, manifest, done)[1]

        yield run


def linked(
    copy: Path, manifest: Mapping[str, Any], tools: PackageToolchain, place: ExecutionPlace, timeout_s: float
) -> Path:
    """Build the benchmark in a work copy as `place` needs it, and return its program; raises what `bench` raises."""
    if tools.instead:
        raise BoardUnavailable(
            f"this machine has no GPU to time the package on: copy {manifest['prefix']} to one that has, and run `make "
            "bench` there"
        )
    if not {f"test/{manifest['prefix']}_bench.{suffix}" for suffix in ("c", "cu")} & manifest["files"].keys():
        raise BoardUnavailable(
            f"the package has no benchmark, because edgetune cannot time programs on board '{tools.board}' yet: see "
            "REPORT.md for its sizes"
        )
    tools.require(emulator=isinstance(place, Here))
    binary = f"build/{manifest['prefix']}_bench"
    place.link(copy, binary, tools, timeout_s)
    return copy / binary


def answer_of(
    package: Path, manifest: Mapping[str, Any], done: ProgramResult
) -> tuple[dict[str, Any], tuple[LayerTime, ...]]:
    """The benchmark's output, and the times of layers in it; raises SelfTestFailed and PackageInvalid."""
    if done.status:
        raise SelfTestFailed(f"the benchmark of {package} failed: {last_words(done.status, done.stderr)}")
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
        layers = tuple(
            LayerTime(
                entry["index"],
                entry["name"],
                layer["kernel"],
                layer["macs"],
                _number(entry["median_us"]),
                _number(entry.get("min_us", entry["median_us"])),  # earlier versions report only the median
            )
            for entry, layer in zip(result["layers"], manifest["layers"], strict=True)
        )
        told: dict[str, Any] = {name: _number(result[name]) for name in ("median_us", "min_us")}
        told |= {name: int(_number(result[name])) for name in ("runs", "threads")}
        told["clock_us"] = _number(result.get("clock_us", 0.0))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise PackageInvalid(
            f"the benchmark of {package} wrote no usable JSON ({error}): write it again with `edgetune build`"
        ) from error
    return told, layers


def _number(value: object) -> float:
    """A time or a count from a program's output; raises TypeError and ValueError for any other value."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{value} is neither a time nor a count")
    return float(value)


def _samples(package: Path, done: ProgramResult) -> tuple[float, ...]:
    """The runs in the benchmark's output, in microseconds; none for a package of an earlier version.

    Raises PackageInvalid.
    """
    lines = [line for line in done.stdout.splitlines() if line.startswith(_SAMPLES)]
    try:
        words = (lines[-1] if lines else _SAMPLES).removeprefix(_SAMPLES).split()
        return tuple(_number(int(word)) / 1e3 for word in words)
    except (ValueError, OverflowError) as error:
        raise PackageInvalid(
            f"the benchmark of {package} wrote samples that are not numbers ({error}): write it again with "
            "`edgetune build`"
        ) from error
