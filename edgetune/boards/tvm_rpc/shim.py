"""Builds the module that a session of TVM's RPC server loads to try candidates (templates/agent/tvm_shim.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from edgetune.config.resources import templates_dir
from edgetune.config.target import Target
from edgetune.config.tool_process import run_tool
from edgetune.errors import ToolchainMissing

SHIM = "agent/tvm_shim.c"
_TIMEOUT_S = 60


def build_shim(target: Target, folder: Path) -> Path:
    """Compile the shim for `target` into `folder`, unless it is there; raises ToolchainMissing if that fails.

    It is linked without libraries, so that it asks for no version of a libc: the server's process has one.
    """
    compiler, library = target.compiler, folder / f"tvm_shim_{target.name}.so"
    if library.exists():  # twins
        return library
    source = templates_dir() / SHIM
    command = [compiler.cc, *compiler.cflags, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared"]
    command += [f"-I{source.parent}", "-nodefaultlibs", "-o", str(library), str(source), "-lgcc"]
    try:
        run_tool(command, timeout_s=_TIMEOUT_S, check=True)
    except FileNotFoundError as error:
        install = f": sudo apt-get install {compiler.package}" if compiler.package else ": put it on PATH"
        raise ToolchainMissing(
            f"{compiler.cc} (the C compiler of board '{target.name}') is not on PATH{install}"
        ) from error
    except subprocess.SubprocessError as error:
        words = str(getattr(error, "stderr", None) or error).strip()[-500:]
        raise ToolchainMissing(f"{compiler.cc} cannot compile {source.name}: {words}") from error
    return library
