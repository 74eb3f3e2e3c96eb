"""A benchmark as a command: on the cores that build, with an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.side import CannotLoad
from edgetune.boards.cores import CoreSplit, confined, split_cores
from edgetune.errors import EdgetuneError


def run_command(name: str, run: Callable[[CoreSplit], int]) -> int:
    """What `run` returns, whose threads stay on the cores that build; the code of an error, 1 for a lacking runtime."""
    split = split_cores()
    try:
        with confined(split.building):
            return run(split)
    except EdgetuneError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except CannotLoad as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
