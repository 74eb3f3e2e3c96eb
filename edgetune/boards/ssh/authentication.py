"""SSH public-key authentication: keys of the agent and of files, in OpenSSH's order. Never uses or stores passwords."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from edgetune.boards.ssh.client_config import HostSettings, is_file, user_folder
from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.known_hosts import fingerprint
from edgetune.boards.ssh.route import Hop
from edgetune.errors import AuthenticationRefused, BoardLost

_DEFAULT_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")
_OPENSSH_MAGIC = b"openssh-key-v1\0"


class KeyAgent(AgentSSH):
    """The ssh-agent that listens at `path`; paramiko's own takes only the environment's path and has no timeout."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
            self._connect(self._socket)  # type: ignore[attr-defined]  # not in the stubs
        except (OSError, paramiko.SSHException):
            self._socket.close()
            raise

    def close(self) -> None:
        """Disconnect from the agent."""
        self._socket.close()


def authenticate(board: str, hop: Hop, transport: paramiko.Transport, deadline: Deadline) -> None:
    """Log in at `hop`. Raises AuthenticationRefused, which names user and keys, and BoardLost at the deadline."""
    refusal = f"board '{board}': {hop.host} does not let user '{hop.user}' in"
    late = BoardLost(f"board '{board}': login at {hop.host} took longer than {deadline.seconds:.0f} s")
    tried: list[str] = []
    agent = _agent(hop.settings, deadline)
    try:
        if _without_key(hop, transport, deadline, refusal):
            return
        for label, key in _keys(hop.settings, agent, tried):
            transport.auth_timeout = max(0.1, deadline.left)
            try:
                left = transport.auth_publickey(hop.user, key)
            except paramiko.AuthenticationException as error:
                tried.append(label)
                if not transport.is_active():
                    raise _hung_up(board, hop, refusal, tried) from error
            else:
                if left:
                    raise AuthenticationRefused(f"{refusal} by a key alone: it also requires {', '.join(left)}")
                return
            if deadline.over:
                raise late
    except (paramiko.SSHException, OSError, EOFError) as error:
        if deadline.over:
            raise late from error
        raise BoardLost(f"board '{board}': the link to {hop.host} was lost during login: {error}") from error
    finally:
        if agent is not None:
            agent.close()
    keys = f"tried {', '.join(tried)}" if tried else "there is no key in the agent or in ~/.ssh"
    raise AuthenticationRefused(f"{refusal} ({keys}): install one with `ssh-copy-id {_target(hop)}`")


def _hung_up(board: str, hop: Hop, refusal: str, tried: list[str]) -> AuthenticationRefused | BoardLost:
    """Return the error for a closed link: servers close it after some wrong keys; after one key, the link failed."""
    if len(tried) == 1:
        return BoardLost(f"board '{board}': the link to {hop.host} was lost during login")
    keys = ", ".join(tried)
    return AuthenticationRefused(f"{refusal} and hung up after {keys}: name the right key as 'identity' in boards.yaml")


def _target(hop: Hop) -> str:
    port = "" if hop.port == 22 else f"-p {hop.port} "  # noqa: PLR2004 (the port of SSH)
    return f"{port}{hop.user}@{hop.host}"


def _without_key(hop: Hop, transport: paramiko.Transport, deadline: Deadline, refusal: str) -> bool:
    """Try to log in without a key: the answer lists the accepted methods, and some small boards accept this."""
    transport.auth_timeout = max(0.1, deadline.left)
    try:
        return not transport.auth_none(hop.user)
    except paramiko.BadAuthenticationType as error:
        if "publickey" in error.allowed_types:
            return False
        kinds = ", ".join(error.allowed_types) or "nothing"
        raise AuthenticationRefused(f"{refusal} by a key, only by {kinds}: allow keys in its sshd_config") from error


def _keys(settings: HostSettings, agent: KeyAgent | None, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    held: dict[bytes, paramiko.PKey] = {key.asbytes(): key for key in agent.get_keys()} if agent else {}
    named = list(dict.fromkeys(settings.identities))
    offered: set[bytes] = set()
    defaults = [] if named else [user_folder() / name for name in _DEFAULT_FILES]
    for file in named:
        public = _public(file)
        if public in held:
            offered.add(public)
            yield f"{file} (agent)", held[public]
    if not settings.identities_only:
        for blob, held_key in held.items():
            if blob not in offered:
                offered.add(blob)
                yield f"{fingerprint(held_key)} (agent)", held_key
    for file in (*named, *(file for file in defaults if is_file(file))):
        if _public(file) in offered:
            continue
        try:
            key = paramiko.PKey.from_path(file)
        except FileNotFoundError:
            tried.append(f"{file} (there is no such file)")
        except (TypeError, paramiko.PasswordRequiredException):  # an encrypted key, for cryptography and for paramiko
            tried.append(f"{file} (encrypted: add it with ssh-add)")
        except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
            tried.append(f"{file} (cannot be read: {error})")
        else:
            if key.asbytes() not in offered:
                yield str(file), key


def _public(file: Path) -> bytes:
    """Return the public half from the file beside a private key, or from the key itself; b"" where there is none."""
    with suppress(OSError, ValueError, IndexError, paramiko.SSHException):
        return paramiko.pkey.PublicBlob.from_file(f"{file}.pub").key_blob
    with suppress(OSError, ValueError):
        return _public_within(file.read_text(encoding="ascii"))
    return b""


def _public_within(text: str) -> bytes:
    """Return the public half, which OpenSSH's format does not encrypt, so that the agent can find the key."""
    begin, end = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
    body = text.partition(begin)[2].partition(end)[0]
    blob = base64.b64decode("".join(body.split()), validate=True)
    if not blob.startswith(_OPENSSH_MAGIC):
        return b""
    message = paramiko.Message(blob.removeprefix(_OPENSSH_MAGIC))
    for _ in ("cipher", "key derivation", "its options"):
        message.get_binary()
    return message.get_binary() if message.get_int() == 1 else b""


def _agent(settings: HostSettings, deadline: Deadline) -> KeyAgent | None:
    if settings.agent is None:
        return None
    try:
        return KeyAgent(settings.agent, max(0.1, deadline.left))
    except (OSError, paramiko.SSHException):
        return None  # as in OpenSSH, an agent that does not answer has no keys
