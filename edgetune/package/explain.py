"""Explanation of a kernel choice: why a kernel is in the package, from the manifest alone."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import PackageInvalid, UsageError
from edgetune.package.manifest import kernels_of_layer, read_manifest
from edgetune.package.provenance import KernelProvenance


@dataclass(frozen=True)
class Explanation:
    """One kernel: its operators, the layers that call it, and its provenance. Times are microseconds."""

    kernel: str
    symbol: str
    operators: tuple[str, ...]
    layers: tuple[str, ...]
    macs: int
    calls: int
    provenance: KernelProvenance

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, with those of the provenance at the same level."""
        own = {name: value for name, value in asdict(self).items() if name != "provenance"}
        return {**own, **self.provenance.to_json()}


def explain(package: Path, kernel: str) -> Explanation:
    """Return the explanation of `kernel` in `package`: its name or C symbol, or the name or number of a layer.

    A name may lack the package's prefix, and that of a layer the operators that follow it in brackets. Of a loop, the
    kernel that matters most is explained; each call in it has a name of its own. Raises
    PackageInvalid, and UsageError with the nearest names where no kernel and no layer has that name.
    """
    manifest = read_manifest(package)
    try:
        entry = _find(manifest, kernel)
        name = entry["name"]
        layers = tuple(
            f"{number}: {layer['label']}"
            for number, layer in enumerate(manifest["layers"])
            if name in kernels_of_layer(layer)
        )
        return Explanation(
            kernel=name,
            symbol=entry["symbol"],
            operators=tuple(entry["sources"]),
            layers=layers,
            macs=entry["macs"],
            calls=entry["calls"],
            provenance=KernelProvenance.of_json(entry["provenance"]),
        )
    except (KeyError, TypeError) as error:
        raise PackageInvalid(
            f"{package}/MANIFEST.json does not describe its kernels ({error}): write it again with `edgetune build`"
        ) from error


def _find(manifest: dict[str, Any], kernel: str) -> dict[str, Any]:
    """Return the kernel that `kernel` names: exactly, or else by a name without the prefix and the operators."""
    kernels: list[dict[str, Any]] = manifest["kernels"]
    layers: list[dict[str, Any]] = manifest["layers"]
    by_name = {entry["name"]: entry for entry in kernels}
    of_layers = [_main_kernel(layer, by_name) for layer in layers]
    named = [(layer["label"], entry) for layer, entry in zip(layers, of_layers, strict=True)]
    named += [(call["label"], by_name[call["kernel"]]) for layer in layers for call in layer.get("calls", ())]
    named += [(entry[key], entry) for entry in kernels for key in ("name", "symbol")]
    exact = {str(number): entry for number, entry in enumerate(of_layers)}
    full: dict[str, str] = {}
    for name, entry in named:
        exact.setdefault(name, entry)
        full.setdefault(_without_prefix(name, manifest["prefix"]), name)
    wanted = _without_prefix(kernel, manifest["prefix"])
    found = exact.get(kernel) or exact.get(full.get(wanted, ""))
    if found is not None:
        return found
    near = ", ".join(full[name] for name in difflib.get_close_matches(wanted, full, n=3, cutoff=0.0))
    raise UsageError(
        f"the package has no kernel or layer '{kernel}': the nearest are {near}; give one of them, or the number of a "
        "layer"
    )


def _main_kernel(layer: dict[str, Any], by_name: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The kernel that a layer calls; of a loop, the one that takes most time, or without times has most work."""
    called = {name: by_name[name] for name in kernels_of_layer(layer)}
    if len(called) == 1:
        return next(iter(called.values()))
    times = Counter[str]()
    for call in layer["calls"]:
        times[call["kernel"]] += call["times"]
    costs = {name: KernelProvenance.of_json(entry["provenance"]).cost for name, entry in called.items()}
    if None in costs.values():
        costs = {name: entry["macs"] for name, entry in called.items()}
    return called[max(called, key=lambda name: (costs[name] or 0) * times[name])]


def _without_prefix(name: str, prefix: str) -> str:
    """The name of a kernel, a symbol or a layer without the package's prefix and without the operators after it."""
    name = name.partition(" (")[0]
    start = next((one for one in (f"{prefix}__k_", f"{prefix}_", f"{prefix}/", "k_") if name.startswith(one)), "")
    return name.removeprefix(start)
