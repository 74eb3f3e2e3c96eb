"""Every mistake of docs/mistakes.md: its exit code, its sentence, and a second of CPU time; more on a slow core."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from edgetune.cli.main import VERBS
from tests.cli_mistakes import HERE, Mistake, mistakes, prepare

CPU_SECONDS = 1.0
TRIES = 5
"""What others do on its core makes a program take more CPU time, as does compiling modules that were never imported:
what needs too much by itself does so every time."""
SHARE_OF_TVM = 1.25
"""A core so slow that importing TVM takes over 0.8 s may take this many times as long as that import. A mistake that
imports TVM takes longer: its own second comes on top."""
LEAST = 40
LEAST_PER_VERB = 3
MISTAKES = mistakes()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes") / "project"
    folder.mkdir()
    prepare(folder)
    return folder


def answer(project: Path, command: str) -> tuple[int, str, str, float]:
    """Run `command`; return its exit code, what is on stdout and stderr, and the seconds of CPU time that it took."""
    place, separator, rest = command.partition("; ")
    folder = project / place.removeprefix("cd ") if separator else project
    words = shlex.split(rest if separator else command)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGETUNE_")}
    environment = kept | {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "XDG_CONFIG_HOME": str(project / "config"),
        "COLUMNS": "200",
    }
    out, err = project / "stdout", project / "stderr"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgetune", *words[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    texts = [path.read_text(encoding="utf-8").replace(str(project), HERE) for path in (out, err)]
    return process.returncode, texts[0], texts[1], usage.ru_utime + usage.ru_stime


@cache
def importing_tvm() -> float:
    """Least seconds of CPU time that importing TVM took in three processes."""
    taken = []
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", "import tvm"], stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        taken.append(usage.ru_utime + usage.ru_stime)
    return min(taken)


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.command for mistake in MISTAKES])
def test_mistake(project: Path, mistake: Mistake) -> None:
    before = sorted(project.rglob("*"))
    for left in reversed(range(TRIES)):
        code, out, err, seconds = answer(project, mistake.command)
        assert (code, err, out) == (mistake.code, f"edgetune: error: {mistake.sentence}\n", "")
        assert set(project.rglob("*")) - set(before) <= {project / "stdout", project / "stderr"}
        if seconds <= CPU_SECONDS or seconds <= SHARE_OF_TVM * importing_tvm():
            break
        assert left, f"{seconds:.2f} s of CPU time, and never less than {CPU_SECONDS:g} s in {TRIES} tries"


def test_there_are_enough_for_every_verb() -> None:
    assert len(MISTAKES) == len({mistake.command for mistake in MISTAKES}) >= LEAST
    counted = Counter(mistake.command.partition("edgetune ")[2].split()[0] for mistake in MISTAKES)
    assert all(counted[verb] >= LEAST_PER_VERB for verb in VERBS), counted


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        *("explain package nothing", "bench changed", "verify changed", "bench package"),
        *("run package -i x.npy", "compare package package"),
    ],
)
def test_what_is_done_with_a_package_loads_no_tvm(project: Path, words: str) -> None:
    """Nor ONNX: with a package alone, neither is needed."""
    script = (
        "import sys\n"
        "from edgetune.cli.main import run\n"
        f"run({words.split()!r})\n"
        "print(sorted({'tvm', 'tvm_ffi', 'onnx', 'onnxruntime', 'paramiko'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
