"""Compiles the agent for a target, and QEMU's counting plugin and the launcher for this machine, once per content."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgetune.errors import DiskFull, EdgetuneError, ToolchainMissing
from edgetune.resources import cache_dir, templates_dir
from edgetune.target.libc import lacks_libc, libc_package
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool
from edgetune.target.toolchain import install_command

_NO_SPACE = os.strerror(errno.ENOSPC)

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
WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow")
_AGENT = ("-O2", "-fPIE", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-DEDGETUNE_OWN_START")
# On old boards dlopen is in libdl; only there does the program look for it under that name.
_LINK = ("-pie", "-nostartfiles", "-Wl,-e,_start", "-s", "-Wl,--no-as-needed", "-l:libdl.so.2")
_PLUGIN = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-s")
ABI = ("--target", "--sysroot", "-mabi", "-mfloat-abi", "-march=rv")  # flags that linking needs too
_TIMEOUT_S = 120.0


def agent_folder() -> Path:
    """Return the folder of the agent's C text."""
    return templates_dir() / "agent"


def build_agent(target: Target, cache: Path | None = None, defines: Sequence[str] = ()) -> Path:
    """Return the agent for boards of `target`, stripped; raises ToolchainMissing. `defines` are macros for tests."""
    flags = [*(flag for flag in target.compiler.cflags if flag.startswith(ABI)), *(f"-D{name}" for name in defines)]
    sources = [agent_folder() / name for name in SOURCES]
    return _built("agent", target.compiler.cc, [*flags, *WARNINGS, *_AGENT], sources, list(_LINK), cache, target)


def build_plugin(cache: Path | None = None) -> Path:
    """Return the QEMU plugin that counts instructions; raises ToolchainMissing."""
    sources = [agent_folder() / "plugin" / "counting.c"]
    return _built("counting.so", "gcc", [*WARNINGS, *_PLUGIN], sources, [], cache, None)


def build_launcher(cache: Path | None = None) -> Path:
    """Return the program that starts emulators, so that no process of a candidate outlives the agent in them."""
    sources = [agent_folder() / "plugin" / "launch.c"]
    return _built("launch", "gcc", [*WARNINGS, "-O2", "-s"], sources, [], cache, None)


def _built(
    name: str,
    cc: str,
    flags: Sequence[str],
    sources: Sequence[Path],
    link: Sequence[str],
    cache: Path | None,
    target: Target | None,
) -> Path:
    key = hashlib.sha256()
    for word in (cc, _version(cc, target), *flags, *link):
        key.update(word.encode() + b"\0")
    for path in sorted({*sources, *agent_folder().glob("*.h"), templates_dir() / "accuracy.h"}):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = (cache or cache_dir()) / "agent"
    done = folder / f"{key.hexdigest()[:24]}-{name}"
    if done.is_file():
        return done
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as beside:
            made = Path(beside, name)
            _compile([cc, *flags, "-o", str(made), *map(str, sources), *link])
            made.chmod(0o755)
            made.replace(done)
    except OSError as error:
        raise EdgetuneError(
            f"the cache folder {folder} cannot be written ({error.strerror}): set XDG_CACHE_HOME to a writable folder"
        ) from error
    return done


def _compile(command: list[str]) -> None:
    done = run_tool(command, timeout_s=_TIMEOUT_S)
    if done.returncode != 0:
        said = done.stderr.strip()
        if _NO_SPACE in said:
            raise DiskFull("no space is left to build the agent: free some, or set XDG_CACHE_HOME to another folder")
        install = f": {install_command(libc_package(command[0], command))}" if lacks_libc(said) else ""
        raise ToolchainMissing(f"{command[0]} cannot compile the agent ({said[:500]}){install}")


def _version(cc: str, target: Target | None) -> str:
    try:
        done = run_tool([cc, "--version"], timeout_s=_TIMEOUT_S, check=True)
    except FileNotFoundError as error:
        package = target.compiler.package if target and target.compiler.package else "gcc libc6-dev"
        board = f" (the C compiler of board '{target.name}')" if target else ""
        raise ToolchainMissing(f"{cc}{board} is not on PATH: sudo apt-get install {package}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainMissing(f"{cc} does not print its version: {error}") from error
    return done.stdout
