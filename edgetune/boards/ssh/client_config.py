"""Reads OpenSSH's client configuration: ``~/.ssh/config`` and the system's file, with their includes."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgetune.errors import ConfigError

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_MAX_INCLUDES = 16  # nesting depth; the same limit as OpenSSH's
_SSH_PORT = 22
# Paramiko expands tokens without the user and port of an address; we expand them, so tokens are hidden from paramiko.
_MARK = "\x01"
_BETWEEN = "\x02"  # separates file names, which may contain blanks
_TOKEN = re.compile(r"%([%hnprudi])")
_FILLED = re.compile(r"\s*(proxycommand|identityfile|identityagent|userknownhostsfile)\b", re.IGNORECASE)
_INCLUDE = re.compile(r"\s*include(?:\s*=\s*|\s+)(.+)", re.IGNORECASE)
_BLOCK = re.compile(r"\s*(host|match)\b", re.IGNORECASE)
_ALL = re.compile(r"\s*(host(\s*=\s*|\s+)\"?\*\"?|match\s+all)\s*", re.IGNORECASE)
_KNOWN_HOSTS = re.compile(r"(\s*userknownhostsfile)(?:\s*=\s*|\s+)(.+)", re.IGNORECASE)


@dataclass(frozen=True)
class HostSettings:
    """The configuration of one host; ``None`` or empty where the files have no value.

    `jumps` is the value of ProxyJump, `proxy_command` that of ProxyCommand; the first of both in the files wins.
    """

    host: str
    user: str
    port: int | None = None
    identities: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: Path | None = None
    jumps: str = ""
    proxy_command: str = ""
    connect_timeout_s: float | None = None
    host_key_alias: str = ""
    known_hosts: tuple[Path, ...] = ()
    alive_interval_s: float = 15.0
    alive_count: int = 3


class ClientConfig:
    """The settings of hosts, from `files` in order of precedence. Raises ConfigError for an invalid file."""

    def __init__(self, files: Sequence[Path] | None = None) -> None:
        self._files = (user_folder() / "config", SYSTEM_CONFIG) if files is None else tuple(files)
        lines = (line for file in self._files if is_file(file) for line in (*_lines(file), "Host *"))
        try:
            text = "\n".join(_marked(line) for line in lines)
            self._config = paramiko.SSHConfig.from_text(text)
        except (paramiko.ConfigParseError, ValueError) as error:  # ValueError: an unbalanced quote
            raise ConfigError(f"{self._named()} cannot be read: {error}") from error

    def lookup(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """Return the settings of `host`; a given `user` or `port` overrides the files."""
        try:
            with _having_a_name():
                found = self._config.lookup(host)
            return _settings(host, found, user, port)
        except ImportError as error:
            raise ConfigError(f"{self._named()}: 'Match exec' is not supported here, use 'Host' instead") from error
        except (KeyError, ValueError, paramiko.CouldNotCanonicalize) as error:
            raise ConfigError(f"{self._named()}: a value for host '{host}' is not valid: {error}") from error

    def _named(self) -> str:
        return " or ".join(str(file) for file in self._files if is_file(file))


def is_file(path: Path) -> bool:
    """Whether `path` is a file that we can see; as in OpenSSH, an unreadable folder counts as empty."""
    try:
        return path.is_file()
    except OSError:
        return False


def own_name() -> str:
    """Return this user's name, or the user id where there is no name (in containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@contextmanager
def _having_a_name() -> Iterator[None]:
    """Give paramiko a user name for a block, because it looks one up even if it does not need it."""
    name = own_name()
    if name.isdecimal() and "LOGNAME" not in os.environ:
        os.environ["LOGNAME"] = name
        try:
            yield
        finally:
            os.environ.pop("LOGNAME", None)
    else:
        yield


def user_folder() -> Path:
    """Return the folder of the user's OpenSSH files."""
    return Path("~/.ssh").expanduser()


