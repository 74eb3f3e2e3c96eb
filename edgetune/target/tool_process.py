"""Runs compilers and related tools (binutils, make, the programs they build) in an environment that edgetune sets.

Shell variables change what a tool prints or writes: `COLUMNS` truncates GCC's tables, `LC_ALL` translates messages,
`DEPENDENCIES_OUTPUT` makes GCC write files, `CFLAGS` and `MAKEFLAGS` change a build. A candidate is compiled exactly
like its package only if none of these variables are passed on. The lists below name the variables that are passed on;
all others are removed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from edgetune.errors import ToolchainMissing, ToolHung
from edgetune.ipc.process_group import end_family, program

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
_KEPT_PREFIXES = (
    "PROBE_RS_",
    "PYOCD_",
    "OPENOCD_",
    "CCACHE_",
    "SCCACHE_",
    "DISTCC_",
    "ICECC_",
    "NIX_",
    "OECORE_",
    "QEMU_",
)
NO_PATH = (
    "PATH is not set, so that compilers and make do not find the programs that they start: set it, such as "
    "PATH=/usr/local/bin:/usr/bin:/bin"
)
_SET = {"LC_ALL": "C", "TERM": "dumb"}
_WRITES = frozenset({"-o"})
_LONGEST = 120
_REST_S = 1.0


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
    command: Sequence[str],
    *,
    timeout_s: float,
    folder: Path | None = None,
    check: bool = False,
    on_start: Callable[[int], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end in `folder`, without input; its output is text, with bytes that are not UTF-8 replaced.

    It has the variables of `environment`, by default those of `tool_environment`, and a process group of its own, which
    `on_start` gets. After `timeout_s` seconds, and where an exception comes here, the whole group is ended, and all
    that it started. Raises OSError where it cannot start, ToolHung where it had not ended in that time (what it left
    running may hold its output for as long, and is no fault of its own), and, with `check`,
    subprocess.CalledProcessError where its exit status is not 0.
    """
    with program(
        command,
        cwd=folder,
        env=tool_environment() if environment is None else environment,
        stdin=subprocess.DEVNULL,  # GCC reads the terminal width from stdin
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        if on_start is not None:
            on_start(process.pid)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            ended = process.poll() is not None
            end_family(process.pid)
            stdout, stderr = _rest(process)
            if not ended:
                raise ToolHung(hung(command, timeout_s, folder), stdout) from None
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), stdout, stderr)
    return subprocess.CompletedProcess(list(command), process.returncode, stdout, stderr)


def hung(command: Sequence[str], timeout_s: float, folder: Path | None = None) -> str:
    """The sentence on a tool that did not end in time: which one, on which file of its command line, for how long."""
    place = folder or Path()
    read = (
        word
        for before, word in pairwise(command)
        if before not in _WRITES and not word.startswith("-") and (place / word).is_file()
    )
    what = Path(next(read, "")).name
    where = f"on {what}" if what else f"in `{shlex.join([Path(command[0]).name, *command[1:]])[:_LONGEST]}`"
    return (
        f"{Path(command[0]).name} hung {where}: it did not end within {timeout_s:g} s, and was ended with all that it "
        "had started; run it by hand to see what it waits for"
    )


def _rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a tool had printed whose family was ended; a process that left it may still hold the pipes."""
    try:
        return process.communicate(timeout=_REST_S)
    except subprocess.TimeoutExpired as error:
        stdout, stderr = (_text(printed) for printed in (error.stdout, error.stderr))
        return stdout, stderr


def _text(printed: bytes | str | None) -> str:
    """What `communicate` had read when its time was over: bytes, also of a text stream."""
    return printed.decode(errors="replace") if isinstance(printed, bytes) else printed or ""
