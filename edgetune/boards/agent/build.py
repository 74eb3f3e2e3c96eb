"""Compiles the agent for a target, and QEMU's counting plugin and the launcher for this machine, once per content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetune.boards.compiled_once import PLUGIN, WARNINGS, CompiledProgram, compiled_once
from edgetune.resources import templates_dir
from edgetune.target.target import Target

SOURCES = tuple(
    f"{name}.c"
    for name in (
        "agent",
        "calls",
        "compare",
        "count",
        "fence",
        "frame",
        "health",
        "lock",
        "request",
        "sampling",
        "spare",
        "start",
        "store",
        "supervise",
        "system",
        "trial",
        "turns",
    )
)
_AGENT = ("-O2", "-fPIE", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-DEDGETUNE_OWN_START")
# On old boards dlopen is in libdl; only there does the program look for it under that name.
_LINK = ("-pie", "-nostartfiles", "-Wl,-e,_start", "-s", "-Wl,--no-as-needed", "-l:libdl.so.2")
ABI = ("--target", "--sysroot", "-mabi", "-mfloat-abi", "-march=rv")  # flags that linking needs too
_FOLDER = "agent"


def agent_folder() -> Path:
    """Return the folder of the agent's C text."""
    return templates_dir() / "agent"


def build_agent(target: Target, cache: Path | None = None, defines: Sequence[str] = ()) -> Path:
    """Return the agent for boards of `target`, stripped; raises ToolchainMissing. `defines` are macros for tests."""
    flags = [*(flag for flag in target.compiler.cflags if flag.startswith(ABI)), *(f"-D{name}" for name in defines)]
    sources = [agent_folder() / name for name in SOURCES]
    program = CompiledProgram(
        "agent",
        "the agent",
        target.compiler.cc,
        [*flags, *WARNINGS, *_AGENT],
        sources,
        _headers(),
        _LINK,
        target,
    )
    return compiled_once(program, _FOLDER, cache)


def build_plugin(cache: Path | None = None) -> Path:
    """Return the QEMU plugin that counts instructions; raises ToolchainMissing."""
    sources = [agent_folder() / "plugin" / "counting.c"]
    program = CompiledProgram("counting.so", "the counting plugin", "gcc", [*WARNINGS, *PLUGIN], sources, _headers())
    return compiled_once(program, _FOLDER, cache)


def build_launcher(cache: Path | None = None) -> Path:
    """Return the program that starts emulators, so that no process of a candidate outlives the agent in them."""
    sources = [agent_folder() / "plugin" / "launch.c"]
    program = CompiledProgram("launch", "the launcher", "gcc", [*WARNINGS, "-O2", "-s"], sources, _headers())
    return compiled_once(program, _FOLDER, cache)


def _headers() -> list[Path]:
    return [*agent_folder().glob("*.h"), templates_dir() / "accuracy.h"]
