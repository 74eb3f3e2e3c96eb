"""Who listens where, as the kernel reports it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def listeners(pids: Iterable[int]) -> list[tuple[str, int]]:
    """Return address and port of every TCP socket on which one of `pids` listens."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and words[9] in inodes:
                address, _, port = words[1].partition(":")
                found.append((_address(address), int(port, 16)))
    return found


def _sockets(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return found  # it has ended
    for link in links:
        with suppress(OSError):
            match = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            found |= {match[1]} if match else set()
    return found


def _address(text: str) -> str:
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))
