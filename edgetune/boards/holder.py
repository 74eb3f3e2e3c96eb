"""Who holds a board: the line that locks carry from one user to the other, and the sentence that people read.

The line is `user@host process 12 since 2026-11-24T23:10Z`; for a cell of a night ` night 2026-11-24 until
2026-11-24T23:40Z cell ds_cnn@shelf-7` follows, without `until` where its end is not known. Older versions send only
what stands before `since`, and a stranger may send anything.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from edgetune.config.host import RUN, RUN_ENDS

MOST_BYTES = 200
"""How much of the line agents and servers pass on."""
_WHO = 60
_MOST_READ = 300
_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\dZ"
_FORMAT = "%Y-%m-%dT%H:%MZ"
_NIGHT = r"(?P<night>\d{4}-\d\d-\d\d(?:\.\d{1,4})?)"
_CELL = r"(?P<cell>[A-Za-z0-9_.-]{0,80}@(?P<board>[A-Za-z0-9][A-Za-z0-9_.-]{0,63}))"
_LINE = re.compile(
    rf"(?P<who>.*?) since (?P<since>{_STAMP})(?: night {_NIGHT}(?: until (?P<until>{_STAMP}))? cell {_CELL})?", re.ASCII
)
_RUN = re.compile(rf"{_NIGHT} {_CELL}", re.ASCII)


@dataclass(frozen=True)
class Holder:
    """Who holds a board since when; for a cell of a night, which one, its board there, and when it probably ends."""

    who: str
    since: datetime | None = None
    night: str = ""
    until: datetime | None = None
    cell: str = ""
    board: str = ""

    @classmethod
    def of_this_process(cls, who: str = "") -> Self:
        """This process, from now on: `who` (default: user, machine and process), with the cell that it measures."""
        who, now = who or process_name(), datetime.now(UTC)
        cell = _RUN.fullmatch(os.environ.get(RUN, ""))
        if cell is None:
            return cls(who, now)
        return cls(who, now, cell["night"], _time(os.environ.get(RUN_ENDS)), cell["cell"], cell["board"])

    @classmethod
    def read(cls, line: str, since: object = None) -> Self:
        """Understand the line of a lock; what is no such line is who holds it.

        `since` is what the lock says beside the line, in seconds since 1970.
        """
        line = "".join(letter for letter in line[:_MOST_READ] if letter.isprintable()).strip()
        found = _LINE.fullmatch(line)
        if found is not None and (begun := _time(found["since"])) is not None:
            cell = (found["night"], _time(found["until"]), found["cell"], found["board"]) if found["cell"] else ()
            return cls(found["who"], begun, *cell)
        begun = None
        if isinstance(since, int | float) and not isinstance(since, bool):
            with suppress(ValueError, OverflowError, OSError):
                begun = datetime.fromtimestamp(since, UTC)
        return cls(line, begun)

    @property
    def line(self) -> str:
        """The line for others, of at most `MOST_BYTES`; of a long cell the first letters are missing."""
        said = self.who + (f" since {self.since:{_FORMAT}}" if self.since else "")
        if self.since and self.cell:
            said += f" night {self.night}" + (f" until {self.until:{_FORMAT}}" if self.until else "") + " cell "
            said += self.cell[-max(1, MOST_BYTES - len(said.encode())) :]
        return said

    @property
    def words(self) -> str:
        """Who holds it since when, in this machine's time, with cell and expected end; "another user" is unnamed."""
        said = (self.who or "another user") + (f" since {_clock(self.since)}" if self.since else "")
        if self.cell:
            ends = f", which probably ends at {_clock(self.until)}" if self.until else ""
            said += f", for cell {self.cell} of night {self.night}{ends}"
        return said

    @property
    def remedy(self) -> str:
        """What to do where a night holds it, as the end of a sentence; "" elsewhere."""
        return f"; `edgetune nightly drain {self.board}` takes the board out of the night" if self.board else ""


def process_name() -> str:
    """Return our name for others, in at most 60 characters: user (or the user id, without a name), machine, process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # frequent in containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} process {os.getpid()}"[:_WHO]


def stamp(time: datetime) -> str:
    """A time with a zone as the line has it."""
    return f"{time.astimezone(UTC):{_FORMAT}}"


def _time(text: str | None) -> datetime | None:
    with suppress(ValueError, OverflowError):
        time = datetime.strptime(text or "", _FORMAT).replace(tzinfo=UTC)
        time.astimezone()  # of the years 1 and 9999 some moments have no local time
        return time
    return None


def _clock(time: datetime) -> str:
    local = time.astimezone()
    return f"{local:%H:%M}" if local.date() == datetime.now(UTC).astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
