"""Content of packages for boards without operating system: those in C, with advice to search where one can be timed."""

from __future__ import annotations

from edgetune.package.content import CContent
from edgetune.target.board_kind import BoardKind


class _BareMetalContent(CContent):
    """See `PackageContent`."""

    def tuned_by(self, target: BoardKind) -> str:
        """Return the command of a search where candidates can be timed, else ""."""
        return "" if target.addressable else super().tuned_by(target)

    def manifest(self, target: BoardKind, threads: int) -> dict[str, object]:
        """Return what packages in C state, and the clock, which the benchmark counts."""
        return {**super().manifest(target, threads), "clock_mhz": target.clock_mhz}


BARE_METAL_CONTENT = _BareMetalContent()
