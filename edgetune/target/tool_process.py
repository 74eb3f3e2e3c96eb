"""Runs compilers and related tools (binutils, make, the programs they build) in an environment that edgetune sets.

Shell variables change what a tool prints or writes: `COLUMNS` truncates GCC's tables, `LC_ALL` translates messages,
`DEPENDENCIES_OUTPUT` makes GCC write files, `CFLAGS` and `MAKEFLAGS` change a build. A candidate is compiled exactly
like its package only if none of these variables are passed on. The lists below name the variables that are passed on;
all others are removed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetune.errors import ToolchainMissing

_KEPT = frozenset(
    {
        # locations of programs and files
        *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
        # search paths of GCC and clang for their own programs, headers and libraries; module systems and SDKs set them
        *("COMPILER_PATH", "GCC_EXEC_PREFIX", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"),
        *("SDKTARGETSYSROOT", "SDKROOT", "CONDA_PREFIX", "CONDA_BUILD_SYSROOT"),
        # licences and installations of commercial compilers
        *("ARMLMD_LICENSE_FILE", "ARM_PRODUCT_DEF", "ARM_PRODUCT_PATH", "ARM_TOOL_VARIANT", "LM_LICENSE_FILE"),
        *("IAR_LMS_BEARER_TOKEN", "IAR_LMS_SETTINGS_DIR"),
    }
)
_KEPT_PREFIXES = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_", "NIX_", "OECORE_", "QEMU_")
NO_PATH = (
    "PATH is not set, so that compilers and make do not find the programs that they start: set it, such as "
    "PATH=/usr/local/bin:/usr/bin:/bin"
)
_SET = {"LC_ALL": "C", "TERM": "dumb"}


def tool_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of `environment` (default: this process's) that tools get, with the variables edgetune sets.

    Raises ToolchainMissing without `PATH`.
    """
    given = os.environ if environment is None else environment
    require_path(given)
    kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return kept | _SET


def require_path(environment: Mapping[str, str]) -> None:
    """Raise ToolchainMissing without `PATH`: compilers and make do not find the programs that they start then."""
    if not environment.get("PATH"):
        raise ToolchainMissing(NO_PATH)


def run_tool(
    command: Sequence[str], *, timeout_s: float, folder: Path | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end in `folder`, without input; its output is text, with bytes that are not UTF-8 replaced.

    Raises OSError where it cannot start, subprocess.TimeoutExpired after `timeout_s` seconds, and, with `check`,
    subprocess.CalledProcessError where its exit status is not 0.
    """
    return subprocess.run(
        list(command),
        cwd=folder,
        env=tool_environment(),
        stdin=subprocess.DEVNULL,  # GCC reads the terminal width from stdin
        capture_output=True,
        text=True,
        errors="replace",
        check=check,
        timeout=timeout_s,
    )
