"""Toolchain check of a target: compiles a small program with the target's flags and runs it where possible."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edgetune.errors import BoardUnavailable, CompileFailed, ToolchainMissing, ToolHung
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.cuda_toolkit import WHEELS, find_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.libc import lacks_libc, libc_package
from edgetune.target.programs import install_line, probe_of
from edgetune.target.target import Target, with_cpu
from edgetune.target.tool_process import run_tool
from edgetune.target.toolchain import install_command, lacks_program

_TIMEOUT_S = 60
_PROGRAM = """\
#include <math.h>
#include <stdio.h>
typedef float lanes __attribute__((vector_size({bytes})));
static volatile float two = 2.0f;
int main(void) {{
    lanes sum = {{0}};
    for (int i = 0; i < 8; ++i) sum += sum * two + (float)i;
    {half}
    printf("%d\\n", (int)sqrtf(sum[0] * sum[0]));
    return 0;
}}
"""
_EXPECTED = "1636"  # s = 3 s + i, eight times
_HALF = "sum[0] += (float)((_Float16)two - (_Float16)2.0f);"


StartWords = Callable[[Target, Path], Sequence[str]]
"""Writes into a folder what starts a program of a target; returns the compiler's words for it, run in that folder."""


def hosted(target: Target, folder: Path) -> tuple[str, ...]:
    """`StartWords` where an operating system starts programs: none."""
    del target, folder
    return ()


def check_board(
    target: BoardKind, *, emulated: bool = True, required: bool = False, start: StartWords = hosted
) -> list[Finding]:
    """Return the findings: compiler installed, program compiled, program run with the right result.

    The fix of a missing tool is the command that installs it. Without `emulated`, the target's emulator is not needed,
    because boards run its programs; of a target without one, nothing runs on machines of another kind. `required` is
    that of the findings, `start` that of the target's backend.
    """
    findings: list[Finding] = []
    try:
        if isinstance(target, GpuTarget):
            findings.extend(_check_gpu(target, required=required))
        else:
            findings.extend(_check_cpu(with_cpu(target), emulated=emulated, required=required, start=start))
    except ToolHung as error:  # after what was found before
        findings.append(Finding(f"tools of {target.name}", False, error.message, "", required, ToolHung.exit_code))
    return findings


def _check_gpu(target: GpuTarget, *, required: bool) -> Iterator[Finding]:
    """Whether nvcc is there, and the C++ compiler with which the CPU check builds. Raises ToolHung."""
    compiler, code = target.compiler, ToolchainMissing.exit_code
    nvcc = find_nvcc(compiler.nvcc)
    name = f"nvcc of {target.name}"
    if nvcc is None:
        yield Finding(name, False, f"{compiler.nvcc} is neither on PATH nor in wheels", WHEELS, required, code)
    else:
        yield Finding(name, True, _last_line([str(nvcc), "--version"]))
    name = f"C++ compiler of {target.name}"
    if shutil.which(compiler.cxx) is None:
        install = install_command(compiler.package)
        yield Finding(name, False, f"{compiler.cxx} is not on PATH", install, required, code)
    else:
        yield Finding(name, True, f"{compiler.cxx}: {_first_line([compiler.cxx, '--version'])}")


def _check_cpu(target: Target, *, emulated: bool, required: bool, start: StartWords) -> Iterator[Finding]:
    """Whether compiler and probe are there, and a program compiles and runs with the right result. Raises ToolHung."""
    compiler = target.compiler
    path = shutil.which(compiler.cc)
    name = f"compiler of {target.name}"
    if path is None:
        fix = install_command(compiler.package)
        yield Finding(name, False, f"{compiler.cc} is not on PATH", fix, required, ToolchainMissing.exit_code)
        return
    yield Finding(name, True, f"{compiler.cc}: {_first_line([path, '--version'])}")
    with tempfile.TemporaryDirectory(prefix="edgetune-check-") as folder:
        yield from _compile_and_run(target, path, Path(folder), start, required=required, emulated=emulated)
    for probe in probe_of(target):
        found, name = shutil.which(probe.name) is not None, f"probe of {target.name}"
        words = probe.name if found else f"{probe.name} is not on PATH"
        yield Finding(name, found, words, "" if found else install_line([probe]), required, ToolchainMissing.exit_code)


def _compile_and_run(
    target: Target, cc: str, folder: Path, start: StartWords, *, required: bool, emulated: bool
) -> Iterator[Finding]:
    compiler, source, program = target.compiler, folder / "check.c", folder / "check"
    half = _HALF if target.has_float16 else ""
    source.write_text(_PROGRAM.format(bytes=max(4, target.vector_bits // 8), half=half), encoding="ascii")
    flags = ["-std=gnu11", *compiler.kernel_line]
    done = _run([cc, *flags, str(source), *start(target, folder), "-o", str(program), *compiler.ldflags], folder)
    name = f"compiles for {target.name}"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line or "cannot find" in line), lines[0])
        bare = lacks_libc(done.stderr)
        install = install_command(libc_package(compiler.cc, flags) if bare else compiler.package)
        fix = lacks_program(done.stderr) or install
        yield Finding(name, False, first, fix, required, CompileFailed.exit_code)
        return
    yield Finding(name, True, " ".join(flags))
    runs_here = platform.machine().lower() in target.instruction_set.all_machines
    if not (emulated if target.emulator else runs_here):
        return
    name = f"runs for {target.name}"
    if target.emulator and shutil.which(target.emulator[0]) is None:
        fix = install_command(target.emulator_package)
        detail = f"{target.emulator[0]} is not on PATH"
        yield Finding(name, False, detail, fix, required, ToolchainMissing.exit_code)
        return
    done = _run([*target.emulator, str(program)])
    where = " ".join(target.emulator) if target.emulator else "natively"
    if done.stdout.strip() == _EXPECTED:
        yield Finding(name, True, where)
        return
    detail = f"{where}: exit status {done.returncode}, {(done.stderr.strip().splitlines() or ['wrong result'])[-1]}"
    fix = f"set TMPDIR to a folder that allows programs (now {folder.parent}), or correct the flags of the target file"
    yield Finding(name, False, detail, fix, required, BoardUnavailable.exit_code)


def _run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(command, timeout_s=_TIMEOUT_S, folder=folder)
    except PermissionError as error:
        return subprocess.CompletedProcess(command, 126, "", str(error))


def _last_line(command: list[str]) -> str:
    return (_run(command).stdout.splitlines() or [""])[-1]


def _first_line(command: list[str]) -> str:
    return (_run(command).stdout.splitlines() or [""])[0]
