"""What an acceptance check looks at: a model, and the package that the command line made of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "models"
STRICT = "-Wall -Wextra -Wconversion -Wshadow -Werror"
BUILD_SECONDS = 3600


@dataclass(frozen=True)
class Case:
    """One package under check; `scratch` is a folder to fill, `summary` what `build` or `tune` answered with --json."""

    model: Path
    board: str
    package: Path
    db: Path
    scratch: Path
    summary: Mapping[str, Any] = field(repr=False)

    @property
    def manifest(self) -> dict[str, Any]:
        """The package's MANIFEST.json."""
        text = (self.package / "MANIFEST.json").read_text(encoding="utf-8")
        return dict(json.loads(text))

    @property
    def prefix(self) -> str:
        """The C prefix of the package."""
        return str(self.manifest["prefix"])

    def copy(self, name: str) -> Path:
        """A copy of the package to build in, so that the package itself stays as it was emitted."""
        place = self.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(self.package, place))


def edgetune(
    *words: str | Path, cwd: Path, environment: Mapping[str, str] | None = None, seconds: float = BUILD_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own, in the folder `cwd`."""
    return run_status(*command_line(*words), cwd=cwd, environment=environment, seconds=seconds)


def command_line(*words: str | Path) -> list[str]:
    """The command that runs this repository's edgetune."""
    return [sys.executable, "-m", "edgetune", *map(str, words)]


def run_status(
    *command: str, cwd: Path, environment: Mapping[str, str] | None = None, seconds: float = BUILD_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs any command in an environment without settings of edgetune, and says how it ended."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=child_environment() | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def child_environment() -> dict[str, str]:
    """The environment of this process without settings of edgetune, and with the repository to import from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGETUNE_")}
    return kept | {"PYTHONPATH": str(ROOT)}


def build_case(model: Path, board: str, folder: Path, *, db: Path | None = None, search: Sequence[str] = ()) -> Case:
    """Builds the package of `model` under `folder`, or tunes it with the flags `search` (such as --trials 40)."""
    folder.mkdir(parents=True, exist_ok=True)
    records, package = db or folder / "records.db", folder / f"{model.stem}-{board}"
    verb = "tune" if search else "build"
    done = edgetune(verb, model, "--board", board, "--db", records, "-o", package, "--json", *search, cwd=folder)
    assert done.returncode == 0, f"edgetune {verb} {model.name} --board {board}: {done.stderr.strip()[-2000:]}"
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    return Case(model, board, package, records, folder / "scratch" / board, summary)


def run(*command: str | Path, cwd: Path, seconds: float = BUILD_SECONDS) -> str:
    """What a command says on stdout; AssertionError with its last words when it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
    )
    said = (done.stderr.strip() or done.stdout.strip())[:1500]
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit status {done.returncode}: {said}"
    return done.stdout


def last_line(text: str) -> str:
    """The last line that is not empty."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
