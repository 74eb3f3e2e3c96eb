"""The cause of a slower package: which of toolchain, model, search and generator carries it, and in which layers.

The toolchain is measured: the accepted C, compiled by tonight's compiler and flags, runs against the accepted program.
What that does not explain is told by comparing the kernels of the slower layers: another computation is the model's,
another schedule the search's, another C text for the same schedule the generator's.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.farm.archive import BUILT, PACKAGE
from edgetune.farm.gate import Comparison, JudgedRatio
from edgetune.package.manifest import MANIFEST, read_manifest, sha256_file

CARRIES, PARTLY = 0.7, 0.3
NOT_FOUND = "cause not found"
_DIFF_LINES = 80
_SHOWN = 3


@dataclass(frozen=True)
class Cause:
    """A sentence that begins with the factor, and the C function of the slowest layer as a diff ("" where equal)."""

    sentence: str
    diff: str = ""


def cause_of(
    old: Path, new: Path, found: Comparison, rebuild: Callable[[Path], None], against: Callable[[Path], JudgedRatio]
) -> Cause:
    """Return the cause of the change from the package in folder `old` to that in `new`.

    `rebuild` builds the package of a folder by tonight's toolchain, `against` gives its cost as a ratio to the old one.
    """
    slow = slower_layers(found)
    changes = _toolchain_changes(read_manifest(old / PACKAGE), read_manifest(new / PACKAGE))
    rebuilt = old.with_name("old-c-new-toolchain")
    _old_c(old, new, rebuilt)
    rebuild(rebuilt)
    change = math.log(found.whole.ratio) if found.whole.ratio > 1 else math.log(_worst(found, slow))
    if sha256_file(old / BUILT / "bench") == sha256_file(rebuilt / BUILT / "bench"):
        share, measured = 0.0, 1.0
    else:
        measured = against(rebuilt).ratio
        share = math.log(measured) / change if change else 0.0
    factors = []
    if share >= PARTLY:
        told = f" ({'; '.join(changes)})" if changes else ""
        said = f"the accepted C is {100 * (measured - 1):+.1f} % by tonight's compiler and flags{told}"
        factors.append(f"toolchain: {said}")
    if share < CARRIES:
        factors += _of_kernels(old / PACKAGE, new / PACKAGE, slow)
    names = ", ".join(_layer_names(new / PACKAGE, slow)[:_SHOWN])
    where = f"; slower layers: {names}" if names else ""
    if not factors:
        return Cause(NOT_FOUND + where)
    several = "several: " if len(factors) > 1 else ""
    return Cause(several + "; ".join(factors) + where, _diff(old / PACKAGE, new / PACKAGE, slow))


def slower_layers(found: Comparison) -> list[int]:
    """Indices of the layers that lost most time, the worst first: those with half or more of the worst one's loss."""
    if len(found.old_layers) != len(found.new_layers):
        return []
    losses = [after - before for before, after in zip(found.old_layers, found.new_layers, strict=True)]
    worst = max(losses, default=0.0)
    chosen = [i for i, loss in enumerate(losses) if loss > 0 and loss >= worst / 2]
    return sorted(chosen, key=lambda i: -losses[i])


def _worst(found: Comparison, slow: Sequence[int]) -> float:
    ratios = [found.new_layers[i] / found.old_layers[i] for i in slow if found.old_layers[i]]
    return max(ratios, default=1.0)


