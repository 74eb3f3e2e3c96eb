"""Keys of the emulated boards of one user: one for the host, one for the login, made once and kept in the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class MachineKeys:
    """Files of the two private keys (mode 0600, OpenSSH's format) and the public keys in one line each."""

    host: Path
    client: Path
    host_public: str
    client_public: str


def machine_keys(folder: Path) -> MachineKeys:
    """Return the keys in `folder`; those that are not there are made. Call it while nobody else does (see image.py)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    host, client = folder / "host_key", folder / "client_key"
    return MachineKeys(host, client, _public(host), _public(client))


def _public(path: Path) -> str:
    if not path.exists():
        _make(path)
    key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def _make(path: Path) -> None:
    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
