"""Engine: who runs which cell when. The rows of the database say what is to be done; `run_cell` does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from edgetune.farm.night_store import Night, NightCell

OnVerdict = Callable[[Night], None]
"""Called after each verdict of a night; it writes the page."""


class Engine(Protocol):
    """Runs the cells of a night that have no verdict yet."""

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        """Run all cells of `night`; return when each has a verdict, or its window is over.

        Raises NightFault where another process works for this farm, and what `on_verdict` raises. An exception in this
        process (KeyboardInterrupt) ends the running cells within seconds; the same call goes on.
        """

    def runnable(self, night: Night, board: str) -> NightCell | None:
        """Return the next cell for `board`; None where none can run now."""
