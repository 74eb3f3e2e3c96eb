"""Compiles a candidate as it ships: the object with the package's own command, then a shared library from it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from edgetune.errors import ConfigError, DiskFull, ToolchainMissing, ToolHung
from edgetune.registry import Registry
from edgetune.target.target import STACK_LIMIT_BYTES, Target
from edgetune.target.tool_process import hung, run_tool
from edgetune.target.toolchain import lacks_program

STANDARD = "-std=gnu11"
_SHARED = ("-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic,-z,defs")
_STACK_LIMIT = f"-Werror=frame-larger-than={STACK_LIMIT_BYTES}"
_REASON = 2000
_PROBE_UNIT = """static const float table[64] = {1.0f};
float edgetune_probe(int i);
float edgetune_probe(int i) { return table[i]; }
"""
_PROBE_SHIM = """void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) { (void)buffers; }
"""
_NO_SPACE = os.strerror(errno.ENOSPC)
OnStart = Callable[[int], None]


@dataclass(frozen=True)
class CompilerCommand:
    """One compiler command line. `kernel_flags` are the flags of the shipped kernel file, in its order.

    `position_flags` is empty where the shipped object can be linked into a shared library as it is (compilers that make
    position independent executables by default, as Debian's do). Otherwise it is `-fPIE`; for a file whose data are all
    static, this changes only how the address of a constant table is formed. `library_flags` make what a board loads of
    the object and the shim: a shared library, or one relocatable object.
    """

    cc: str
    size: str
    kernel_flags: tuple[str, ...]
    position_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    library_flags: tuple[str, ...] = _SHARED
    timeout_s: float = 30.0
    memory_bytes: int = 2 << 30


@dataclass(frozen=True)
class CompileResult:
    """The result of a compilation; an empty `reason` means success. `code_bytes` is the kernel's code and constants."""

    reason: str
    timed_out: bool
    code_bytes: int


class CandidateBuilder(Protocol):
    """Builds candidates: the part of a backend that a search needs."""

    def toolchain(self, target: Target, timeout_s: float) -> CompilerCommand:
        """Return the command that builds a candidate, after trying it; raises ToolchainMissing and BoardUnavailable."""

    def build_candidate(
        self, toolchain: CompilerCommand, unit: Path, shim: Path, library: Path, on_start: OnStart | None = None
    ) -> CompileResult:
        """Compile the kernel file `unit` as it ships, and make `library` of it and `shim`, which boards load.

        `on_start` gets the process group of each compiler. Raises DiskFull.
        """


_BUILDERS: Final = Registry[CandidateBuilder]("backend", "edgetune.backends")


def builder_of(target: Target) -> CandidateBuilder:
    """Return the builder of the backend that `target` names, in a process of a search; raises ConfigError."""
    return _BUILDERS.get(target.backend, lambda message: ConfigError(f"target '{target.name}' has an {message}"))


def toolchain_of(target: Target, timeout_s: float = 30.0) -> CompilerCommand:
    """Return the command line of `target`, after trying it; raises ToolchainMissing without one, and ToolHung."""
    plain = _shipped(target, timeout_s, target.compiler.ldflags, _SHARED)
    return _first_that_builds(target, (plain, replace(plain, position_flags=("-fPIE",))), "a library")


def relocatable_toolchain_of(target: Target, timeout_s: float = 30.0) -> CompilerCommand:
    """Return the command line of `target` whose libraries are relocatable objects, which are linked into an image.

    It was tried; raises ToolchainMissing without one, and ToolHung.
    """
    words = (*target.compiler.cflags, "-O1", "-r", "-nostdlib")
    return _first_that_builds(target, (_shipped(target, timeout_s, (), words),), "an object")


def _shipped(
    target: Target, timeout_s: float, link_flags: tuple[str, ...], library_flags: tuple[str, ...]
) -> CompilerCommand:
    """The command line of the kernel file as it ships."""
    compiler = target.compiler
    return CompilerCommand(
        cc=compiler.cc,
        size=f"{compiler.cross_prefix}size",
        kernel_flags=(STANDARD, *compiler.kernel_line),
        position_flags=(),
        link_flags=link_flags,
        library_flags=library_flags,
        timeout_s=timeout_s,
    )


def _first_that_builds(target: Target, toolchains: Sequence[CompilerCommand], what: str) -> CompilerCommand:
    compiler = target.compiler
    if shutil.which(compiler.cc) is None:
        install = f": sudo apt-get install {compiler.package}" if compiler.package else ": put it on PATH"
        raise ToolchainMissing(f"{compiler.cc} (the C compiler of board '{target.name}') is not on PATH{install}")
    problem = ""
    with tempfile.TemporaryDirectory(prefix="edgetune-probe-") as folder:
        for toolchain in toolchains:
            unit, shim = Path(folder, "unit.c"), Path(folder, "shim.c")
            unit.write_text(_PROBE_UNIT)
            shim.write_text(_PROBE_SHIM)
            compiled = build_library(toolchain, unit, shim, Path(folder, "probe.so"))
            if not compiled.reason:
                return toolchain
            if compiled.timed_out:
                raise ToolHung(hung([toolchain.cc, "-c", str(unit)], toolchain.timeout_s))
            problem = compiled.reason
    advice = lacks_program(problem)
    said = f"{problem}: {advice}" if advice else problem
    raise ToolchainMissing(f"{compiler.cc} with the flags of board '{target.name}' cannot build {what}: {said}")


def build_library(
    toolchain: CompilerCommand, unit: Path, shim: Path, library: Path, on_start: OnStart | None = None
) -> CompileResult:
    """Compile the kernel file `unit` as it ships and link it with `shim` into `library`.

    A function whose stack frame is larger than `STACK_LIMIT_BYTES` is an error of the compiler, which changes no code.
    Each step runs in its own process group, which is reported to `on_start` and killed after `timeout_s`. Raises
    DiskFull, which is not the candidate's fault.
    """
    kernel = unit.with_suffix(".o")
    steps = (
        [
            toolchain.cc,
            *toolchain.kernel_flags,
            *toolchain.position_flags,
            _STACK_LIMIT,
            "-c",
            str(unit),
            "-o",
            str(kernel),
        ],
        [
            toolchain.cc,
            *(STANDARD, *toolchain.library_flags, "-o", str(library), str(shim), str(kernel)),
            *toolchain.link_flags,
        ],
    )
    deadline = time.monotonic() + toolchain.timeout_s
    for command in steps:
        code, text = _run_limited(command, deadline, toolchain, on_start)
        if code is None:
            return CompileResult(
                f"{toolchain.cc} was stopped after {toolchain.timeout_s:g} s", timed_out=True, code_bytes=0
            )
        if code != 0:
            if _NO_SPACE in text:
                raise DiskFull(f"no space left for candidates in {unit.parent}: free some, or set TMPDIR")
            reason = _first_diagnostic(text) or f"{toolchain.cc}: exit code {code}"
            return CompileResult(reason, timed_out=False, code_bytes=0)
    return CompileResult("", timed_out=False, code_bytes=_code_bytes(toolchain, kernel, deadline))


def _run_limited(
    command: list[str], deadline: float, toolchain: CompilerCommand, on_start: OnStart | None
) -> tuple[int | None, str]:
    """Run with limits on address space and CPU time that hold even if this process is killed; code None: too late."""
    seconds, kilobytes = int(toolchain.timeout_s) + 1, toolchain.memory_bytes >> 10
    limits = f'ulimit -v {kilobytes}; ulimit -t {seconds}; ulimit -c 0; exec "$@"'
    limited, left = ["/bin/sh", "-c", limits, "sh", *command], max(0.01, deadline - time.monotonic())
    try:
        done = run_tool(limited, timeout_s=left, on_start=on_start)
    except ToolHung:
        return None, ""
    return done.returncode, done.stderr


def _first_diagnostic(text: str) -> str:
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if "error" in line and "collect2" not in line), 0)
    return "\n".join(lines[start : start + 8])[:_REASON].strip()


def _code_bytes(toolchain: CompilerCommand, kernel: Path, deadline: float) -> int:
    """Return the bytes of code and constants in an object, by binutils' `size`; 0 where that is not installed."""
    try:
        timeout = max(1.0, deadline - time.monotonic())
        command = [toolchain.size, str(kernel)]
        done = run_tool(command, timeout_s=timeout, check=True)
        return int(done.stdout.splitlines()[1].split()[0])
    except (OSError, ToolHung, subprocess.SubprocessError, IndexError, ValueError):
        return 0
