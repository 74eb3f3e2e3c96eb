"""The canary of a cell's board tonight: what it takes against its past, and the program, to be run in turns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetune.farm import archive
from edgetune.farm.health.board_health import CANARY, BoardHealth


@dataclass(frozen=True)
class TonightsCanary:
    """What the canary takes as a share of its own past (None: not known); `before` is its cost at that `ratio`.

    The program is in the archive `store` by its `digest` ("": there is none), and is unpacked in `folder`.
    """

    ratio: float | None = None
    before: float = 0.0
    digest: str = ""
    store: Path = field(default_factory=Path)
    folder: Path = field(default_factory=Path)

    @classmethod
    def of(cls, health: BoardHealth, store: Path, folder: Path) -> TonightsCanary:
        """The canary as the check of the board found it."""
        costs: Mapping[str, float] = health.costs
        digest = health.pinned.get(CANARY, "")
        return cls(health.ratios.get(CANARY), costs.get(CANARY, 0.0), digest, store, folder)

    def unpacked(self) -> Path | None:
        """The folder of the program; None where there is none any more. Raises NightFault as the archive does."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if not self.digest or archive.restore(self.store, self.digest, self.folder):
            return None
        return self.folder

    def now(self, cost: float) -> TonightsCanary:
        """The canary as it was measured later in this night."""
        if self.ratio is None or not self.before:
            return self
        return replace(self, ratio=self.ratio * cost / self.before, before=cost)
