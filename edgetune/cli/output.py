"""Output of a verb: results on stdout, as tables for people or as one JSON value for programs."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from edgetune.cli import stderr
from edgetune.cli.failure import one_line, printable

if TYPE_CHECKING:
    from rich.table import Table

P = ParamSpec("P")
R = TypeVar("R")
_WIDTH_OF_FILES = 200


@dataclass(frozen=True)
class Output:
    """Output settings of a verb: ``verbosity`` is -1 (errors and results only), 0, or more with each ``-v``."""

    as_json: bool
    verbosity: int

    @property
    def foreign(self) -> stderr.Mode:
        """Mode for lines that libraries and child processes write to stderr."""
        if self.verbosity < 0:
            return "silent"
        return "json" if self.as_json else "lines" if self.verbosity else "silent"

    def result(self, value: object, *, title: str | None = None) -> None:
        """Write the result of the verb on stdout."""
        plain = to_plain(value)
        if self.as_json:
            sys.stdout.write(json.dumps(plain, allow_nan=False) + "\n")
        else:
            _print_tables(plain, title)

    def line(self, text: str) -> None:
        """Write one line for people on stdout; nothing with ``--json``."""
        if not self.as_json:
            sys.stdout.write(printable(text) + "\n")

    def note(self, text: str) -> None:
        """Write a remark on stderr, unless ``-q`` was given."""
        if not self.as_json and self.verbosity >= 0:
            stderr.say(f"edgetune: {one_line(text)}")


def output_options(function: Callable[Concatenate[Output, P], R]) -> Callable[P, R]:
    """Add ``--json``, ``-v`` and ``-q`` to a verb; it receives an Output as its first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Result as one JSON value, events as JSON lines on stderr.")
    @click.option("-v", "--verbose", count=True, help="Print more; twice for still more.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only errors and the result.")
    @functools.wraps(function)
    def verb(*args: P.args, **kwargs: P.kwargs) -> R:
        as_json, verbose, quiet = (kwargs.pop(name) for name in ("as_json", "verbose", "quiet"))
        if quiet and verbose:
            raise click.UsageError("-v and -q exclude each other: give one of them")
        loudness = verbose if isinstance(verbose, int) else 0
        output = Output(bool(as_json), -1 if quiet else loudness)
        stderr.show_foreign(output.foreign)
        return function(output, *args, **kwargs)

    return verb


def to_plain(value: object) -> object:
    """Convert ``value`` to JSON types: paths become text, numbers that JSON lacks become null."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def _print_tables(value: object, title: str | None) -> None:
    from rich.console import Console

    tty = sys.stdout.isatty()
    console = Console(
        file=sys.stdout, width=None if tty else _WIDTH_OF_FILES, markup=False, highlight=False, emoji=False
    )
    for table in _tables(value, title):
        console.print(table)


def _tables(value: object, title: str | None) -> list[Table]:
    if isinstance(value, list):
        rows = [row if isinstance(row, dict) else {"": row} for row in value]
        return [_rows_table(rows, title)] if rows else []
    if not isinstance(value, dict):
        return [_pairs_table({"": value}, title)]
    nested = {key: item for key, item in value.items() if _is_rows(item) or (isinstance(item, dict) and item)}
    flat = {key: item for key, item in value.items() if key not in nested}
    tables = [_pairs_table(flat, title)] if flat else []
    for key, item in nested.items():
        tables += _tables(item, _words(key))
    return tables


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _pairs_table(pairs: Mapping[str, object], title: str | None) -> Table:
    from rich.table import Table

    table = Table(title=_heading(title), show_header=False, box=None, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, item in pairs.items():
        table.add_row(_cell(_words(key)), _cell(item))
    return table


def _rows_table(rows: Sequence[Mapping[str, object]], title: str | None) -> Table:
    from rich.table import Table

    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=_heading(title), box=None, title_justify="left", header_style="bold", pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(_words(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _heading(title: str | None) -> str | None:
    return f"\n{one_line(title)}" if title else None


def _words(key: str) -> str:
    return key.replace("_", " ")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if value and not 0.01 <= abs(value) < 100_000 else f"{value:.2f}"  # noqa: PLR2004
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={_cell(item)}" for key, item in value.items())
    return one_line(str(value))
