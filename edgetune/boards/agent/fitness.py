"""Whether a board is what its target says: found out before anything is sent there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from edgetune.boards.agent.messages import Hello
from edgetune.boards.reach import BoardFacts
from edgetune.config.target import Isa, Target
from edgetune.errors import BoardUnfit
from edgetune.measure.environment import Reading

_MACHINES: dict[Isa, frozenset[str]] = {
    "x86_64": frozenset({"x86_64", "amd64"}),
    "aarch64": frozenset({"aarch64", "arm64"}),
    "armv7": frozenset({"armv7l", "armv8l", "aarch64", "arm64"}),
    "riscv64": frozenset({"riscv64"}),
}
_BITS: dict[Isa, int] = {"x86_64": 64, "aarch64": 64, "armv7": 32, "riscv64": 64}
_OLDEST_LIBC = (2, 17)


def check_fitness(name: str, target: Target, facts: BoardFacts) -> None:
    """Raise BoardUnfit when programs for `target` cannot run on a board of these facts."""
    if facts.machine and facts.machine not in _MACHINES[target.isa]:
        raise BoardUnfit(
            f"board '{name}' is {facts.machine}, but its target '{target.name}' is {target.isa}: "
            "name the right target in boards.yaml"
        )
    if facts.bits and facts.bits != _BITS[target.isa]:
        raise BoardUnfit(
            f"board '{name}' has a {facts.bits}-bit userland, but its target '{target.name}' needs {_BITS[target.isa]} "
            f"bits: use a target of {facts.bits} bits, or another system image"
        )
    version = re.search(r"(\d+)\.(\d+)", facts.libc)
    if version and (int(version[1]), int(version[2])) < _OLDEST_LIBC:
        raise BoardUnfit(
            f"board '{name}' has {facts.libc}: glibc {'.'.join(map(str, _OLDEST_LIBC))} or later is needed, "
            "so it needs a newer system image"
        )


def check_hello(name: str, target: Target, hello: Hello, cores: tuple[int, ...]) -> None:
    """Raise BoardUnfit when the agent that runs there cannot do what it has to."""
    if hello.bits != _BITS[target.isa] or hello.machine not in _MACHINES[target.isa]:
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
