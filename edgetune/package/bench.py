"""How fast is a package here, as a whole and layer by layer?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetune.config.target import Target
from edgetune.errors import PackageInvalid, SelfTestFailed
from edgetune.package.driver import last_words
from edgetune.package.place import Here, Place
from edgetune.package.toolchain import Toolchain
from edgetune.package.work_copy import Finished, work_copy

TIMEOUT_S = 1800.0
_EMULATED = "times under an emulator, which say nothing about a real core"


@dataclass(frozen=True)
class LayerTime:
    """Median and least time of one layer in microseconds, of runs of their own: they include reading the clock."""

    index: int
    name: str
    kernel: str
    macs: int
    median_us: float
    min_us: float


@dataclass(frozen=True)
class BenchReport:
    """Times in microseconds, taken where `ran_on` says; where `emulated`, they say nothing about a real core."""

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
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def bench(
    package: Path,
    *,
    target: Target | None = None,
    place: Place | None = None,
    cores: Sequence[int] = (),
    runs: int = 1000,
    seconds: float = 3.0,
    timeout_s: float = TIMEOUT_S,
) -> BenchReport:
    """Build a copy of `package` and run its benchmark: at most `runs` runs, not much longer than `seconds`.

    It runs at `place`, by default here as `verify` does, and on `cores` of a board. Raises what the place raises,
    PackageInvalid, ToolchainMissing, CompileFailed and SelfTestFailed (it crashed or refused).
    """
    with work_copy(package) as (copy, manifest):
        tools = Toolchain.of(manifest, target)
        place = place or Here(tools)
        binary = _linked(copy, manifest, tools, place, timeout_s)
        done = place.execute(binary, (str(runs), f"{seconds:g}"), timeout_s, cores)
    result, layers = _answer(package, manifest, done)
    return BenchReport(
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
        note=_EMULATED if place.emulated else "",
    )


@contextmanager
def benchmark_of(package: Path, *, target: Target) -> Iterator[Callable[[int, float], tuple[LayerTime, ...]]]:
    """Build a copy of `package` here; what is given runs its benchmark, at most so many runs or about so many seconds.

    Raises, as what is given does, what `bench` raises.
    """
    with work_copy(package) as (copy, manifest):
        tools = Toolchain.of(manifest, target)
        place = Here(tools)
        binary = _linked(copy, manifest, tools, place, TIMEOUT_S)

        def run(runs: int, seconds: float) -> tuple[LayerTime, ...]:
            done = place.execute(binary, (str(runs), f"{seconds:g}"), TIMEOUT_S)
            return _answer(package, manifest, done)[1]

        yield run


def _linked(copy: Path, manifest: Mapping[str, Any], tools: Toolchain, place: Place, timeout_s: float) -> Path:
    tools.require(emulator=isinstance(place, Here))
    binary = f"build/{manifest['prefix']}_bench"
    place.link(copy, binary, tools, timeout_s)
    return copy / binary


def _answer(package: Path, manifest: Mapping[str, Any], done: Finished) -> tuple[dict[str, Any], tuple[LayerTime, ...]]:
    """What the benchmark wrote, and the times of layers in it; raises SelfTestFailed and PackageInvalid."""
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
                float(entry["median_us"]),
                float(entry.get("min_us", entry["median_us"])),  # packages of earlier versions tell the median alone
            )
            for entry, layer in zip(result["layers"], manifest["layers"], strict=True)
        )
        told = {name: result[name] for name in ("median_us", "min_us", "runs", "threads")}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise PackageInvalid(
            f"the benchmark of {package} wrote no usable JSON ({error}): write it again with `edgetune build`"
        ) from error
    return told, layers
