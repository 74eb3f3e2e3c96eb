"""Removes a board from ``boards.yaml``: deletes its lines and keeps all other bytes of the file."""

from __future__ import annotations

from pathlib import Path

import yaml

from edgetune.config.atomic_update import alone, write_whole
from edgetune.config.boards_file import BoardsFile, boards_path
from edgetune.errors import ConfigError, UnknownBoard
from edgetune.yaml_reader.checked import check_document
from edgetune.yaml_reader.nearest import nearest
from edgetune.yaml_reader.source import YamlDocument, load_yaml, parse_yaml


def remove_board(name: str) -> Path:
    """Remove the board ``name`` and return the path of the file; records of the board stay.

    Raises UnknownBoard (there is no such board; names the nearest) and ConfigError (the file is wrong, or the board's
    lines hold something else too). The file is unchanged then.
    """
    path = boards_path()
    if not path.exists():
        raise _unknown(name, ())
    path = path.resolve()  # a symbolic link, for example into a dotfiles folder, stays a link
    with alone(path.parent):
        document = load_yaml(path)
        before = check_document(BoardsFile, document).boards
        if name not in before:
            raise _unknown(name, tuple(before))
        text = _without(path.read_bytes().decode("utf-8"), name)
        wanted = {key: value for key, value in (_boards(document) or {}).items() if key != name}
        if _boards(_parsed(text, path)) != wanted:
            problem = f"board '{name}' shares its lines with others, or another board refers to it: remove it by hand"
            raise document.error(("boards", name), problem)
        write_whole(text, path)
    return path


def _unknown(name: str, boards: tuple[str, ...]) -> UnknownBoard:
    hint = nearest(name, boards) if boards else "no board has an address yet"
    return UnknownBoard(f"there is no board '{name}' to remove: {hint} (`edgetune boards list` shows all)")


def _without(text: str, name: str) -> str:
    """Return ``text`` without the lines of ``name``; comments after it belong to the next board and stay."""
    lines = text.splitlines(keepends=True)
    for key, value in _entries(text):
        if key.value == name:
            flow = isinstance(value, yaml.MappingNode) and value.flow_style
            # A block ends where the next token begins, {...} at its brace.
            first, last = key.start_mark.line, value.end_mark.line + bool(flow)
            while last > first + 1 and lines[last - 1].strip()[:1] in {"", "#"}:
                last -= 1
            return "".join(lines[:first] + lines[last:])
    return text


def _entries(text: str) -> list[tuple[yaml.Node, yaml.Node]]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    boards = root.value[0][1] if isinstance(root, yaml.MappingNode) and root.value else None
    return boards.value if isinstance(boards, yaml.MappingNode) and not boards.flow_style else []


def _parsed(text: str, path: Path) -> YamlDocument | None:
    try:
        return parse_yaml(text, path)
    except ConfigError:
        return None


def _boards(document: YamlDocument | None) -> dict[object, object] | None:
    """Return the value of ``boards`` in a file; None without a file."""
    if document is None:
        return None
    boards = document.data.get("boards")
    return boards if isinstance(boards, dict) else {}
