"""Makes the boards of a target, by its `reach` and the addresses there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgetune.boards.board import Board
from edgetune.config.target import Target
from edgetune.config.toolchain import require_measurable
from edgetune.errors import UsageError
from edgetune.events import Event
from edgetune.measure.cores import CoreSplit
from edgetune.measure.options import MeasuringOptions


def open_boards(
    target: Target,
    options: MeasuringOptions,
    folder: Path,
    split: CoreSplit,
    *,
    lock_file: Path | None = None,
    lock_timeout_s: float = 600.0,
    on_event: Callable[[Event], None] = lambda _: None,
) -> list[Board]:
    """Return the boards to measure on; none is connected to yet.

    `folder` is one of this machine, for the boards' own files. Raises BoardUnavailable when the target cannot be
    measured from here, and UsageError when its times can never be trusted as far as `options` asks.
    """
    require_measurable(target, options.addresses)
    if target.emulated and options.min_trust != "D":
        raise UsageError(
            f"samples of board '{target.name}' are of grade D, being emulated, and --min-trust {options.min_trust} "
            "would refuse all of them: leave it out"
        )
    if target.reach == "local":
        from edgetune.boards.local import LocalBoard

        return [
            LocalBoard(target, folder, split, lock_file=lock_file, lock_timeout_s=lock_timeout_s, on_event=on_event)
        ]
    raise NotImplementedError(target.reach)
