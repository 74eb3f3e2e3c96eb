"""A throw-away copy of a package in which it is built and run, so that the package itself stays as it was emitted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import CompileFailed, SelfTestFailed
from edgetune.package.diagnostics import first_diagnostic
from edgetune.package.manifest import check_files, read_manifest
from edgetune.package.toolchain import Toolchain

# What the caller's shell may hold for builds of its own, and what would change this one.
_FOREIGN = frozenset(
    {
        *("CC", "AR", "SIZE", "CFLAGS", "CPPFLAGS", "KERNEL_CFLAGS", "ARCH_CFLAGS", "WARNINGS", "LDFLAGS", "LDLIBS"),
        *("OBJDIR", "RUN", "BENCH_ARGS", "CROSS_COMPILE"),
        *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEFILES", "GNUMAKEFLAGS"),
    }
)


@dataclass(frozen=True)
class Finished:
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


def make(copy: Path, goal: str, tools: Toolchain, timeout_s: float, variables: Sequence[str] = ()) -> None:
    """Build `goal` with the package's own Makefile; raises CompileFailed with the first diagnostic."""
    done = run(["make", "-s", goal, f"CC={tools.cc}", *variables], copy, timeout_s)
    if done.status:
        raise CompileFailed(f"{tools.cc} could not build {goal}: {first_diagnostic(done.stderr or done.stdout)}")


def run(command: Sequence[str], folder: Path, timeout_s: float) -> Finished:
    """Run a program to its end, killing it with its children after `timeout_s` seconds (SelfTestFailed)."""
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    environment["LC_ALL"] = "C"
    with subprocess.Popen(
        list(command),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SelfTestFailed(f"{Path(command[0]).name} did not end within {timeout_s:g} s") from None
            raise
    return Finished(process.returncode, stdout, stderr)
