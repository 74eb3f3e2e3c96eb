"""Pinned programs: the canary and one package of each board, built once and kept, so that only the board can change."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgetune.errors import PackageInvalid, SelfTestFailed
from edgetune.farm import archive
from edgetune.farm.bench import Bench
from edgetune.pipeline.backends import start_words
from edgetune.resources import templates_dir
from edgetune.target.target import Target
from edgetune.verify.bench import TIMEOUT_S
from edgetune.verify.driver import last_words
from edgetune.verify.starts import PROGRAM
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult

_GOAL = "build/canary_bench"
_RUNS, _SECONDS, _COUNTED_RUNS = 1000, 0.2, 3


@dataclass(frozen=True)
class PinnedProgram:
    """A program in the archive by its digest, unpacked in `folder`."""

    digest: str
    folder: Path


def canary(bench: Bench, store: Path, digest: str, folder: Path) -> PinnedProgram:
    """Return the canary of a board: the one with that digest, or a new one where it is lost, or there was none ("").

    `store` is the folder of the archive. Raises what compilers, the place and the archive raise.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if digest and not archive.restore(store, digest, folder):
        return PinnedProgram(digest, folder)
    shutil.copytree(templates_dir() / "nightly" / "canary", folder / archive.PACKAGE)
    with tempfile.TemporaryDirectory(prefix="edgetune-canary-") as name:
        copy = Path(name).resolve() / "canary"
        shutil.copytree(folder / archive.PACKAGE, copy)
        _write_start(bench.target, copy)
        bench.place.link(copy, _GOAL, PackageToolchain.of_board(bench.target), TIMEOUT_S)
        (folder / archive.BUILT).mkdir()
        shutil.copy(copy / _GOAL, folder / archive.BUILT / PROGRAM)
    return PinnedProgram(archive.keep(store, folder), folder)


def _write_start(target: Target, folder: Path) -> None:
    """Write into `folder` what starts a program of `target`, and the words for it; nothing where a system starts it."""
    words = start_words(target, folder)
    if words:
        flags = target.compiler.cflags if target.instruction_set.machine_flags_are_abi else ()
        text = f"ARCH = {' '.join(flags)}\nSTART = {' '.join(words)}\n"
        (folder / "start.mk").write_text(text, encoding="utf-8")


def reference(store: Path, digests: Iterable[str], folder: Path) -> PinnedProgram | None:
    """Return the first package of `digests` that the archive still has; None where there is none.

    Of an iterator, the digests after it are left for the next call.

    Raises NightFault where the archive cannot be read.
    """
    for digest in digests:
        shutil.rmtree(folder, ignore_errors=True)
        if not archive.restore(store, digest, folder):
            return PinnedProgram(digest, folder)
    return None


def start_canary(bench: Bench, folder: Path) -> float:
    """Start the canary once, from a new copy as `starts.start` does; return its cost in the unit of the place.

    Raises what the place raises, SelfTestFailed and PackageInvalid.
    """
    amount = (str(_COUNTED_RUNS), "0") if bench.counts else (str(_RUNS), f"{_SECONDS:g}")
    with tempfile.TemporaryDirectory(prefix="edgetune-canary-") as name:
        program = Path(shutil.copy(folder / archive.BUILT / PROGRAM, name))
        done = bench.place.execute(program, amount, TIMEOUT_S, bench.cores)
    return 1e3 * _median_us(done)


def _median_us(done: ProgramResult) -> float:
    if done.status:
        raise SelfTestFailed(f"the canary failed: {last_words(done.status, done.stderr)}")
    try:
        median = float(json.loads(done.stdout.strip().splitlines()[-1])["median_us"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise PackageInvalid(f"the canary wrote no usable JSON ({error}): delete it from the archive") from error
    if not 0 < median < float("inf"):
        raise PackageInvalid(f"the canary takes {median} µs there: its clock does not work")
    return median
