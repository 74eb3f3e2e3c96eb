"""Compares tonight's package with the accepted one: what is exact, then starts in turns, then the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgetune._version import __version__
from edgetune.config.stack import installed_version
from edgetune.errors import BoardUnavailable, DatabaseError, DiskFull, EdgetuneError, PackageInvalid, SelfTestFailed
from edgetune.farm import gate
from edgetune.farm.acceptances import NO_PACKAGE
from edgetune.farm.archive import BUILT, PACKAGE
from edgetune.farm.bench import Bench
from edgetune.farm.causes.board import change_of, past_of
from edgetune.farm.causes.cause import NOT_FOUND, cause_of
from edgetune.farm.causes.factors import SlowerPackage
from edgetune.farm.causes.rebuilding import Rebuilding
from edgetune.farm.gate import Comparison, Which
from edgetune.farm.health.pinned import start_canary
from edgetune.farm.health.tonights_canary import TonightsCanary
from edgetune.farm.night_store import Accepted, Verdict
from edgetune.farm.worse import worse
from edgetune.package.manifest import in_arena, read_manifest, sha256_file
from edgetune.verify import starts
from edgetune.verify.starts import Start
from edgetune.verify.verify import VerifyReport

EMULATED = "times under emulation say nothing about a real core, so they are not compared"


@dataclass(frozen=True)
class Versions:
    """Tonight's package in `new` with what is `exact` of it, and the accepted one in `old`, or why it is `lost`.

    None and "" where no package was ever accepted.

    `nights` are the facts of the cell's earlier verdicts, oldest first; `rebuilding` makes packages for the cause.
    `canary` is what the board's canary takes.
    """

    new: Path
    exact: dict[str, Any]
    old: tuple[Path, Accepted] | None
    lost: str
    rebuilding: Rebuilding
    nights: Sequence[Mapping[str, Any]] = ()
    canary: TonightsCanary = field(default_factory=TonightsCanary)


def exact_facts(manifest: dict[str, Any], report: VerifyReport) -> dict[str, Any]:
    """What two runs of one package agree on to the last digit: sizes in bytes, errors, the interface.

    `max_error` is the largest error of `verify` as a share of the output's largest magnitude, None where it is infinite
    or no number.
    """
    from edgetune.codegen import CODEGEN_VERSION  # imports TVM

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
        "versions": {
            "edgetune": __version__,
            "code generator": str(CODEGEN_VERSION),
            "TVM": installed_version("apache-tvm") or "",
        },
    }


def _interface(manifest: dict[str, Any]) -> list[list[Any]]:
    """What a caller of the package sees of its tensors."""
    keys = ("name", "shape", "dtype", "layout")
    place = ["arena"] if in_arena(manifest) else []
    tensors = (*manifest["inputs"], *manifest["outputs"])
    return [[*(tensor.get(key) for key in keys), *place] for tensor in tensors]


def verdict_of(bench: Bench, versions: Versions, limit: float, cells: int) -> tuple[Verdict, bool]:
    """Return the verdict on tonight's package, and whether it is the accepted one from now on."""
    board = bench.board_facts()
    facts: dict[str, Any] = {"exact": versions.exact, "unit": bench.unit, "board": board}
    lost = versions.lost and f"{NO_PACKAGE}: {versions.lost}"
    if versions.old and versions.old[1].facts.get("interface") != versions.exact["interface"]:
        lost = "the model has another interface than the accepted one"
    if versions.old is None or lost:
        facts |= {"lost": lost, **_costs(versions.new, bench.start(versions.new))}
        return Verdict("first", lost or f"{NO_PACKAGE} yet", facts=facts), True
    folder, accepted = versions.old
    past = past_of(versions.nights, accepted.package, bench.unit, board)
    facts["accepted"] = {"night": accepted.night, "package": accepted.package}
    facts["worse"] = worse(accepted.facts, versions.exact)
    if _same_program(folder, versions.new):
        start = bench.start(versions.new)
        note = change_of(past, start.cost, board, versions.canary.ratio, counts=bench.counts)
        facts |= {"old": start.cost, "note": note}
        facts |= _costs(versions.new, start)
        return Verdict("same", "the program is that of the accepted package, byte for byte", facts=facts), False
    if not bench.judges:
        cost = _costs(versions.new, bench.start(versions.new))
        return Verdict("cannot tell", EMULATED, facts=facts | cost), False
    folders: dict[Which, Path] = {"old": folder, "new": versions.new}

    def measured(which: Which) -> Start:
        return bench.start(folders[which])

    between = bench.between_turns
    found = gate.compare_counts(measured) if bench.counts else gate.compare(measured, limit, cells, between)
    facts |= _facts_of(found, versions.new)
    canary = versions.canary
    if found.word == "slower":
        try:
            cause, canary = _cause(bench, versions, (folder, accepted), found, limit)
            facts |= cause
        except (BoardUnavailable, DatabaseError, DiskFull):
            raise
        except EdgetuneError as error:  # the verdict stands without its cause
            facts |= {"cause": f"{NOT_FOUND}: {error.message}", "diff": "", "factors": [], "shares": {}}
    facts["note"] = change_of(past, found.old, board, canary.ratio, counts=bench.counts)
    return Verdict(found.word, found.reason, facts=facts), found.word == "faster" and not facts["worse"]


def _cause(
    bench: Bench, versions: Versions, old: tuple[Path, Accepted], found: Comparison, limit: float
) -> tuple[dict[str, Any], TonightsCanary]:
    """The cause of a slower package as facts of its verdict, and the canary as it was in the same turns.

    A board that is lost meanwhile is no cause. Raises EdgetuneError where one of the programs does not run.
    """
    canary, program = versions.canary, versions.canary.unpacked()

    def in_turns(folders: Sequence[Path]) -> list[Start]:
        nonlocal canary

        def start(which: int) -> Start:
            if which == len(folders) and program is not None:
                return _started(bench, program)
            return bench.start(folders[which])

        number = len(folders) + (program is not None)
        asked = len(folders)
        found = gate.in_turns(start, number, limit, bench.between_turns, counted=bench.counts, asked=asked)
        if program is not None:
            canary = canary.now(found.pop().cost)
        return found

    known = [facts.get("versions", {}) for facts in (old[1].facts, versions.exact)]
    case = SlowerPackage(old[0], versions.new, old[0].with_name("causes"), versions.rebuilding, (known[0], known[1]))
    cause = cause_of(case, found, bench.build, in_turns)
    facts = {"cause": cause.sentence, "diff": cause.diff, "factors": list(cause.factors), "shares": cause.shares}
    return facts, canary


def _started(bench: Bench, canary: Path) -> Start:
    """Start the canary. Raises SelfTestFailed with the reason where it does not run, and what the place raises."""
    try:
        return Start(start_canary(bench, canary), ())
    except (PackageInvalid, SelfTestFailed) as error:
        raise SelfTestFailed(f"the canary did not run ({error.message})") from error


def _same_program(old: Path, new: Path) -> bool:
    return _program(old) == _program(new)


def _program(folder: Path) -> str:
    """What another board that runs the same program has as well."""
    return sha256_file(folder / BUILT / starts.PROGRAM)


def _costs(folder: Path, start: Start) -> dict[str, Any]:
    layers = read_manifest(folder / PACKAGE)["layers"]
    named = [{"name": layer["label"], "new": cost} for layer, cost in zip(layers, start.layers, strict=False)]
    return {"new": start.cost, "layers": named, "program": _program(folder)}


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
        "program": _program(folder),
        **{key: value for key, value in found.whole.to_json().items() if key != "word"},
    }
