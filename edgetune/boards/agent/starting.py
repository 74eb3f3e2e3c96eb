"""Starts the agent on a board and waits for the board's lock: somebody else's agent says whose the board is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.agent.link import AgentLink
from edgetune.boards.agent.messages import Busy, Hello
from edgetune.boards.closing import Closing
from edgetune.boards.reach import Reach
from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.errors import BoardBusy, BoardUnavailable

_RETRY_S = 2.0  # every look for the lock starts a program beside somebody's measurement


@dataclass
class AgentStart:
    """How the agent of the board called `name` is started: `program` with `arguments`, over `reach`.

    The connection is kept alive by a word every `keep_alive_s` seconds. `greeted` looks at the greeting and raises when
    the board will not do; `tell` is called with what happened and a sentence. `link` is the connection to an agent that
    has not greeted yet.
    """

    name: str
    reach: Reach
    program: Path
    arguments: Sequence[str]
    keep_alive_s: float
    closing: Closing
    greeted: Callable[[Hello], None]
    tell: Callable[[str, str], None]
    link: AgentLink | None = None

    def run(self, answer_s: float, lock_s: float) -> tuple[AgentLink, Hello]:
        """Return the connection to the agent that took the lock, and its greeting.

        It has `answer_s` and what the link's round trips add to greet. Raises BoardBusy when somebody else has the lock
        for `lock_s`, BoardLost when another thread closes the board, and what `greeted` and the reach raise.
        """
        until, told = time.monotonic() + lock_s, False
        while True:
            self.closing.check()
            link = self.link = AgentLink(self.name, self.reach.start(self.program, self.arguments), self.keep_alive_s)
            try:
                self.closing.check()
                first = link.first_words(allowed_s(answer_s, self.reach.round_trip_s, ANSWER))
                if isinstance(first, Hello):
                    self.greeted(first)
                    return link, first
            except BoardUnavailable:
                link.close()
                raise
            finally:
                self.link = None
            link.close()
            if time.monotonic() >= until:
                raise BoardBusy(
                    f"board '{self.name}' belongs to {first.owner or 'somebody'}: wait for the end of that run "
                    f"(or at most {first.expires_s} s once it is gone), or use another board"
                )
            if not told:
                told = True
                self._tell_owner(first)
            self.closing.begun.wait(min(_RETRY_S, max(0.0, until - time.monotonic())))

    def _tell_owner(self, busy: Busy) -> None:
        self.tell("locked", f"waiting for {busy.owner or 'somebody'}, whose lock expires in {busy.expires_s} s at most")
