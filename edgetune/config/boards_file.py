"""The user's ``boards.yaml``: the addresses of boards, each with a target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, StrictStr, WithJsonSchema

from edgetune.config.transport_rules import ANY_TRANSPORT, TransportRules
from edgetune.errors import BoardUnavailable, UnknownBoard, UsageError
from edgetune.resources import user_dir
from edgetune.target.board_kind import BoardKind
from edgetune.target.preferences import Rpc
from edgetune.target.target import load_board_kind, target_names
from edgetune.yaml_reader.checked import Checked, check_document
from edgetune.yaml_reader.nearest import nearest
from edgetune.yaml_reader.source import YamlDocument, load_yaml

BOARDS_FILE = "boards.yaml"
LOCAL_TRACKER = "local"
"""Value of `tracker` for a tracker that is started on this machine."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
# [user@]host[:port], where host is a name or a bracketed address; refuses text that looks like an option
_SSH = re.compile(
    r"(?:[^\s@:/\[\]-][^\s@:/\[\]]*@)?"
    r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s@:/\[\]-][^\s@:/\[\]]*)"
    r"(?::(?P<port>\d{1,5}))?",
    re.ASCII,
)
_LAST_PORT = 65535


def _checked_name(name: str) -> str:
    if re.fullmatch(_NAME, name) is None or name.endswith((".yaml", ".yml")):
        raise ValueError(f"must be a name of letters, digits, '.', '_' and '-', such as shelf-1, not {name!r}")
    return name


def _checked_ssh(text: str) -> str:
    if re.match(r"[^@/]*:[^@/]*@", text):
        raise ValueError("holds a password, which has no place in a file: install a key with ssh-copy-id instead")
    match = _SSH.fullmatch(text)
    if match is None or not 0 < int(match["port"] or 22) <= _LAST_PORT:
        raise ValueError(f"must be [user@]host[:port] or a Host of ~/.ssh/config, not {text!r}")
    return text


def _checked_tracker(text: str) -> str:
    match = re.fullmatch(r"[^\s@:/-][^\s@:/]*:(\d{1,5})", text, re.ASCII)
    if text == LOCAL_TRACKER:
        return text
    if match is None or not 0 < int(match[1]) <= _LAST_PORT:
        raise ValueError(f"must be host:port, such as localhost:9190, or local, not {text!r}")
    return text


def _checked_line(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError(f"must be one line of text, not {text!r}")
    return text


def _checked_folder(text: str) -> str:
    if not text.startswith("/") or not text.isprintable():
        raise ValueError(f"must be an absolute path on the board, such as /var/tmp, not {text!r}")
    return text


def _checked_cores(cores: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(cores)) < len(cores):
        raise ValueError("names a core twice")
    return cores


def _checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(tags)) < len(tags):
        raise ValueError("names a tag twice")
    return tags


def _nothing_is_none(value: object) -> object:
    return {} if value is None else value


