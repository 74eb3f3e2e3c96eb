"""Flavours: the extra files with which build systems and frameworks build a package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from edgetune.errors import ConfigError
from edgetune.package.facts import PackageFacts
from edgetune.package.manifest import MANIFEST
from edgetune.package.package_file import PackageFile

REPORT = "REPORT.md"


class Flavour(Protocol):
    """The files of one build system or framework; `name` is that of its entry point."""

    @property
    def name(self) -> str:
        """Name on the command line, such as "cmake"."""

    def files(self, facts: PackageFacts) -> Iterable[PackageFile]:
        """Return the files that this flavour adds to the core files of a package, `facts.files`."""


def flavour_files(flavours: Iterable[Flavour], facts: PackageFacts) -> tuple[PackageFile, ...]:
    """Return the files of all `flavours`; raises ConfigError where one of them is a file of the package already."""
    owners = dict.fromkeys((*(file.path for file in facts.files), REPORT, MANIFEST), "every package has")
    found: list[PackageFile] = []
    for flavour in flavours:
        for file in flavour.files(facts):
            if file.path in owners:
                raise ConfigError(
                    f"flavour '{flavour.name}' writes {file.path}, which {owners[file.path]}: leave one of them out"
                )
            owners[file.path] = f"flavour '{flavour.name}' writes too"
            found.append(file)
    return tuple(found)
