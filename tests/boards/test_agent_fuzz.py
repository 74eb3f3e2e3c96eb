"""A short run of the fuzzer on what the agent reads; `tests/fuzz/agent_frames.c` says how to let it run for long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune.boards.agent.build import agent_folder

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
SECONDS = 5


@pytest.mark.long
def test_no_input_harms_the_agent(tmp_path: Path) -> None:
    fuzzer = tmp_path / "fuzzer"
    sources = [str(FUZZ / "agent_frames.c"), *(str(agent_folder() / name) for name in ("frame.c", "request.c"))]
    flags = ["-g1", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]
    built = subprocess.run(
        ["clang-19", *flags, "-I", str(agent_folder()), *sources, "-o", str(fuzzer)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, f"{built.stderr}\n(the fuzzer needs: apt-get install clang-19 libclang-rt-19-dev)"
    corpus = shutil.copytree(FUZZ / "corpus", tmp_path / "corpus")
    # libFuzzer limits its peak resident set. Linux carries the parent's peak over exec, so a small shell starts it.
    words = [str(fuzzer), f"-max_total_time={SECONDS}", "-seed=1", "-max_len=5000", "-timeout=10", str(corpus)]
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},  # needs ptrace, which containers may refuse
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "DONE" in done.stderr or "Done " in done.stderr, done.stderr[-1000:]
