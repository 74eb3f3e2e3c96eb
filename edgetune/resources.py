"""Resource folders: finds the files that ship with the code, in a checkout, an editable install or a wheel."""

from __future__ import annotations

import os
from pathlib import Path

from edgetune.errors import EdgetuneError

_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """Return the folder of the Jinja2 templates."""
    return _shipped("templates")


def targets_dir() -> Path:
    """Return the folder of the target files that ship with edgetune."""
    return _shipped("targets")


def deploy_dir() -> Path:
    """Return the folder of files that run on or beside boards, with one folder per emulated board among others."""
    return _shipped("deploy")


def cache_dir() -> Path:
    """Return the user's own cache folder (``$XDG_CACHE_HOME/edgetune``); it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "edgetune"


def user_dir() -> Path:
    """Return the user's own configuration folder (``$XDG_CONFIG_HOME/edgetune``); it need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    return root / "edgetune"


def _shipped(name: str) -> Path:
    inside = _PACKAGE / f"_{name}"  # where the wheel puts it
    beside = _PACKAGE.parent / name  # where the checkout has it
    for folder in (inside, beside):
        if folder.is_dir():
            return folder
    msg = f"this installation of edgetune has no folder {inside} or {beside}: install it again"
    raise EdgetuneError(msg)
