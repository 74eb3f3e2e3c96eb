"""The manifest of a bundle: which candidates it has, for which target, and by which code generator."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgetune.errors import BundleInvalid
from edgetune.records.record import Count, Hash, Name
from edgetune.yaml_reader.messages import complaint

MANIFEST, RESULTS, PLAN = "BUNDLE.json", "results.txt", "plan.txt"
VERSION = 4
MOST_MANIFEST_BYTES, MOST_RESULT_BYTES = 64 << 20, 64 << 20
MOST_CANDIDATES = 100_000


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True)


class BundledCandidate(_Strict):
    """One candidate: `candidate` is the hash of its text, as in a record."""

    workload: Hash
    workload_name: Name
    candidate: Hash
    trace: Annotated[str, Field(max_length=1 << 20)]
    scratch_bytes: Count
    code_bytes: Count


class BundleManifest(_Strict):
    """The whole of BUNDLE.json, except its hash."""

    format: Literal["edgetune-bundle"]
    version: int
    tool_version: Name
    codegen_version: Count
    target: Name
    target_fingerprint: Name
    toolchain: Name
    seed: Count
    kind: Name
    caches: Literal["warm", "cold"]
    emulated: bool
    plan_sha256: Hash
    candidates: Annotated[list[BundledCandidate], Field(max_length=MOST_CANDIDATES)]


def identity(manifest: BundleManifest) -> str:
    """The hash that names a bundle: that of its manifest without the plan, which names the bundle itself."""
    content = manifest.model_dump()
    del content["plan_sha256"]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def manifest_text(manifest: BundleManifest) -> str:
    """BUNDLE.json; equal manifests give equal text."""
    return json.dumps({**manifest.model_dump(), "sha256": identity(manifest)}, indent=1, sort_keys=True) + "\n"


def read_manifest(folder: Path) -> tuple[BundleManifest, str]:
    """The manifest of a bundle and its hash. Raises BundleInvalid for what no `export` of this version writes."""
    text = read_limited(folder, MANIFEST, MOST_MANIFEST_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise BundleInvalid(f"{folder / MANIFEST} is not JSON: copy the bundle again") from None
    if not isinstance(content, dict) or content.get("format") != "edgetune-bundle":
        raise BundleInvalid(
            f"{folder} is not a bundle of edgetune: give the folder that `edgetune bundle export` wrote"
        )
    if content.get("version") != VERSION:
        raise BundleInvalid(
            f"{folder} is a bundle of another version ({str(content.get('version'))[:20]}, here {VERSION}): export it "
            "again with this version of edgetune"
        )
    stated = content.pop("sha256", None)
    try:
        manifest = BundleManifest.model_validate(content)
    except ValidationError as error:
        raise BundleInvalid(
            f"{folder / MANIFEST} cannot be used ({complaint(error.errors()[0])}): copy the bundle again"
        ) from None
    if stated != identity(manifest):
        raise BundleInvalid(f"{folder / MANIFEST} was changed after it was written: export the bundle again")
    return manifest, identity(manifest)


def read_limited(folder: Path, name: str, most: int) -> bytes:
    """The bytes of a regular file in `folder`, no symbolic link, at most `most`; raises BundleInvalid."""
    path = folder / name
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        remedy = "give the folder of a bundle" if name == MANIFEST else "run it with `edgetune bundle run`"
        raise BundleInvalid(f"{path} {reason}: {remedy}") from None
    with os.fdopen(number, "rb") as stream:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise BundleInvalid(f"{path} is not a file: copy the bundle again")
        data = stream.read(most + 1)
    if len(data) > most:
        raise BundleInvalid(f"{path} is larger than {most >> 20} MiB: copy the bundle again")
    return data
