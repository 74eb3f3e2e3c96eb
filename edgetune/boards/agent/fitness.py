"""What an agent says of its board when it greets: whether that will do, what is missing, what records keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgetune.boards.agent.messages import Hello
from edgetune.boards.reach import BoardFacts
from edgetune.config.machines import BITS, MACHINES
from edgetune.config.target import Target
from edgetune.errors import BoardUnfit
from edgetune.measure.environment import Reading


def check_hello(name: str, target: Target, hello: Hello, cores: tuple[int, ...]) -> None:
    """Raise BoardUnfit when the agent that runs there cannot do what it has to."""
    if hello.bits != BITS[target.isa] or hello.machine not in MACHINES[target.isa]:
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
    """Say what a board lacks, and what is done instead."""
    if not hello.memfd:
        yield f"no memfd: libraries go through nameless files in {facts.folder}"
    if not hello.locked:
        yield "no abstract sockets: the board cannot be locked against other users"


def told_facts(facts: BoardFacts, hello: Hello, cores: Sequence[int]) -> dict[str, Reading]:
    """Return what stays as it is, for records; `cores` are those of candidates, all where there are none."""
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
