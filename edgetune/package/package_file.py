"""Package files: each file of a package by its path, with its template or its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.package.rendering import render


@dataclass(frozen=True, eq=False)
class PackageFile:
    """One file of a package; `path` is its POSIX path inside the package.

    `source` is the name of a template below templates/package, or the bytes, or a function that returns the bytes: a
    large image exists only while it is written. A template gets the variables of `template_context` and `variables`.
    """

    path: str
    source: str | bytes | Callable[[], bytes]
    variables: Mapping[str, object] = field(default_factory=dict)

    def content(self, context: Mapping[str, object]) -> bytes:
        """Return the bytes of the file, templates with the variables of `context`."""
        if isinstance(self.source, str):
            return render(self.source, **context, **self.variables).encode("utf-8")
        return self.source if isinstance(self.source, bytes) else self.source()


def write_files(folder: Path, files: Iterable[PackageFile], context: Mapping[str, object]) -> None:
    """Write `files` below `folder`, with the folders that they need."""
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content(context))
