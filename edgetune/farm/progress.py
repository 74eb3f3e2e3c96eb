"""Progress of a night: what all boards of one process know of the database, read by one of them for all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from edgetune._version import __version__
from edgetune.config.host import host_name
from edgetune.errors import NightFault
from edgetune.farm.attempt import TAKEN
from edgetune.farm.drains import Drain, drains
from edgetune.farm.lost_boards import pass_search
from edgetune.farm.night_store import CellStanding, Night, NightCell, NightStore
from edgetune.farm.open_nights import window_over_words


class NightProgress:
    """The cells of a night with the number of their present attempt and whether they are judged, and what is drained.

    One thread calls `read` from time to time; the answers of the other methods are those of the last time. What they
    say has its times in `timezone` (None: that of this machine).
    """

    def __init__(self, store: NightStore, night: Night, timezone: str | None = None) -> None:
        self._store, self._timezone = store, timezone
        self.night = night
        self.rows = store.cells(night)
        self._reading = threading.Lock()
        self._standings: Mapping[int, CellStanding] = {}
        self._drains: Mapping[str, Drain] = {}
        self.read()

    def read(self) -> None:
        """Read the database. Raises DatabaseError."""
        with self._reading:
            self._standings = self._store.standings(self.night)
            self._drains = drains(self._store.database)

    @property
    def boards(self) -> list[str]:
        """Boards of the night, in the order of its plan."""
        return list(dict.fromkeys(row.cell.board for row in self.rows))

    @property
    def done(self) -> bool:
        """Whether all cells have a verdict."""
        return all(standing.judged for standing in self._standings.values())

    @property
    def over(self) -> bool:
        """Whether the window of the night is over."""
        return self.night.ends_utc is not None and datetime.now(UTC) >= datetime.fromisoformat(self.night.ends_utc)

    def standings(self) -> Mapping[int, CellStanding]:
        """How far each cell is: another mapping, where an attempt or a verdict has come."""
        return dict(self._standings)

    def judged(self) -> set[int]:
        """Ids of the cells that have a verdict."""
        return {number for number, standing in self._standings.items() if standing.judged}

    def drained(self, name: str) -> str:
        """Who drained a board or host and since when, "" where nobody did."""
        found = self._drains.get(name)
        return found.sentence(self._timezone) if found else ""

    def host_drained(self) -> str:
        """Who drained this host, as `drained` says."""
        return self.drained(host_name())

    def refusal(self) -> str:
        """Why this host takes no cell of the night, "" where it does."""
        drained = self.host_drained()
        if other := other_version(self.night):
            return other
        return drained and f"{drained}: `edgetune nightly drain --off {host_name()}` gives it back"

    def waits(self, row: NightCell) -> bool:
        """Whether a cell is a twin of one that still searches for it."""
        same = [other for other in self.rows if (other.cell.model, other.cell.kind) == (row.cell.model, row.cell.kind)]
        standings = [self._standings[other.id] for other in same]  # another one searches where a board was lost
        return not self._standings[row.id].searches and any(one.searches and not one.judged for one in standings)

    def runnable(self, board: str) -> NightCell | None:
        """The next cell for `board` that has no verdict and does not wait; None where there is none now."""
        for row in self.rows:
            if row.cell.board == board and not self._standings[row.id].judged and not self.waits(row):
                return row
        return None

    def ends(self, row: NightCell, attempt: int) -> str:
        """Why an attempt at a cell is to end now, "" to let it run."""
        standing = self._standings[row.id]
        if standing.judged or standing.attempt > attempt:
            return TAKEN
        if self.over:
            return window_over_words(self.night, self._timezone)
        return self.drained(row.cell.board) or self.host_drained()

    def close(self) -> None:
        """Judge the cells that nobody will measure: all where the window is over, and those of drained boards.

        A twin of what a drained board was to search searches instead.
        """
        for row in self.rows:
            board = self.drained(row.cell.board)
            if not self._standings[row.id].judged and (self.over or board):
                if self.over:
                    why = window_over_words(self.night, self._timezone)
                else:
                    why = f"{board}: `nightly rerun` later{pass_search(self._store, row)}"
                self._store.cancel(row.id, why)
        self.read()


def other_version(night: Night) -> str:
    """That a night was begun by another edgetune than this host's, "" where it was not."""
    if night.tool_version == __version__:
        return ""
    return (
        f"night {night.night} was begun by edgetune {night.tool_version}, and host {host_name()} has "
        f"{__version__}: install the other one here, or wait for the next night"
    )


def check_version(night: Night) -> None:
    """Raise NightFault where `other_version` says that this host does not go on with a night."""
    if why := other_version(night):
        raise NightFault(why)
