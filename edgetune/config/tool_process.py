"""Compilers and their companions (binutils, make, what they built) run in an environment that edgetune sets.

What a shell holds changes what a tool answers or writes: `COLUMNS` cuts GCC's tables, `LC_ALL` translates messages,
`DEPENDENCIES_OUTPUT` makes GCC write files, `CFLAGS` and `MAKEFLAGS` change a build. A candidate is compiled like its
package only if nothing of that comes in. The lists below are what comes in; everything else is left out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_KEPT = frozenset(
    {
        # where programs and files are
        *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
        # where GCC and clang look for their own parts, headers and libraries: set by module systems and unpacked SDKs
        *("COMPILER_PATH", "GCC_EXEC_PREFIX", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"),
        *("SDKTARGETSYSROOT", "SDKROOT", "CONDA_PREFIX", "CONDA_BUILD_SYSROOT"),
        # licences and installations of commercial compilers
        *("ARMLMD_LICENSE_FILE", "ARM_PRODUCT_DEF", "ARM_PRODUCT_PATH", "ARM_TOOL_VARIANT", "LM_LICENSE_FILE"),
        *("IAR_LMS_BEARER_TOKEN", "IAR_LMS_SETTINGS_DIR"),
    }
)
_KEPT_PREFIXES = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_", "NIX_", "OECORE_", "QEMU_")
_SET = {"LC_ALL": "C", "TERM": "dumb"}


def tool_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what of `environment` (default: this process's) a compiler, make or emulator gets, and what is set."""
    given = os.environ if environment is None else environment
    kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return kept | _SET


def run_tool(
    command: Sequence[str], *, timeout_s: float, folder: Path | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end in `folder`, without input; its output is text, bytes that are none of UTF-8 replaced.

    Raises OSError where it cannot start, subprocess.TimeoutExpired after `timeout_s` seconds, and, with `check`,
    subprocess.CalledProcessError where its exit status is not 0.
    """
    return subprocess.run(
        list(command),
        cwd=folder,
        env=tool_environment(),
        stdin=subprocess.DEVNULL,  # GCC asks it for the width of a terminal
        capture_output=True,
        text=True,
        errors="replace",
        check=check,
        timeout=timeout_s,
    )
