"""Factors: what can make a package slower, in the order in which their changes are applied to the accepted package.

Each makes a package that differs from the one before it in its own change alone: the accepted C by tonight's compiler,
then from the accepted schedules by tonight's generator, then with tonight's records, then of tonight's model. The
last one is tonight's package. The difference of two neighbours' costs is what a factor carries.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edgetune.farm.archive import PACKAGE
from edgetune.farm.causes.kernels import changed_code, changed_schedules, changed_workloads, shown
from edgetune.farm.causes.rebuilding import Rebuilding
from edgetune.package.manifest import MANIFEST, read_manifest, sha256_file


@dataclass(frozen=True)
class SlowerPackage:
    """The accepted package in `old` and tonight's in `new` (each with `package` and `built`), and a folder for others.

    `versions` are those of generator and libraries that made each of the two.
    """

    old: Path
    new: Path
    folder: Path
    rebuilding: Rebuilding
    versions: tuple[Mapping[str, str], Mapping[str, str]]

    @property
    def other_model(self) -> bool:
        """Whether tonight's model is another one than the accepted package's."""
        digests = [read_manifest(folder / PACKAGE)["model"]["sha256"] for folder in (self.old, self.new)]
        return bool(digests[0] != digests[1])


class Factor(Protocol):
    """Something that can make a package slower."""

    @property
    def name(self) -> str:
        """The word that stands first in the cause."""

    def applied(self, case: SlowerPackage, before: Path) -> Path:
        """The folder whose package differs from that in `before` in this factor alone; `before` where nothing does.

        The caller builds it. Raises EdgetuneError where it cannot be made.
        """

    def said(self, case: SlowerPackage, before: Path, after: Path) -> str:
        """What differs, in words."""


_SETTING = re.compile(r"^(?:override (\w+) =|(\w+) \?=).*$", re.MULTILINE)
"""A line of a package's Makefile that holds compiler, flags or libraries: `override`, or what its user may set.

Other variables say which files it builds.
"""


class ToolchainFactor:
    """Compiler, linker and their flags: the accepted C with the settings of tonight's Makefile."""

    name = "toolchain"

    def applied(self, case: SlowerPackage, before: Path) -> Path:
        """Copy the package, and put tonight's settings into its Makefile, which knows its own files."""
        folder = case.folder / self.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before / PACKAGE, folder / PACKAGE)
        makefile = folder / PACKAGE / "Makefile"
        own, tonights = (path.read_text(encoding="utf-8") for path in (makefile, case.new / PACKAGE / "Makefile"))
        makefile.write_text(_with_settings(own, tonights), encoding="utf-8")
        manifest = json.loads((folder / PACKAGE / MANIFEST).read_text(encoding="utf-8"))
        manifest["files"]["Makefile"] = {"bytes": makefile.stat().st_size, "sha256": sha256_file(makefile)}
        text = json.dumps(manifest, indent=1, sort_keys=True)
        (folder / PACKAGE / MANIFEST).write_text(text + "\n", encoding="ascii")
        return folder

    def said(self, case: SlowerPackage, before: Path, after: Path) -> str:
        """Which flag or version moved."""
        del before, after
        manifests = [read_manifest(folder / PACKAGE) for folder in (case.old, case.new)]
        changes = [
            f"{key} '{_words(was)}' became '{_words(now)}'"
            for key in ("cc", "cflags", "kernel_cflags", "ldflags")
            if (was := manifests[0]["target"]["compiler"].get(key))
            != (now := manifests[1]["target"]["compiler"].get(key))
        ]
        versions = [manifest["memory"].get("measured_with") for manifest in manifests]
        if versions[0] != versions[1]:
            changes.append(f"{versions[0]} became {versions[1]}")
        told = "; ".join(changes) or "no flag and no version moved, so that the same names stand for other programs"
        return f"the accepted C by tonight's compiler and flags ({told})"


def _with_settings(makefile: str, other: str) -> str:
    """`makefile` with the settings of another one, line by line: a condition may choose between two of a variable."""
    lines: dict[str, list[str]] = {}
    for found in _SETTING.finditer(other):
        lines.setdefault(found[1] or found[2], []).append(found[0])

    def replaced(found: re.Match[str]) -> str:
        left = lines.get(found[1] or found[2])
        return left.pop(0) if left else found[0]

    return _SETTING.sub(replaced, makefile)


class GeneratorFactor:
    """Edgetune's code generator and TVM: the accepted schedules of the accepted model, printed anew."""

    name = "generator"

    def applied(self, case: SlowerPackage, before: Path) -> Path:
        """Write the package anew; the one before stands where the accepted model or one of its schedules is lost."""
        model = case.rebuilding.model_of(case.old / PACKAGE)
        if model is None or case.rebuilding.lost_records(case.old / PACKAGE):
            return before
        folder = case.folder / self.name
        case.rebuilding.build(model, case.old / PACKAGE, folder / PACKAGE)
        return folder

    def said(self, case: SlowerPackage, before: Path, after: Path) -> str:
        """Which version moved, and which kernels are other C."""
        was, now = case.versions
        moved = [f"{key} {was[key]} became {now.get(key)}" for key in was if was[key] != now.get(key)]
        versions = "; ".join(moved) or " and ".join(f"{key} {now[key]}" for key in now)
        return f"other C for the accepted schedules of {shown(changed_code(before, after))} ({versions})"


class SearchFactor:
    """The records that win tonight, for the accepted model."""

    name = "search"

    def applied(self, case: SlowerPackage, before: Path) -> Path:
        """Tonight's package where the model is the accepted one, else the accepted model with tonight's records."""
        if not case.other_model:
            return case.new
        model = case.rebuilding.model_of(case.old / PACKAGE)
        if model is None:
            return before
        folder = case.folder / self.name
        case.rebuilding.build(model, None, folder / PACKAGE)
        return folder

    def said(self, case: SlowerPackage, before: Path, after: Path) -> str:
        """Which kernels have another schedule, which of them had fewer candidates, and which records are lost."""
        lost = case.rebuilding.lost_records(case.old / PACKAGE)
        told = f"; the database has no record any more of the accepted package's {shown(lost)}" if lost else ""
        if lost and case.versions[0] != case.versions[1]:
            told += ", so the generator counts to the search"
        return f"other schedules for {shown(changed_schedules(before, after))}{told}"


class ModelFactor:
    """The model file."""

    name = "model"

    def applied(self, case: SlowerPackage, before: Path) -> Path:
        """Tonight's package."""
        del before
        return case.new

    def said(self, case: SlowerPackage, before: Path, after: Path) -> str:
        """Which kernels compute something else."""
        layers = [len(read_manifest(package)["layers"]) for package in (before, after)]
        lost = case.other_model and case.rebuilding.model_of(case.old / PACKAGE) is None
        told = "; the accepted model is lost, so generator and search count to it" if lost else ""
        if layers[0] != layers[1]:
            return f"the package has {layers[1]} layers, the accepted one {layers[0]}{told}"
        return f"{shown(changed_workloads(before, after))} compute something else than in the accepted package{told}"


FACTORS: tuple[Factor, ...] = (ToolchainFactor(), GeneratorFactor(), SearchFactor(), ModelFactor())
"""All factors, in the order in which they are applied."""


def _words(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)