def _old_c(old: Path, new: Path, folder: Path) -> None:
    """Make `folder` the old package with tonight's Makefile, which holds tonight's flags."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(old / PACKAGE, folder / PACKAGE)
    makefile = folder / PACKAGE / "Makefile"
    shutil.copy(new / PACKAGE / "Makefile", makefile)
    manifest = json.loads((folder / PACKAGE / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"]["Makefile"] = {"bytes": makefile.stat().st_size, "sha256": sha256_file(makefile)}
    (folder / PACKAGE / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="ascii")


def _toolchain_changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two toolchains, in words."""
    changes = []
    before, after = old["target"]["compiler"], new["target"]["compiler"]
    for key in ("cc", "cflags", "kernel_cflags", "ldflags"):
        was, now = before.get(key), after.get(key)
        if was != now:
            words = [" ".join(value) if isinstance(value, list) else str(value) for value in (was, now)]
            changes.append(f"{key} '{words[0]}' became '{words[1]}'")
    versions = [manifest["memory"].get("measured_with") for manifest in (old, new)]
    if versions[0] != versions[1]:
        changes.append(f"{versions[0]} became {versions[1]}")
    return changes


def _of_kernels(old: Path, new: Path, slow: Sequence[int]) -> list[str]:
    """The factors that differ between the kernels of the slower layers."""
    manifests = read_manifest(old), read_manifest(new)
    layers = [len(manifest["layers"]) for manifest in manifests]
    if layers[0] != layers[1]:
        factor = "generator" if manifests[0]["model"]["sha256"] == manifests[1]["model"]["sha256"] else "model"
        return [f"{factor}: the package has {layers[1]} layers, the accepted one {layers[0]}"]
    before, after = (_kernels(folder, slow) for folder in (old, new))
    model, search, generator = [], [], []
    for was, now in zip(before, after, strict=True):
        if was is None or was["provenance"].get("workload") != now["provenance"].get("workload"):
            model.append(now["name"])
        elif was["provenance"].get("trace_sha256") != now["provenance"].get("trace_sha256"):
            records = [kernel["provenance"].get("record") or "default schedule" for kernel in (was, now)]
            search.append(f"{now['name']} ({records[0]} became {records[1]})")
        elif _function(old, was["symbol"]) != _function(new, now["symbol"]):
            generator.append(now["name"])
    versions = [read_manifest(folder)["generator"].get("version") for folder in (old, new)]
    found = []
    if model:
        found.append(f"model: {_names(model)} compute something else than in the accepted package")
    if search:
        found.append(f"search: other schedules for {_names(search)}")
    if generator:
        found.append(
            f"generator ({versions[0]} became {versions[1]}): other C for the schedules of {_names(generator)}"
        )
    return found


def _names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _SHOWN} more" if len(unique) > _SHOWN else ""
    return ", ".join(unique[:_SHOWN]) + more


def _kernels(package: Path, layers: Sequence[int]) -> list[Any]:
    """The kernel of each layer in a manifest; None for a layer that it lacks."""
    manifest = read_manifest(package)
    by_name = {kernel["name"]: kernel for kernel in manifest["kernels"]}
    names = [layer["kernel"] for layer in manifest["layers"]]
    return [by_name.get(names[i]) if i < len(names) else None for i in layers]


def _layer_names(package: Path, layers: Sequence[int]) -> list[str]:
    manifest = read_manifest(package)
    return [manifest["layers"][i]["label"] for i in layers]


def _function(package: Path, symbol: str) -> list[str]:
    """Lines of the C function of a kernel, without its comment; none where it is not found."""
    text = (package / "src" / f"{read_manifest(package)['prefix']}_kernels.c").read_text(encoding="utf-8")
    match = re.search(rf"^[^\n;]*\b{re.escape(symbol)}\([^;{{]*\{{.*?^\}}$", text, re.MULTILINE | re.DOTALL)
    return match[0].splitlines() if match else []


def _diff(old: Path, new: Path, slow: Sequence[int]) -> str:
    """The C functions of the slowest layer as a unified diff."""
    for was, now in zip(_kernels(old, slow[:1]), _kernels(new, slow[:1]), strict=True):
        if was is not None and now is not None:
            functions = _function(old, was["symbol"]), _function(new, now["symbol"])
            lines = list(difflib.unified_diff(*functions, "accepted", "tonight", lineterm=""))
            return "\n".join(lines[:_DIFF_LINES])
    return ""
