"""Facts about the machine that a table needs to mean something. No dates, no host name."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from edgetune.boards.environment import Reading, read_environment


def machine_facts(core: int, compilers: tuple[str, ...]) -> dict[str, Reading]:
    """CPU, core, kernel, compilers' versions and the conditions of `core`; what the system hides is left out."""
    facts: dict[str, Reading] = {
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text(errors="replace")),
        "architecture": platform.machine(),
        "core": core,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for compiler in compilers:
        facts[f"compiler {compiler}"] = _first_line([compiler, "--version"])
    return facts | read_environment(core)


def cpu_model(cpuinfo: str) -> str:
    """Name of the first CPU in the text of /proc/cpuinfo."""
    fields = [line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line]
    named = {key.strip(): value.strip() for key, value in reversed(fields)}
    return named.get("model name") or named.get("Model") or named.get("Hardware") or platform.machine()


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": _path()})
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def _path() -> str:
    import os

    return os.environ.get("PATH", os.defpath)
