"""YAML parser that keeps the line of every key, so that an error can name it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import yaml

from edgetune.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

Location = tuple[str | int, ...]

_MAX_NODES = 10_000
_MAX_DEPTH = 20


# YAML's types of yes, no, on, off, null and ~
_NO_NAMES = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"}

_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_OCTAL = re.compile(r"[-+]?0(?:[0-9_]*[0-9]|o[0-7_]+)", re.IGNORECASE)


@dataclass(frozen=True)
class YamlDocument:
    """One parsed file: ``data`` is its top-level mapping, ``lines`` gives the line (from 1) of each key path.

    ``text`` is what was parsed.
    """

    path: Path
    data: dict[str, object]
    lines: Mapping[Location, int]
    text: str = ""

    def line(self, location: Location) -> int:
        """Return the line of ``location``, or of the nearest enclosing key that is in the file."""
        for end in range(len(location), 0, -1):
            found = self.lines.get(location[:end])
            if found is None:  # the line of a key that YAML reads as a number is stored under its text
                found = self.lines.get(tuple(str(part) for part in location[:end]))
            if found is not None:
                return found
        return 1

    def error(self, location: Location, problem: str) -> ConfigError:
        """Build the error for ``problem`` at ``location``."""
        return ConfigError(f"{self.path}, line {self.line(location)}: {problem}")


def load_yaml(path: Path, times: Mapping[str, str] = MappingProxyType({})) -> YamlDocument:
    """Read ``path``; raise :class:`ConfigError` with file and line for every error in its YAML.

    ``times`` are keys at the top of the file whose values are times of day, each with what is said of one that YAML
    takes for a number.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        msg = f"{path} does not exist"
        raise ConfigError(msg) from None
    except IsADirectoryError:
        msg = f"{path} is a folder, not a YAML file"
        raise ConfigError(msg) from None
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): make it readable for you"
        raise ConfigError(msg) from None
    except UnicodeDecodeError as error:
        msg = f"{path} is not text in UTF-8 (byte {error.start}): save it as UTF-8"
        raise ConfigError(msg) from None
    return parse_yaml(text, path, times)


def parse_yaml(text: str, path: Path, times: Mapping[str, str] = MappingProxyType({})) -> YamlDocument:
    """Parse ``text`` as if it were the content of ``path``."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            lines = _key_lines(node, path, times)
            data = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        msg = f"{path}, line {line}: contains a character that YAML does not allow ({error.character!r})"
        raise ConfigError(msg) from None
    except RecursionError:
        msg = f"{path}: is nested too deeply to be a configuration"
        raise ConfigError(msg) from None
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
        # PyYAML's constructors of dates, numbers and explicit tags raise these unwrapped.
        msg = f"{path}: has a value that cannot be read ({error}): put it in quotes if it is text"
        raise ConfigError(msg) from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        msg = f"{path}, line 1: must be a list of 'key: value' lines, not {describe(data)}"
        raise ConfigError(msg)
    return YamlDocument(path, data, lines, text)


def describe(value: object) -> str:
    """Describe a YAML value by its type, with the value itself where it is short."""
    if isinstance(value, dict):
        return "a group of keys"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    kinds = {bool: "yes/no", int: "a whole number", float: "a number", str: "text"}
    text = repr(value) if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        text = text.lower()
    kind = kinds.get(type(value), f"a {type(value).__name__}")
    shown = text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004 (fits on a line)
    return f"{shown} ({kind})"


def _key_lines(root: yaml.Node | None, path: Path, times: Mapping[str, str]) -> dict[Location, int]:
    lines: dict[Location, int] = {}
    visited = 0
    todo: list[tuple[Location, yaml.Node]] = [((), root)] if root is not None else []
    while todo:
        location, node = todo.pop()
        visited += 1
        line = node.start_mark.line + 1
        if visited > _MAX_NODES or len(location) > _MAX_DEPTH:
            msg = f"{path}, line {line}: is too large or nested too deeply to be a configuration"
            raise ConfigError(msg)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*location, str(key.value))
                key_line = key.start_mark.line + 1
                if isinstance(key, yaml.ScalarNode):
                    _refuse_other_bases(key, path)
                if key.tag in _NO_NAMES:
                    msg = f"{path}, line {key_line}: key '{key.value}' is not text in YAML: put it in quotes"
                    raise ConfigError(msg)
                if inner in lines:
                    msg = f"{path}, line {key_line}: key '{key.value}' was given before, on line {lines[inner]}"
                    raise ConfigError(msg)
                lines[inner] = key_line
                todo.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                lines[(*location, index)] = value.start_mark.line + 1
                todo.append(((*location, index), value))
        elif isinstance(node, yaml.ScalarNode):
            _refuse_other_bases(node, path, times.get(str(location[0]), "") if location else "")
    return lines


def _refuse_other_bases(node: yaml.ScalarNode, path: Path, of_times: str = "") -> None:
    """Refuse numbers that YAML reads otherwise than a person does, or YAML 1.1 otherwise than YAML 1.2.

    `of_times` is what a time of day is called where one is meant.
    """
    if node.style is not None:  # in quotes
        return
    where, text = f"{path}, line {node.start_mark.line + 1}: '{node.value}'", str(node.value)
    if _OCTAL.fullmatch(text):
        msg = f"{where} is an octal number: write it without the leading zero, or in quotes if it is text"
        raise ConfigError(msg)
    if node.tag in _NUMBERS and ":" in text:
        number = "a number to the base of 60: write it as one number, or in quotes if it is text"
        msg = f"{where} is {of_times or number}"
        raise ConfigError(msg)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: Path) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ConfigError(f"{path}: is not YAML ({error.problem})")
    rows = text.splitlines()
    row = rows[mark.line] if mark.line < len(rows) else ""
    where = f"{path}, line {mark.line + 1}"
    if "\t" in row[: mark.column + 1]:
        return ConfigError(f"{where}: has a tab, which YAML does not allow there: use spaces")
    problem = (error.problem or "cannot be read").replace("\t", "\\t")
    return ConfigError(f"{where}: is not YAML ({problem})")