def _settings(written: str, found: paramiko.SSHConfigDict, user: str | None, port: int | None) -> HostSettings:
    own_port = int(found["port"]) if "port" in found else None
    if port is None:
        port = own_port
    user = user or str(found.get("user") or own_name())
    values = {
        "%": "%",
        "h": str(found["hostname"]),
        "n": written,
        "p": str(port or _SSH_PORT),
        "r": user,
        "u": own_name(),
        "d": str(Path.home()),
        "i": str(os.getuid()),
    }

    def whole(text: str) -> str:
        return re.sub(f"{_MARK}(.)", lambda token: values[token[1]], text)

    jumps = str(found.get("proxyjump") or "")
    command = str(found.get("proxycommand") or "")
    order = [key for key in found if key in {"proxyjump", "proxycommand"}]
    if order[:1] == ["proxyjump"]:
        command = ""
    elif order:
        jumps = ""
    identities = [_path(whole(text)) for text in found.get("identityfile", ()) if text.lower() != "none"]
    known = found.get("userknownhostsfile")
    agent = str(found.get("identityagent") or "SSH_AUTH_SOCK")
    if agent.lstrip("$") == "SSH_AUTH_SOCK":
        agent = os.environ.get("SSH_AUTH_SOCK", "")
    timeout = found.get("connecttimeout")
    interval = float(found.get("serveraliveinterval") or 0)
    return HostSettings(
        host=str(found["hostname"]),
        user=user,
        port=port,
        identities=tuple(identities),
        identities_only=str(found.get("identitiesonly", "no")).lower() == "yes",
        agent=None if agent.lower() in {"none", ""} else _path(whole(agent)),
        jumps="" if jumps.lower() == "none" else jumps,
        proxy_command=whole(command),
        connect_timeout_s=None if timeout is None or timeout == "none" else float(timeout),
        host_key_alias=str(found.get("hostkeyalias") or ""),
        known_hosts=(user_folder() / "known_hosts",)
        if known is None
        else tuple(_path(whole(part)) for part in known.split(_BETWEEN)),
        alive_interval_s=interval or HostSettings.alive_interval_s,
        alive_count=int(found.get("serveralivecountmax") or HostSettings.alive_count),
    )


def _path(text: str) -> Path:
    return Path(os.path.expandvars(text)).expanduser()


def _lines(file: Path, depth: int = 0, within: str = "Host *") -> Iterator[str]:
    """Yield the lines of `file` with included files in place, because paramiko ignores includes.

    `within` is the Host or Match line under which it is included. Raises ConfigError when a file cannot be read, or has
    a block for some of the hosts of such a line, which one file cannot express.
    """
    if depth > _MAX_INCLUDES:
        raise ConfigError(f"{file}: includes are nested deeper than {_MAX_INCLUDES}: one of them includes itself")
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    block = within
    for line in text.splitlines():
        included = _INCLUDE.fullmatch(line)
        if included is None:
            if not _BLOCK.match(line):
                yield line
                continue
            if _ALL.fullmatch(line):
                block = within
            elif _ALL.fullmatch(within):
                block = line
            else:
                what = f"'{line.strip()}' in a file that is included under '{within.strip()}'"
                raise ConfigError(f"{file}: {what} is not supported here: include the file before the first Host line")
            yield block
            continue
        folder = user_folder() if file.is_relative_to(Path.home()) else file.parent
        for pattern in shlex.split(included[1]):
            for path in sorted(folder.glob(pattern) if not _absolute(pattern) else _glob(pattern)):
                yield from _lines(path, depth + 1, block)
        yield block  # a block of an included file ends with that file


def _marked(line: str) -> str:
    if known := _KNOWN_HOSTS.fullmatch(line):
        line = f"{known[1]} {_BETWEEN.join(shlex.split(known[2]))}"
    return _TOKEN.sub(rf"{_MARK}\1", line) if _FILLED.match(line) else line


def _absolute(pattern: str) -> bool:
    return pattern.strip('"').startswith(("/", "~"))


def _glob(pattern: str) -> Iterator[Path]:
    path = Path(pattern.strip('"')).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))
