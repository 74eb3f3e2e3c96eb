"""Counts one run of a package and of its layers, where an emulator without operating system runs it."""

from __future__ import annotations

from pathlib import Path

from edgetune.package.counted_run import CountedRun
from edgetune.target.board_kind import BoardKind
from edgetune.verify.bench import answer_of, linked
from edgetune.verify.image_counts import image_counts
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import reuse, work_copy

_TIMEOUT_S = 1800.0


def counted_run(package: Path, *, target: BoardKind, objects: Path | None = None) -> CountedRun | None:
    """Return what one run of `package` and each of its layers execute; None where no image is counted on `target`.

    `objects` were compiled from this very package. Raises PackageInvalid, ToolchainMissing, CompileFailed,
    MemoryLimitExceeded (the benchmark does not fit beside the workspace) and SelfTestFailed (it crashed or refused).
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest, target)
        if not tools.images or not tools.emulator:
            return None
        if objects is not None:
            reuse(copy, objects, tools, _TIMEOUT_S)
        place = image_counts(tools, runs=1)
        binary = linked(copy, manifest, tools, place, _TIMEOUT_S)
        layers = answer_of(package, manifest, place.execute(binary, (), _TIMEOUT_S))[1]
        counts = place.counts(binary, 1, len(layers))
    return None if counts is None else counts.estimated(tools.emulator[0], tools.cycles, tools.clock_mhz)
