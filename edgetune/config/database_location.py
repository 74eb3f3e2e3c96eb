"""Where the records database is: a file, or a PostgreSQL server that several hosts share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlsplit

from edgetune.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import StrPath

_SCHEMES = ("postgresql", "postgres")


@dataclass(frozen=True)
class DatabaseUrl:
    """A database of a PostgreSQL server, as ``postgresql://USER@HOST:PORT/NAME``; `text` has no password."""

    text: str

    def __str__(self) -> str:
        return self.text


DatabaseLocation: TypeAlias = Path | DatabaseUrl


@dataclass(frozen=True)
class Branch:
    """A branch of the records: what the snapshot of that name saw, and what those who share the branch store.

    A search takes over what others have measured since on one of `boards`, when it wants the same candidate.
    """

    snapshot: str
    name: str
    boards: tuple[str, ...] = ()


def checked_location(text: str) -> str:
    """Return `text`, a path or URL of a records database; raise ValueError where it is no such URL.

    A password in a URL would be shown in lists of processes, logs and messages: libpq's own files and variables
    (``~/.pgpass``, ``PGPASSFILE``, ``PGPASSWORD``) hold it instead.
    """
    if "://" not in text:
        return text
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"must be the path of a file or postgresql://USER@HOST/NAME, not {parts.scheme}://...")
    if parts.password is not None or {"password", "sslpassword"} & parse_qs(parts.query, keep_blank_values=True).keys():
        raise ValueError("must not have a password in the URL: write it to ~/.pgpass, or set PGPASSWORD")
    if not parts.path.strip("/"):
        raise ValueError(f"must name a database after the host, as in postgresql://USER@HOST/NAME, not {text!r}")
    return text


def database_location(text: str, folder: Path) -> DatabaseLocation:
    """The location that `text` names; a path is relative to `folder`. Raises ValueError as `checked_location` does."""
    checked = checked_location(text)
    if "://" in checked:
        return DatabaseUrl(checked)
    try:
        return folder / Path(checked).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"names the folder of a user who does not exist: write the path in full, not {text!r}"
        ) from error


def as_location(given: StrPath | DatabaseUrl) -> DatabaseLocation:
    """What a caller of the Python interface gives: a path, or a URL as text. Raises UsageError for another URL."""
    if not isinstance(given, str):
        return given if isinstance(given, DatabaseUrl) else Path(given)
    try:
        return database_location(given, Path())
    except ValueError as error:
        raise UsageError(f"the records database {error}") from None
