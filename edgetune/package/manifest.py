"""Package manifest: reads and writes MANIFEST.json: contents, provenance of each kernel, hash of every file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetune.errors import PackageInvalid
from edgetune.graph.program import LinearQuantisation, TensorSpec
from edgetune.graph.stream import WindowStream
from edgetune.package.manifest_model import complaint
from edgetune.package.states import KeptState

MANIFEST = "MANIFEST.json"
FORMAT = 1


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_table(folder: Path) -> dict[str, dict[str, object]]:
    """Return bytes and hash of every file under `folder` except the manifest, by POSIX path."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def write_manifest(folder: Path, facts: dict[str, object]) -> None:
    """Write MANIFEST.json over all files now in `folder`, with sorted keys and without times or paths."""
    content = {"format": FORMAT, **facts, "files": file_table(folder)}
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="ascii")


def is_package(folder: Path) -> bool:
    """Return whether `folder` holds a package that edgetune wrote, of whatever version."""
    return _ours(folder) is not None


def listed_files(folder: Path) -> frozenset[str] | None:
    """Return the files that the package in `folder` lists, by POSIX path; None where its manifest is unusable.

    Needs no other key, so that packages of other versions and damaged ones can be replaced.
    """
    listed = (_ours(folder) or {}).get("files")
    return frozenset(listed) if isinstance(listed, dict) else None


def _ours(folder: Path) -> dict[str, Any] | None:
    """The manifest in `folder`, unchecked; None where it is not of edgetune or no JSON."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and _written_by(content) == "edgetune" else None


def _written_by(content: dict[str, Any]) -> object:
    generator = content.get("generator")
    return generator.get("name") if isinstance(generator, dict) else None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a package with all keys of `Manifest`; raises PackageInvalid naming what is wrong."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise PackageInvalid(f"{folder} is not a folder: give the folder of a package")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PackageInvalid(f"{folder} has no {MANIFEST}: it is not a package of edgetune") from None
    except OSError as error:
        raise PackageInvalid(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PackageInvalid(f"{path} is not JSON ({error}): write it again with `edgetune build`") from error
    if not isinstance(content, dict) or _written_by(content) != "edgetune":
        raise PackageInvalid(f"{path} was not written by edgetune: write it again with `edgetune build`")
    if content.get("format") != FORMAT:
        raise PackageInvalid(
            f"{path} has format {content.get('format')!r}, this version reads {FORMAT}: "
            "write the package again with `edgetune build`"
        )
    wrong = complaint(content)
    if wrong is not None:
        raise PackageInvalid(f"{path} cannot be used: {wrong}; write it again with `edgetune build`")
    return content


def kernels_of_layer(layer: dict[str, Any]) -> list[str]:
    """Names of the kernels that a layer of a manifest calls, in their order: several for a loop."""
    return [call["kernel"] for call in layer["calls"]] if layer.get("calls") else [layer["kernel"]]


def interface_of(manifest: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    """Return the inputs, then the outputs of a package, as its interface has them."""
    return tuple(
        TensorSpec(
            tensor["name"],
            tuple(tensor["shape"]),
            tensor["dtype"],
            tensor.get("layout", "model"),
            quantisation=_quantisation(tensor),
        )
        for tensor in (*manifest["inputs"], *manifest["outputs"])
    )


def states_of(manifest: Mapping[str, Any]) -> tuple[KeptState, ...]:
    """Return what instances of a package keep from run to run."""
    return tuple(KeptState.from_json(one) for one in manifest.get("states", ()))


def stream_of(manifest: Mapping[str, Any]) -> WindowStream | None:
    """Return what a package of one step says of its window; None for all others."""
    stated = manifest.get("stream")
    return None if stated is None else WindowStream.from_json(stated)


def run_function(manifest: Mapping[str, Any]) -> str:
    """Return the name of the function that computes all outputs."""
    return f"{manifest['prefix']}_{'run' if manifest.get('stream') is None else 'step'}"


def in_arena(manifest: Mapping[str, Any]) -> bool:
    """Return whether inputs and outputs lie in the workspace: a run is passed none."""
    return bool(manifest["memory"].get("io", "caller") == "arena")


def _quantisation(tensor: dict[str, Any]) -> LinearQuantisation | None:
    scale, zero_point = tensor.get("scale"), tensor.get("zero_point")
    return None if scale is None or zero_point is None else LinearQuantisation(scale, zero_point)


def check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise PackageInvalid for the first listed file that is missing or was changed."""
    listed: dict[str, dict[str, Any]] = manifest["files"]
    for name, facts in sorted(listed.items()):
        path = folder / name
        # Names are joined to other folders as well, so their text itself must stay inside, not only the resolved path.
        plain = not Path(name).is_absolute() and ".." not in Path(name).parts
        if not plain or not path.resolve().is_relative_to(folder.resolve()):
            raise PackageInvalid(
                f"{MANIFEST} lists {name!r}, which is outside the package: write it again with `edgetune build`"
            )
        if not path.is_file():
            raise PackageInvalid(f"{folder} lacks {name}: write it again with `edgetune build`")
        if path.stat().st_size != facts["bytes"] or sha256_file(path) != facts["sha256"]:
            raise PackageInvalid(
                f"{folder / name} was changed after it was written: write it again with `edgetune build`"
            )
