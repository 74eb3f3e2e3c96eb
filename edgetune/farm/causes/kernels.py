"""Kernels of two packages side by side: what differs in provenance and C text, layer by layer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from edgetune.package.manifest import kernels_of_layer, read_manifest

_DIFF_LINES = 80
_SHOWN = 3


def changed_schedules(old: Path, new: Path) -> list[str]:
    """Kernels of the same computation whose schedule differs: both records, and where fewer candidates were tried."""
    before = {kernel["provenance"].get("workload"): kernel for kernel in read_manifest(old)["kernels"]}
    found = []
    for now in read_manifest(new)["kernels"]:
        was = before.get(now["provenance"].get("workload"))
        if was and was["provenance"].get("trace_sha256") != now["provenance"].get("trace_sha256"):
            names = [kernel["provenance"].get("record") or "default schedule" for kernel in (was, now)]
            tried = [kernel["provenance"].get("candidates") or 0 for kernel in (was, now)]
            fewer = f", the best of {tried[1]} correct candidates instead of {tried[0]}" if tried[1] < tried[0] else ""
            found.append(f"{now['name']} ({names[0]} became {names[1]}{fewer})")
    return found


def changed_code(old: Path, new: Path) -> list[str]:
    """Kernels whose C function differs or that only `new` has."""
    before = {kernel["name"]: kernel for kernel in read_manifest(old)["kernels"]}
    return [
        now["name"]
        for now in read_manifest(new)["kernels"]
        if now["name"] not in before or function(old, before[now["name"]]["symbol"]) != function(new, now["symbol"])
    ]


def changed_workloads(old: Path, new: Path) -> list[str]:
    """Kernels of `new` that compute what no kernel of `old` does."""
    known = {kernel["provenance"].get("workload") for kernel in read_manifest(old)["kernels"]}
    return [kernel["name"] for kernel in read_manifest(new)["kernels"] if kernel["provenance"]["workload"] not in known]


def shown(names: Sequence[str]) -> str:
    """The first names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _SHOWN} more" if len(unique) > _SHOWN else ""
    return ", ".join(unique[:_SHOWN]) + more


def labels(package: Path, layers: Sequence[int]) -> list[str]:
    """Labels of layers by index."""
    own = read_manifest(package)["layers"]
    return [own[index]["label"] for index in layers if index < len(own)]


def diff(old: Path, new: Path, layer: int) -> str:
    """The C functions of a layer as a unified diff, "" where they are equal or one package lacks the layer.

    A loop has those of all kernels that its steps call.
    """
    functions = [
        [line for symbol in _symbols(package, layer) for line in function(package, symbol)] for package in (old, new)
    ]
    lines = list(difflib.unified_diff(functions[0], functions[1], "accepted", "tonight", lineterm=""))
    return "\n".join(lines[:_DIFF_LINES]) if all(functions) else ""


def function(package: Path, symbol: str) -> list[str]:
    """Lines of the C function of a kernel, without its comment; none where it is not found."""
    file = package / "src" / f"{read_manifest(package)['prefix']}_kernels.c"
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8")
    match = re.search(rf"^[^\n;]*\b{re.escape(symbol)}\([^;{{]*\{{.*?^\}}$", text, re.MULTILINE | re.DOTALL)
    return match[0].splitlines() if match else []


def _symbols(package: Path, layer: int) -> list[str]:
    """The symbols of the kernels that a layer calls, each once, in the order of the calls."""
    manifest = read_manifest(package)
    if layer >= len(manifest["layers"]):
        return []
    symbols = {kernel["name"]: kernel["symbol"] for kernel in manifest["kernels"]}
    called = dict.fromkeys(kernels_of_layer(manifest["layers"][layer]))
    return [symbols[name] for name in called if name in symbols]
