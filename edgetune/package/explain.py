"""Explanation of a kernel choice: why a kernel is in the package, from the manifest alone."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import PackageInvalid, UsageError
from edgetune.package.manifest import read_manifest
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
    """Return the explanation of `kernel` in `package`: its name, its C symbol, or the name or number of a layer.

    Raises PackageInvalid, and UsageError with the nearest names where there is no such kernel.
    """
    manifest = read_manifest(package)
    try:
        entry = _find(manifest, kernel)
        name = entry["name"]
        layers = tuple(
            f"{number}: {layer['label']}" for number, layer in enumerate(manifest["layers"]) if layer["kernel"] == name
        )
        return Explanation(
            kernel=name,
            symbol=entry["symbol"],
            operators=tuple(entry["sources"]),
            layers=layers,
            macs=entry["macs"],
            calls=entry["calls"],
            provenance=KernelProvenance(**entry["provenance"]),
        )
    except (KeyError, TypeError) as error:
        raise PackageInvalid(
            f"{package}/MANIFEST.json does not describe its kernels ({error}): emit it again"
        ) from error


def _find(manifest: dict[str, Any], kernel: str) -> dict[str, Any]:
    kernels: list[dict[str, Any]] = manifest["kernels"]
    layers = manifest["layers"]
    by_layer = {str(number): layer["kernel"] for number, layer in enumerate(layers)}
    wanted = by_layer.get(kernel) or next((one["kernel"] for one in layers if one["label"] == kernel), kernel)
    for entry in kernels:
        if wanted in {entry["name"], entry["symbol"]}:
            return entry
    names = [entry["name"] for entry in kernels]
    near = difflib.get_close_matches(kernel, names, n=3, cutoff=0.0)
    raise UsageError(
        f"the package has no kernel '{kernel}': the nearest are {', '.join(near)}; names and numbers of layers work too"
    )
