"""A file that a script makes from the code: written, or with `--check` compared with what it would be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_or_check(
    path: Path, made: Callable[[], str], script: str, about: str, arguments: Sequence[str] | None = None
) -> int:
    """Write what is made to `path`; with `--check`, the exit code is 1 where it says otherwise.

    `script` is the file of `.ci` that is called, `about` what it does.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = made()
    if not options.check:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        print(f"docs/{path.name} is not what the code says: python .ci/{script}", file=sys.stderr)
        return 1
    return 0
