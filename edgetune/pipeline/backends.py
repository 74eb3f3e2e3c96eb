"""Backends by name: looks up the backend of a target, and asks what it can do for the user's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from edgetune._version import __version__
from edgetune.backends.backend import Backend
from edgetune.errors import BoardUnavailable, ConfigError, UsageError
from edgetune.registry import Registry
from edgetune.target.board_kind import BoardKind
from edgetune.target.preferences import Io, Precision
from edgetune.target.target import KeyFault
from edgetune.yaml_reader.nearest import nearest

BACKENDS: Final = Registry[Backend]("backend", "edgetune.backends", Backend)


def backend_of(target: BoardKind) -> Backend:
    """Return the backend that `target` names; raises ConfigError where no installed distribution has it."""
    return BACKENDS.get(target.backend, lambda message: ConfigError(f"target '{target.name}' has an {message}"))


def target_fault(target: BoardKind) -> KeyFault | None:
    """Refuse an unknown backend, and what the backend of `target` refuses in its file."""
    if not BACKENDS.has(target.backend):
        known = nearest(target.backend, BACKENDS.names())
        return KeyFault("backend", f"must be the name of a backend, not '{target.backend}': {known}")
    return backend_of(target).target_fault(target)


def start_words(target: BoardKind, folder: Path) -> tuple[str, ...]:
    """`StartWords` of the backend of `target`."""
    image = backend_of(target).program_image("program", target)
    context = {"p": "program", "target": target, "generator": __version__, "code": None, "workspaces": ()}
    return image.start_words(folder, context)


def untimed(target: BoardKind) -> str:
    """Why nothing can be timed on boards of `target`, "" where candidates can."""
    return backend_of(target).untimed(target)


def packages_only(target: BoardKind) -> str:
    """Why boards of `target` are for packages only, "" where candidates are timed on them, one by one or in rounds."""
    return "" if backend_of(target).rounds else untimed(target)


def require_search(target: BoardKind) -> None:
    """Raise BoardUnavailable where no candidate can be timed on boards of `target`, whatever their addresses."""
    if why := untimed(target):
        raise BoardUnavailable(
            f"board '{target.name}' cannot be tuned, because {why}: `edgetune build --board {target.name}` makes a "
            "package with default schedules"
        )


def require_threads(target: BoardKind, threads: int) -> None:
    """Raise UsageError where a package for `target` cannot have that many `threads`."""
    most = backend_of(target).most_threads
    if most is not None and threads > most:
        raise UsageError(
            f"{threads} threads are asked for, but a package for board '{target.name}' has {most} at most: "
            f"ask for {most}"
        )


def require_io(target: BoardKind, io: Io) -> None:
    """Raise UsageError where inputs and outputs of a package for `target` cannot lie in `io`."""
    backend = backend_of(target)
    if io not in backend.io:
        raise UsageError(
            f"io {io} is asked for, which packages in C have, and those for board '{target.name}' are in "
            f"{backend.dialect.name}: ask for --io {' or '.join(backend.io)}, or build for a board with a CPU"
        )


def require_precision(target: BoardKind, precision: Precision) -> None:
    """Raise UsageError where a package for `target` cannot have that `precision`."""
    known = backend_of(target).precisions(target)
    if precision not in known:
        raise UsageError(
            f"precision {precision} is asked for, but packages for board '{target.name}' compute in "
            f"{' or '.join(known)}: ask for --precision {known[-1]}"
        )
