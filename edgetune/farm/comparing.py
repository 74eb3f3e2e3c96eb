"""Compares tonight's package with the accepted one: what is exact, then starts in turns, then the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.farm import gate
from edgetune.farm.archive import BUILT, PACKAGE
from edgetune.farm.cause import cause_of
from edgetune.farm.gate import Comparison, JudgedRatio, Which
from edgetune.farm.night_store import Accepted, Verdict
from edgetune.package.manifest import read_manifest, sha256_file
from edgetune.target.target import Target
from edgetune.verify import starts
from edgetune.verify.place import ExecutionPlace
from edgetune.verify.starts import Start
from edgetune.verify.verify import VerifyReport

FLASH_LIMIT = 0.01
ERROR_LIMIT, ROUNDING = 2.0, 1e-6
EMULATED = "times under emulation say nothing about a real core, so they are not compared"


@dataclass(frozen=True)
class Bench:
    """The place where two packages are timed in turns, and how: `between_turns` lets other runs have a turn."""

    place: ExecutionPlace
    target: Target
    cores: Sequence[int] = ()
    counts: bool = False
    between_turns: Callable[[], None] = lambda: None

    @property
    def unit(self) -> str:
        """Unit of a start's cost there."""
        return "instructions" if self.counts else "ns"

    def build(self, folder: Path) -> None:
        """Build the package in `folder` for this place."""
        starts.build(folder / PACKAGE, self.target, self.place, folder / BUILT)

    def start(self, folder: Path) -> Start:
        """Start the benchmark of the package in `folder` once."""
        return starts.start(folder / PACKAGE, folder / BUILT, self.place, self.cores)


@dataclass(frozen=True)
class Versions:
    """Tonight's package in `new` with what is `exact` of it, and the accepted one in `old`, or why there is `none`."""

    new: Path
    exact: dict[str, Any]
    old: tuple[Path, Accepted] | None
    none: str


def exact_facts(manifest: dict[str, Any], report: VerifyReport) -> dict[str, Any]:
    """What two runs of one package agree on to the last digit: sizes in bytes, errors, the interface.

    `max_error` is the largest error of `verify` as a share of the output's largest magnitude, None where it is infinite
    or no number.
    """
    memory = manifest["memory"]
    code = memory.get("code_bytes")
    errors = [output.max_rel for output in report.outputs]
    error = max(errors, default=0.0) if all(map(math.isfinite, errors)) else math.inf
    return {
        "arena_bytes": memory.get("arena_bytes"),
        "flash_bytes": None if code is None else code + memory["weights_bytes"],
        "max_error": error if math.isfinite(error) else None,
        "interface": _interface(manifest),
        "model": manifest["model"]["sha256"],
    }


def _interface(manifest: dict[str, Any]) -> list[list[Any]]:
    """What a caller of the package sees of its tensors."""
    keys = ("name", "shape", "dtype", "layout")
    return [[tensor.get(key) for key in keys] for side in ("inputs", "outputs") for tensor in manifest[side]]


def verdict_of(bench: Bench, versions: Versions, limit: float, cells: int) -> tuple[Verdict, bool]:
    """Return the verdict on tonight's package, and whether it is the accepted one from now on."""
    facts: dict[str, Any] = {"exact": versions.exact, "unit": bench.unit}
    reason = versions.none
    if versions.old and versions.old[1].facts.get("interface") != versions.exact["interface"]:
        reason = "the model has another interface than the accepted one"
    if versions.old is None or reason:
        return Verdict("first", reason, facts=facts | _costs(versions.new, bench.start(versions.new))), True
    folder, accepted = versions.old
    facts["accepted"] = {"night": accepted.night, "package": accepted.package}
    facts["worse"] = worse(accepted.facts, versions.exact)
    if _same_program(folder, versions.new):
        cost = _costs(versions.new, bench.start(versions.new))
        return Verdict("same", "the program is that of the accepted package, byte for byte", facts=facts | cost), False
    if bench.place.emulated and not bench.counts:
        cost = _costs(versions.new, bench.start(versions.new))
        return Verdict("cannot tell", EMULATED, facts=facts | cost), False
    folders: dict[Which, Path] = {"old": folder, "new": versions.new}

    def measured(which: Which) -> Start:
        return bench.start(folders[which])

    between = bench.between_turns
    found = gate.compare_counts(measured) if bench.counts else gate.compare(measured, limit, cells, between)
    facts |= _facts_of(found, versions.new)
    if found.word == "slower":
        facts |= _cause(bench, (folder, versions.new), found, limit)
    return Verdict(found.word, found.reason, facts=facts), found.word == "faster" and not facts["worse"]


def _cause(bench: Bench, folders: tuple[Path, Path], found: Comparison, limit: float) -> dict[str, str]:
    def against(rebuilt: Path) -> JudgedRatio:
        chosen: dict[Which, Path] = {"old": folders[0], "new": rebuilt}

        def measured(which: Which) -> Start:
            return bench.start(chosen[which])

        if bench.counts:
            return gate.compare_counts(measured).whole
        return gate.compare(measured, limit, 1, bench.between_turns).whole

    cause = cause_of(*folders, found, bench.build, against)
    return {"cause": cause.sentence, "diff": cause.diff}


def worse(old: Any, new: dict[str, Any]) -> list[str]:
    """What is exact and worse than in the accepted package, in words.

    A larger arena, flash larger by over 1 %, or results more than twice as far from the reference: another order of the
    same sums moves the error by less, and below `ROUNDING` it is the rounding of single numbers.
    """
    found = []
    for key, name, limit in (("arena_bytes", "arena", 0.0), ("flash_bytes", "flash", FLASH_LIMIT)):
        before, after = old.get(key), new.get(key)
        if before is not None and after is not None and after > before * (1 + limit):
            found.append(f"{name} {after} bytes instead of {before}")
    before, after = old.get("max_error"), new.get("max_error")
    if before is not None and (after is None or after > max(ERROR_LIMIT * before, ROUNDING)):
        said = "not finite" if after is None else f"{after:.2g}"
        found.append(f"largest error of the results {said} instead of {before:.2g}")
    return found


def _same_program(old: Path, new: Path) -> bool:
    return sha256_file(old / BUILT / starts.PROGRAM) == sha256_file(new / BUILT / starts.PROGRAM)


def _costs(folder: Path, start: Start) -> dict[str, Any]:
    layers = read_manifest(folder / PACKAGE)["layers"]
    named = [{"name": layer["label"], "new": cost} for layer, cost in zip(layers, start.layers, strict=False)]
    return {"new": start.cost, "layers": named}


def _facts_of(found: Comparison, folder: Path) -> dict[str, Any]:
    layers = []
    for index, layer in enumerate(read_manifest(folder / PACKAGE)["layers"]):
        row = {"name": layer["label"], "new": found.new_layers[index]}
        if len(found.old_layers) == len(found.new_layers):
            row["old"] = found.old_layers[index]
        if index in found.layers:
            row |= found.layers[index].to_json()
        layers.append(row)
    return {
        "old": found.old,
        "new": found.new,
        "layers": layers,
        "starts": found.starts,
        "turns": found.turns,
        **{key: value for key, value in found.whole.to_json().items() if key != "word"},
    }
