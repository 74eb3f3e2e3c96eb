"""Rebuilding: packages that differ from the accepted one in some of tonight's changes, built by tonight's edgetune."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.config.database_location import DatabaseLocation
from edgetune.config.settings import Settings
from edgetune.events import Event
from edgetune.farm import archive
from edgetune.package.manifest import read_manifest
from edgetune.package.provenance import KernelProvenance
from edgetune.records import RecordStore

if TYPE_CHECKING:
    from edgetune.pipeline.link import Choice  # imports TVM


@dataclass(frozen=True)
class Rebuilding:
    """What is needed to build a cell's package again: tonight's settings of the cell, and the archive."""

    settings: Settings
    archive: Path
    events: Callable[[Event], None]

    def model_of(self, package: Path) -> Path | None:
        """The model file from which `package` was made: tonight's, or that in the archive; None where it is lost."""
        wanted: dict[str, Any] = read_manifest(package)["model"]
        if wanted["sha256"] == self._tonight:
            return Path(str(self.settings.model))
        return archive.find_model(self.archive, wanted["sha256"], Path(wanted["file"]).suffix)

    @property
    def _tonight(self) -> str:
        digest: str = read_manifest(self.settings.out)["model"]["sha256"]
        return digest

    def lost_records(self, package: Path) -> list[str]:
        """Kernels of `package` whose measured schedule is not in the database any more. Raises DatabaseError."""
        found, kernels = schedules_in(package, self.settings.db), read_manifest(package)["kernels"]
        return [kernel["name"] for kernel in kernels if kernel["provenance"]["workload"] not in found]

    def build(self, model: Path, schedules_of: Path | None, out: Path) -> None:
        """Write the package of `model` to `out` with the schedules of the package `schedules_of`, else today's best.

        Kernels that `schedules_of` does not have get today's best. Raises what `api.build` raises.
        """
        from edgetune.pipeline.rebuild import rebuild

        found = schedules_in(schedules_of, self.settings.db) if schedules_of else {}
        rebuild(replace(self.settings, model=model), found, out, self.events)


def schedules_in(package: Path, db: DatabaseLocation) -> dict[str, Choice | None]:
    """The schedules of a package by workload: None is the default one. Those that the database lost are left out."""
    from edgetune.pipeline.link import Choice

    found: dict[str, Choice | None] = {}
    with RecordStore.open(db, create=False) as store:
        for kernel in read_manifest(package)["kernels"]:
            provenance = _provenance(kernel["provenance"])
            if not provenance.trace_sha256:
                found[provenance.workload] = None
                continue
            for trace in store.traces(provenance.workload):
                if hashlib.sha256(trace.encode()).hexdigest() == provenance.trace_sha256:
                    found[provenance.workload] = Choice(trace, provenance)
    return found


def _provenance(entry: dict[str, Any]) -> KernelProvenance:
    """The provenance in a manifest, whose version may have had other fields."""
    known = {field.name for field in fields(KernelProvenance)}
    return KernelProvenance(**{name: value for name, value in entry.items() if name in known})
