"""Small distributions that add members to edgetune's registries, installed as pip installs any other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0"

[project.entry-points."{group}"]
{member} = "{value}"

[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""


def install(folder: Path, group: str, member: str, value: str, code: str) -> Path:
    """Install a distribution of one module with one entry point; return the folder that goes on Python's path.

    `value` is `module:attribute`, `code` the text of that module.
    """
    module = value.partition(":")[0]
    name = module.replace("_", "-")
    project, site = folder / f"{name}-source", folder / f"{name}-site"
    project.mkdir(parents=True)
    text = _PROJECT.format(name=name, group=group, member=member, value=value, module=module)
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    (project / f"{module}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    command += ["--no-build-isolation", "--no-deps", "--target", str(site), str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def edgetune(
    words: Sequence[str], *sites: Path, cwd: Path, environment: Mapping[str, str] | None = None, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the command line with the distributions of `sites` installed."""
    path = os.pathsep.join([*map(str, sites), *(entry for entry in sys.path if entry)])
    return subprocess.run(
        [sys.executable, "-m", "edgetune", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {}), "PYTHONPATH": path},
        timeout=timeout_s,
    )
