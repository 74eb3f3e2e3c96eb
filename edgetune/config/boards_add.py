"""Adds a board to ``boards.yaml`` as one new line; the comments and the layout of the file stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from edgetune.config.atomic_update import alone, write_whole
from edgetune.config.boards_file import BoardAddress, BoardsFile, boards_path
from edgetune.config.transport_rules import ANY_TRANSPORT, TransportRules
from edgetune.errors import ConfigError, UsageError
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import load_board_kind, target_names
from edgetune.yaml_reader.checked import check_document, check_values
from edgetune.yaml_reader.source import YamlDocument, load_yaml, parse_yaml

_HEADER = "# Boards by name: {target: KIND, ssh: USER@HOST}. `edgetune boards list` shows them.\nboards:\n"
_ENTRY_INDENT = 2


def add_board(values: Mapping[str, object], rules: TransportRules = ANY_TRANSPORT) -> Path:
    """Add the board that ``values`` describe (keys of BoardAddress) and return the path of the file.

    Raises UsageError (a value is wrong, or the target needs no address), UnknownBoard (no such target) and
    ConfigError (the file is wrong, has such a board, or is laid out so that a line cannot be added).
    """
    address = check_values(BoardAddress, values)
    target = load_board_kind(address.target, rules.target_fault)
    if not target.addressable:
        raise UsageError(f"--target {target.name} needs no address: `--board {target.name}` works as it is")
    if address.name in target_names():
        raise UsageError(f"{address.name} is the name of a target: call the board {address.name}-1")
    _check_ways(address, target, rules)
    path = boards_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.resolve()  # a symbolic link, for example into a dotfiles folder, stays a link
    with alone(path.parent):
        document = load_yaml(path) if path.exists() else None
        before = check_document(BoardsFile, document).boards if document else {}
        if document is not None and address.name in before:
            raise document.error(("boards", address.name), f"board '{address.name}' exists already: edit it here")
        line = _line(address)
        text = _with_line(path.read_bytes().decode("utf-8"), line, path) if document else f"{_HEADER}  {line}\n"
        _check_result(text, path, {*before, address.name}, line)
        write_whole(text, path)
    return path


def _check_ways(address: BoardAddress, target: BoardKind, rules: TransportRules) -> None:
    """Refuse an address that can never work; raises UsageError."""
    if (fault := rules.address_fault(address, target)) is not None:
        raise UsageError(f"--{' '.join(fault)}")
    if address.identity is not None and not Path(address.identity).is_file():
        raise UsageError(f"--identity {address.identity} is not a file: give the file of your private SSH key")


def _line(address: BoardAddress) -> str:
    entry = address.model_dump(mode="json", exclude_unset=True, exclude={"name"})
    shown = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=float("inf"), allow_unicode=True)
    key = yaml.safe_dump({address.name: None}).removesuffix(": null\n")
    return f"{key}: {shown.strip()}"


def _with_line(text: str, line: str, path: Path) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    end = "\r\n" if "\r\n" in text else "\n"
    if text and not text.endswith("\n"):
        text += end
    if root is None:
        return f"{text}boards:{end}  {line}{end}"
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _by_hand(path, line)
    indent = _ENTRY_INDENT
    boards = root.value[0][1] if root.value else None
    if isinstance(boards, yaml.MappingNode):
        if boards.flow_style:
            raise _by_hand(path, line)
        indent = boards.value[0][0].start_mark.column
    return f"{text}{' ' * indent}{line}{end}"


def _check_result(text: str, path: Path, names: set[str], line: str) -> None:
    """Verify that the new line is among the boards, whatever the end of the file looks like."""
    try:
        found: YamlDocument | None = parse_yaml(text, path)
    except ConfigError:
        found = None
    boards = found.data.get("boards") if found else None
    if not isinstance(boards, dict) or set(boards) != names:
        raise _by_hand(path, line)


def _by_hand(path: Path, line: str) -> ConfigError:
    return ConfigError(
        f"no line can be added to {path} as it is laid out: write this line under 'boards:' yourself: {line}"
    )
