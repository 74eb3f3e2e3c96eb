"""Temporary copy of a package for building and running, so that the package itself stays as it was emitted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import PackageInvalid, SelfTestFailed, ToolHung
from edgetune.package.diagnostics import compile_failure
from edgetune.package.manifest import check_files, read_manifest
from edgetune.target.tool_process import hung, run_tool
from edgetune.verify.toolchain import PackageToolchain

_BUILT = "build"


@dataclass(frozen=True)
class ProgramResult:
    """A program that ended: exit status (negative: killed by that signal) and what it wrote."""

    status: int
    stdout: str
    stderr: str


@contextmanager
def work_copy(package: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Give a temporary copy of the listed files of a package, checked against their hashes, and the manifest.

    Raises PackageInvalid.
    """
    manifest = read_manifest(package)
    check_files(package, manifest)
    with tempfile.TemporaryDirectory(prefix="edgetune-check-") as name:
        copy = Path(name).resolve() / "package"
        for file in manifest["files"]:
            place = copy / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(package / file, place)
        yield copy, manifest


def make(copy: Path, goal: str, tools: PackageToolchain, timeout_s: float, variables: Sequence[str] = ()) -> None:
    """Build `goal` with the package's own Makefile.

    Raises PackageInvalid where the Makefile, perhaps of another version, has no rule for it, ToolHung, and the error of
    `compile_failure`.
    """
    # -r: make's built-in rules would link any program with none of the package's files.
    command = ["make", "-r", goal, f"CC={tools.cc}", *tools.make_words, *variables]
    try:
        done = run_tool(command, timeout_s=timeout_s, folder=copy)
    except ToolHung as error:
        last = (error.printed.splitlines() or [""])[-1].split()  # make prints each command before it runs
        raise ToolHung(hung(last or command, timeout_s, copy)) from None
    if f"No rule to make target '{goal}'." in done.stderr:
        raise PackageInvalid(
            f"the package's Makefile has no rule for {goal}: another version of edgetune wrote it, or it was changed; "
            "build the package again with `edgetune build`"
        )
    if done.returncode:
        raise compile_failure(tools.cc, goal, done.stderr or done.stdout, copy, tools.cflags)


def reuse(copy: Path, objects: Path, tools: PackageToolchain, timeout_s: float) -> None:
    """Put `objects`, compiled from the very files of `copy` with its own flags, where `make` would write them.

    `make` first records its command line, and then accepts these newer objects as its own.
    """
    make(copy, f"{_BUILT}/commands", tools, timeout_s)
    for made in sorted(objects.glob("*.o")):
        shutil.copyfile(made, copy / _BUILT / made.name)


def run(command: Sequence[str], folder: Path, timeout_s: float) -> ProgramResult:
    """Run a program to its end; where that has not come after `timeout_s` seconds, end it (SelfTestFailed).

    Under an emulator as well: the check of the board has run that emulator, so the program is rather to blame.
    """
    try:
        done = run_tool(command, timeout_s=timeout_s, folder=folder)
    except ToolHung as error:
        raise SelfTestFailed(error.message) from None
    return ProgramResult(done.returncode, done.stdout, done.stderr)
