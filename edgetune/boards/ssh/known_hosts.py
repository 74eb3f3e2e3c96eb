"""SSH host keys: reads known_hosts files, and edgetune's own file, to which only `trust` adds keys."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgetune.boards.ssh.client_config import SYSTEM_KNOWN_HOSTS, is_file
from edgetune.config.atomic_update import alone, write_whole
from edgetune.errors import HostKeyRefused, OutputRefused
from edgetune.resources import user_dir

_FIELDS = 3  # names, type, key
_RSA = ("rsa-sha2-512", "rsa-sha2-256")  # algorithms with which servers offer an ssh-rsa key today


@dataclass(frozen=True)
class HostKeyEntry:
    """One line of a known_hosts file."""

    names: tuple[str, ...]
    kind: str
    blob: bytes
    where: str
    revoked: bool = False

    def holds(self, name: str) -> bool:
        """Whether the line applies to the host `name` (as in known_hosts: "[host]:port" for ports other than 22)."""
        found = False
        for pattern in self.names:
            if pattern.startswith("!"):
                if fnmatch.fnmatchcase(name.lower(), _literal(pattern[1:].lower())):
                    return False
            elif pattern.startswith("|1|"):
                found |= _hashed(name, pattern) == pattern
            else:
                found |= fnmatch.fnmatchcase(name.lower(), _literal(pattern.lower()))
        return found


def own_file() -> Path:
    """Return the path of edgetune's own known_hosts; the file need not exist."""
    return user_dir() / "known_hosts"


def fingerprint(key: paramiko.PKey) -> str:
    """Return the fingerprint of a key as ssh-keygen -l shows it, such as "ED25519 SHA256:..."."""
    kind = key.get_name().removeprefix("ssh-").removeprefix("ecdsa-sha2-").upper()
    kind = "ECDSA" if kind.startswith("NISTP") else kind
    return f"{kind} {_sha256(key.asbytes())}"


class KnownHosts:
    """The known keys of hosts."""

    def __init__(self, files: Iterable[Path]) -> None:
        every = dict.fromkeys((*files, SYSTEM_KNOWN_HOSTS, own_file()))
        self._entries = [entry for file in every if is_file(file) for entry in _entries(file)]

    def kinds(self, name: str) -> list[str]:
        """Return the key algorithms to request from `name`, so that it offers a known key."""
        kinds: list[str] = []
        for entry in self._entries:
            if entry.holds(name) and not entry.revoked:
                kinds += _RSA if entry.kind == "ssh-rsa" else (entry.kind,)
        return list(dict.fromkeys(kinds))

    def status(self, name: str, key: paramiko.PKey) -> str:
        """Return "known", "unknown", "changed" or "revoked"."""
        entries = [entry for entry in self._entries if entry.holds(name)]
        blob = key.asbytes()
        if any(entry.blob == blob for entry in entries if entry.revoked):
            return "revoked"
        entries = [entry for entry in entries if not entry.revoked]
        if any(entry.blob == blob for entry in entries):
            return "known"
        return "changed" if entries else "unknown"

    def check(self, board: str, name: str, key: paramiko.PKey) -> None:
        """Raise HostKeyRefused unless `key` is known for the host `name` on the way to `board`."""
        status = self.status(name, key)
        if status == "known":
            return
        shown = fingerprint(key)
        trust = f"`edgetune boards trust {board}`"
        if status == "unknown":
            raise HostKeyRefused(
                f"board '{board}': the host key of {name} is not known ({shown}): "
                f"compare it with the board's own, then type {trust}"
            )
        if status == "revoked":
            raise HostKeyRefused(f"board '{board}': {name} shows a host key that is marked as revoked ({shown})")
        old = next(entry for entry in self._entries if entry.holds(name) and not entry.revoked)
        raise HostKeyRefused(
            f"board '{board}': the host key of {name} has changed to {shown}, {old.where} has {_sha256(old.blob)}: "
            f"another machine may be intercepting the connection; if the board was set up again, type {trust}"
        )


def trust(name: str, key: paramiko.PKey) -> Path:
    """Write `key` into edgetune's own file as the key of the host `name`; return the file.

    Drops older keys of that host from that file. Raises OutputRefused when the file cannot be written.
    """
    file = own_file()
    line = f"{name} {key.get_name()} {key.get_base64()}\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with alone(file.parent):
            old = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.is_file() else []
            kept = [text if text.endswith("\n") else text + "\n" for text in old if text.split()[:1] != [name]]
            write_whole("".join((*kept, line)), file)
    except OSError as error:
        raise OutputRefused(f"{file} cannot be written: {error.strerror}") from error
    return file


def _entries(file: Path) -> Iterator[HostKeyEntry]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # as in OpenSSH, an unreadable file has no entries
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < _FIELDS or fields[0].startswith("#") or marker == "@cert-authority":
            continue
        with suppress(binascii.Error, ValueError):
            blob = base64.b64decode(fields[2], validate=True)
            yield HostKeyEntry(tuple(fields[0].split(",")), fields[1], blob, f"{file}:{number}", marker == "@revoked")


def _literal(pattern: str) -> str:
    return pattern.replace("[", "[[]")  # names with a port contain literal brackets


def _hashed(name: str, pattern: str) -> str:
    try:
        return paramiko.HostKeys.hash_host(name, pattern)
    except (binascii.Error, AssertionError, IndexError):
        return ""


def _sha256(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def preferred(kinds: Sequence[str], supported: Sequence[str]) -> list[str]:
    """Return `supported` with those of `kinds` first."""
    first = [kind for kind in kinds if kind in supported]
    return [*first, *(kind for kind in supported if kind not in first)]
