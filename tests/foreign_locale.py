"""A locale that C programs notice: numbers with a comma, and letters whose upper case is another one.

Machines that run tests have few locales, and a missing one is silently the C locale: it is made here. Python leaves the
locale of numbers alone, unless a program takes it on, as applications with windows do.
"""

from __future__ import annotations

import locale
import subprocess
from pathlib import Path

from tests.missing_tools import require

NAME = "tr_TR.UTF-8"


def turkish(folder: Path) -> dict[str, str]:
    """Make the locale in `folder`; return the variables that let programs find and use it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NAME).exists():
        require("/usr/share/i18n/locales")
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", str(folder / NAME)], check=True)
    return {"LOCPATH": str(folder), "LC_ALL": NAME}


def take_on() -> None:
    """Use the locale of the environment in this process, C code included."""
    assert locale.setlocale(locale.LC_ALL, "") == NAME
    assert locale.localeconv()["decimal_point"] == ","