BoardName = Annotated[
    StrictStr, AfterValidator(_checked_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"})
]
Line = Annotated[StrictStr, AfterValidator(_checked_line), WithJsonSchema({"type": "string", "minLength": 1})]
SshAddress = Annotated[StrictStr, AfterValidator(_checked_ssh), WithJsonSchema({"type": "string", "minLength": 1})]
Core = Annotated[StrictInt, Field(ge=0, lt=4096)]


Tag = Annotated[StrictStr, Field(pattern=f"^{_NAME}$")]
"""A word that several boards may share, such as shelf-2 or 8gb."""


class BoardEntry(Checked):
    """One board as it stands in ``boards.yaml``."""

    target: Line = Field(description="Kind of board: a name from `edgetune boards list`.")
    ssh: SshAddress = Field(description="[user@]host[:port], or a Host of ~/.ssh/config.")
    cores: Annotated[tuple[Core, ...], AfterValidator(_checked_cores)] = Field(
        default=(), description="Cores that candidates are timed on (default: the board's last core)."
    )
    folder: Annotated[StrictStr, AfterValidator(_checked_folder)] | None = Field(
        default=None, description="Folder on the board for edgetune's files (default: the first usable one of several)."
    )
    identity: Line | None = Field(
        default=None, description="File of the private SSH key (default: as in ~/.ssh/config)."
    )
    reboot: Line | None = Field(default=None, description="Command that reboots the board; it runs there.")
    power: Annotated[tuple[Line, ...], Field(min_length=1)] | None = Field(
        default=None, description="Command that switches the board off and on, as a list of words; it runs here."
    )
    rpc: Rpc | None = Field(
        default=None,
        description="agent: edgetune's own program, over SSH; tvm: TVM's RPC server; or an installed transport "
        "(default: that of the target's backend).",
    )
    tracker: Annotated[StrictStr, AfterValidator(_checked_tracker)] | None = Field(
        default=None, description="host:port of a TVM tracker as seen from the ssh host; local starts one here."
    )
    key: Line | None = Field(default=None, description="Key of the board at the tracker (default: the target's name).")
    priority: Annotated[StrictInt, Field(ge=0, le=1000)] = Field(
        default=1,
        description="Priority in the tracker's queue: the waiting client with the highest number gets the board first.",
    )
    tags: Annotated[tuple[Tag, ...], AfterValidator(_checked_tags)] = Field(
        default=(), description="Words by which `places` in a farm file chooses boards, such as [shelf-2, cooled]."
    )


class BoardAddress(BoardEntry):
    """One board: its name, its target, and how to connect to it. Paths of this machine are absolute."""

    name: BoardName = Field(description="Name for --board, and in records.")


class BoardsFile(Checked):
    """``~/.config/edgetune/boards.yaml``."""

    boards: Annotated[dict[BoardName, BoardEntry], BeforeValidator(_nothing_is_none)] = Field(
        default={}, description="Boards by name."
    )


@dataclass(frozen=True)
class ResolvedBoard:
    """The meaning of ``--board``: a target, and its boards to use; no boards where the target needs no address."""

    target: BoardKind
    addresses: tuple[BoardAddress, ...] = ()


def boards_path() -> Path:
    """Return the path of the user's ``boards.yaml``; it need not exist."""
    return user_dir() / BOARDS_FILE


def list_addresses(rules: TransportRules = ANY_TRANSPORT) -> list[BoardAddress]:
    """Return all boards of the user, by name; raise ConfigError with file and line for every error."""
    document = _document()
    if document is None:
        return []
    found = [_address(name, entry, document) for name, entry in check_document(BoardsFile, document).boards.items()]
    for address in found:
        _check(address, document, rules)
    return sorted(found, key=lambda address: address.name)


def load_board(name: str, rules: TransportRules = ANY_TRANSPORT) -> ResolvedBoard:
    """Return the meaning of ``--board name``: one board, or a target with all its boards, or the target of a YAML file.

    A target whose `reach` is "none" only because it lacks an address is reached by SSH once it has one. Raises
    UnknownBoard (names the nearest board and target) and ConfigError (a file is wrong).
    """
    document = _document()
    entries = check_document(BoardsFile, document).boards if document else {}
    if document is not None and name in entries:
        address = _address(name, entries[name], document)
        return _resolved(_check(address, document, rules), (address,))
    if not name.endswith((".yaml", ".yml")) and name not in target_names():
        raise UnknownBoard(
            f"unknown board '{name}': {nearest(name, {*target_names(), *entries})} (`edgetune boards list` shows all)"
        )
    target = load_board_kind(name, rules.target_fault)
    if document is None or not target.addressable:
        return _resolved(target, ())
    own = [_address(key, entries[key], document) for key in sorted(entries) if entries[key].target == target.name]
    for address in own:
        _check(address, document, rules)
    return _resolved(target, tuple(own))


def only_address(resolved: ResolvedBoard, name: str, rules: TransportRules = ANY_TRANSPORT) -> BoardAddress:
    """Return the only address of ``resolved``, which is called ``name``; raise UsageError for no address or several."""
    if len(resolved.addresses) == 1:
        return resolved.addresses[0]
    if resolved.addresses:
        names = ", ".join(address.name for address in resolved.addresses)
        raise UsageError(f"'{name}' has several boards: give one of {names}")
    if resolved.target.addressable:
        raise UsageError(
            f"'{name}' has no board with an address: `edgetune boards add NAME --target {resolved.target.name} "
            "--ssh USER@HOST` gives one"
        )
    raise UsageError(f"'{name}' has no address: {rules.without_address(resolved.target)}")


def _resolved(target: BoardKind, addresses: tuple[BoardAddress, ...]) -> ResolvedBoard:
    if addresses and target.reach == "none":
        target = target.model_copy(update={"reach": "ssh"})
    return ResolvedBoard(target, addresses)


def _document() -> YamlDocument | None:
    path = boards_path()
    return load_yaml(path) if path.exists() else None


def _address(name: str, entry: BoardEntry, document: YamlDocument) -> BoardAddress:
    folder = document.path.parent
    update: dict[str, object] = {}
    if entry.identity is not None:
        update["identity"] = str(folder / Path(entry.identity).expanduser())
    if entry.power is not None and ("/" in entry.power[0] or entry.power[0].startswith("~")):
        update["power"] = (str(folder / Path(entry.power[0]).expanduser()), *entry.power[1:])
    return BoardAddress(name=name, **{**entry.model_dump(exclude_unset=True), **update})


def _check(address: BoardAddress, document: YamlDocument, rules: TransportRules) -> BoardKind:
    where, name = ("boards", address.name, "target"), f"'boards.{address.name}.target'"
    if address.name in target_names():
        raise document.error(where[:2], f"'boards.{address.name}' has the name of a target: call it {address.name}-1")
    if address.target not in target_names():
        raise document.error(where, f"{name} is unknown: {nearest(address.target, target_names())}")
    target = load_board_kind(address.target, rules.target_fault)
    if not target.addressable:
        why = rules.without_address(target)
        raise document.error(where, f"{name} is '{target.name}', which needs no address: {why}")
    if (fault := rules.address_fault(address, target)) is not None:
        key, why = fault
        raise document.error((*where[:2], key), f"'boards.{address.name}.{key}' {why}")
    return target


def require_measurable(target: BoardKind, addresses: Sequence[BoardAddress] = ()) -> None:
    """Raise BoardUnavailable where nothing can be measured because the target needs an address and has none."""
    if not target.addressable or addresses:
        return
    raise BoardUnavailable(
        f"no board of target '{target.name}' has an address: `edgetune boards add NAME --target {target.name} "
        f"--ssh USER@HOST` gives one, `edgetune build --board {target.name}` makes a package without measuring",
    )
