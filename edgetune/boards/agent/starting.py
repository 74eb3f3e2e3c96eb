"""Starts the agent on a board, waits for the board's advisory lock, and checks the agent's greeting.

While another user has the board, the agent there names the owner and the time when the lock expires. The greeting shows
whether the board suits the target, what it lacks, and which facts records keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.agent.link import AgentLink
from edgetune.boards.agent.messages import Busy, Hello
from edgetune.boards.closing import Closing
from edgetune.boards.environment import Reading
from edgetune.boards.holder import Holder
from edgetune.boards.reach import BoardFacts, Reach
from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.errors import BoardBusy, BoardUnavailable, BoardUnfit
from edgetune.target.target import Target


def check_hello(name: str, target: Target, hello: Hello, cores: tuple[int, ...]) -> None:
    """Raise BoardUnfit when the running agent lacks something that measuring needs."""
    isa = target.instruction_set
    if hello.bits != isa.bits or hello.machine not in isa.all_machines:
        raise BoardUnfit(
            f"the agent of board '{name}' runs on {hello.machine} with {hello.bits} bits, "
            f"but target '{target.name}' is {target.isa}: name the right target in boards.yaml"
        )
    if missing := sorted(set(cores) - set(hello.cores)):
        raise BoardUnfit(
            f"board '{name}' may not use core {missing[0]}, only {', '.join(map(str, hello.cores))}: "
            "change `cores` in boards.yaml"
        )


def fallbacks(facts: BoardFacts, hello: Hello) -> Iterator[str]:
    """Describe what a board lacks, and what is done instead."""
    if not hello.memfd:
        yield f"no memfd: libraries go through nameless files in {facts.folder}"
    if not hello.locked:
        yield "no abstract sockets: the board cannot be locked against other users"


def told_facts(facts: BoardFacts, hello: Hello, cores: Sequence[int]) -> dict[str, Reading]:
    """Return the facts that do not change, for records; `cores` are those of candidates, empty for all."""
    return {
        "machine": hello.machine,
        "bits": hello.bits,
        "libc": f"glibc {hello.libc}",
        "kernel": hello.kernel,
        "page_bytes": hello.page,
        "memory_bytes": hello.memory_bytes,
        "cores": ",".join(map(str, cores or hello.cores)),
        "agent": hello.version,
        **facts.identity,
    }


_RETRY_S = 2.0  # every check of the lock starts a program, which disturbs the other user's measurement


@dataclass
class AgentStart:
    """Start of the agent on the board called `name`: `program` with `arguments`, over `reach`.

    The connection sends a keep-alive ping every `keep_alive_s` seconds. `greeted` checks the greeting and raises when
    the board does not suit; `tell` receives the kind of event and a sentence. `link` is the connection to an
    agent that has not greeted yet.
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

        The greeting may take `answer_s` and the link's round trips. Raises BoardBusy when another user has the lock for
        `lock_s`, BoardLost when another thread closes the board, and what `greeted` and the reach raise.
        """
        until, told = time.monotonic() + lock_s, False
        while True:
            self.closing.check()
            arguments = ["--owner", Holder.of_this_process().line, *self.arguments]
            link = self.link = AgentLink(self.name, self.reach.start(self.program, arguments), self.keep_alive_s)
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
                holder = Holder.read(first.owner)
                raise BoardBusy(
                    f"board '{self.name}' belongs to {holder.words}: wait until that run ends (the lock of a dead run "
                    f"expires after {first.expires_s} s), or use another board{holder.remedy}"
                )
            if not told:
                told = True
                self._tell_owner(first)
            self.closing.begun.wait(min(_RETRY_S, max(0.0, until - time.monotonic())))

    def _tell_owner(self, busy: Busy) -> None:
        holder = Holder.read(busy.owner)
        self.tell(
            "locked", f"waiting for {holder.words}; the lock expires in {busy.expires_s} s at most{holder.remedy}"
        )
