"""The run of a bundle on this machine: checks its files, compiles the runner, and starts it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from edgetune.bundle.kinds import KINDS
from edgetune.bundle.kinds.kind import RUNNER
from edgetune.bundle.manifest import (
    MOST_MANIFEST_BYTES,
    MOST_RESULT_BYTES,
    PLAN,
    RESULTS,
    BundleManifest,
    read_limited,
    read_manifest,
)
from edgetune.errors import BoardBusy, BoardUnavailable, BoardUnfit, BundleInvalid, EdgetuneError, ToolchainMissing
from edgetune.resources import templates_dir
from edgetune.target.tool_process import run_tool

BY_STATUS: dict[int, type[EdgetuneError]] = {3: BoardUnavailable, 4: BoardUnfit, 5: BundleInvalid, 6: BoardBusy}
_MOST_FILE_BYTES = 4 << 30
_NOT_STARTED, _KILLED = 126, 128
_COMPILE_S = 120.0


def run_bundle(folder: Path) -> dict[str, object]:
    """Try all candidates of a bundle that have no result yet; returns counts.

    The runner is edgetune's own, not that of the folder. Raises BundleInvalid, BoardUnavailable where a GPU is missing,
    BoardUnfit for another part, BoardBusy, ToolchainMissing.
    """
    manifest = check_files(folder)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ToolchainMissing("there is no C compiler for the runner of the bundle: `apt install gcc` installs one")
    with tempfile.TemporaryDirectory(prefix="edgetune-") as place:
        runner = Path(place) / "runner"
        files = [shutil.copy(path, place) for path in runner_files(manifest)]
        sources = [str(file) for file in files if str(file).endswith(".c")]
        built = run_tool([compiler, "-O2", *sources, "-o", str(runner), "-ldl", "-lm"], timeout_s=_COMPILE_S)
        if built.returncode:
            raise ToolchainMissing(f"{compiler} cannot compile the runner of the bundle: {built.stderr.strip()[:200]}")
        try:  # without a deadline: it ends each candidate that hangs by itself, and people see how far it is
            done = subprocess.run([str(runner), str(folder.absolute())], stderr=subprocess.PIPE, text=True, check=False)
        except PermissionError as error:
            raise BoardUnavailable(
                f"no program runs from {tempfile.gettempdir()} ({error.strerror}): set TMPDIR to a folder on a file "
                "system that is mounted without noexec"
            ) from error
    if done.returncode:
        raise error_of(done.returncode)(why_it_ended(done.returncode, done.stderr))
    found = read_limited(folder, RESULTS, MOST_RESULT_BYTES).count(b"\n")
    return {"folder": folder, "candidates": len(manifest.candidates), "results": found}


def check_files(folder: Path) -> BundleManifest:
    """The manifest of a bundle whose files are those that were written; raises BundleInvalid for any other."""
    manifest, _ = read_manifest(folder)
    plan = read_limited(folder, PLAN, MOST_MANIFEST_BYTES)
    if hashlib.sha256(plan).hexdigest() != manifest.plan_sha256:
        raise BundleInvalid(f"{folder / PLAN} was changed after it was written: copy the bundle again")
    runner_files(manifest)
    for name in (manifest.kind, "data"):
        for path in sorted((folder / name).iterdir()) if (folder / name).is_dir() else []:
            if hashlib.sha256(read_limited(folder / name, path.name, _MOST_FILE_BYTES)).hexdigest() != path.name:
                raise BundleInvalid(f"{path} was changed after it was written: copy the bundle again")
    return manifest


def runner_files(manifest: BundleManifest) -> list[Path]:
    """The files of which `cc -O2 *.c -o runner -ldl -lm` makes the runner; raises BundleInvalid for an unknown kind."""
    kind = KINDS.get(manifest.kind)
    if kind is None:
        raise BundleInvalid(f"the bundle has candidates of an unknown kind '{manifest.kind}': export it again")
    return [templates_dir() / name for name in (*RUNNER, *kind.runner)]


def error_of(status: int) -> type[EdgetuneError]:
    """The class of error of a runner that ended with a `status`: a shell's 126 and more say nothing of the bundle."""
    return BoardUnavailable if status >= _NOT_STARTED else BY_STATUS.get(status, BundleInvalid)


def why_it_ended(status: int, said: str) -> str:
    """What a runner, or what started it, said before it ended with a `status`: one line of printable characters."""
    lines = [line.partition(": ")[2] for line in said.strip().splitlines() if line.startswith(("bundle: ", "hold: "))]
    first = lines[0] if lines else f"the runner ended with status {status}"
    if status > _KILLED:
        first = f"the runner was killed by signal {status - _KILLED}: look for lack of memory there (`dmesg`)"
    return "".join(letter if letter.isprintable() else "?" for letter in first[:400])
