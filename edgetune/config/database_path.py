"""Checks the path of the records database: it must be a file, not the address of a database server."""

from __future__ import annotations


def database_path(text: str) -> str:
    """Return `text`; raise ValueError where it is an address such as ``postgresql://host/name``."""
    if "://" in text:
        raise ValueError(f"must be the path of a file, not an address: no database server can be used ({text!r})")
    return text
