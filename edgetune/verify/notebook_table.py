"""Tables in a notebook: rows of plain values as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return a table with the keys of the first row as its heads; all text is escaped, as names are untrusted."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    lines = ["".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in (heads, *lines) if line)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
