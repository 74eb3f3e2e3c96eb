"""Rounds that run at once on a host with a GPU, here or behind SSH: the stub of the driver, and of nvidia-smi."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.boards.gpu_health import health_faults
from edgetune.bundle.gpu_host import BehindSsh, ThisMachine
from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS, read_manifest
from edgetune.bundle.running import error_of, why_it_ended
from edgetune.errors import (
    BoardBusy,
    BoardUnavailable,
    BoardUnfit,
    BundleInvalid,
    EdgetuneError,
    ToolchainMissing,
)
from edgetune.events import Event
from edgetune.records import RecordStore
from tests.boards.ssh_bench import Bench, opened
from tests.boards.ssh_server import SshBoard
from tests.bundle.bundle_sample import compiled, export, saved
from tests.bundle.gpu_bench import compiled_hold, give_gpu, held
from tests.distribution_sample import edgetune


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path / "user", monkeypatch) as bench:
        yield bench


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A bundle without results, and the stub of the driver."""
    folder = tmp_path_factory.mktemp("exported")
    export(folder / "bundle", candidates=1)
    return folder / "bundle", compiled(folder)[1]


@pytest.fixture
def bundle(exported: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle, on a machine with the stub and with nvidia-smi, which its boards have as well."""
    give_gpu(tmp_path, exported[1], monkeypatch)
    return Path(shutil.copytree(exported[0], tmp_path / "bundle"))


def behind_ssh(bench: Bench, board: SshBoard) -> BehindSsh:
    return BehindSsh(bench.reach(board), bench.events.append)


def results(bundle: Path) -> int:
    with RecordStore.open(bundle.parent / "r.db") as store:
        return import_bundle(bundle, store).imported


def warnings(events: list[Event]) -> str:
    return " | ".join(str(event.data["message"]) for event in events if event.kind == "warning")


@pytest.mark.long
@pytest.mark.nvcc
def test_this_machine_runs_a_round_and_tells_what_slowed_its_gpu(bundle: Path) -> None:
    events: list[Event] = []
    ThisMachine(events.append).run(bundle)
    assert results(bundle) == len(read_manifest(bundle)[0].candidates)
    said = warnings(events)
    assert "the GPU of this machine was slowed by heat in" in said
    assert "changed its clock from 1200 to 1980 MHz" in said
    assert "is shared with 1 other process:" in said
    assert "ECC" not in said


@pytest.mark.long
@pytest.mark.nvcc
def test_a_host_behind_ssh_runs_a_round_and_keeps_no_files(bundle: Path, bench: Bench) -> None:
    board = bench.board()
    behind_ssh(bench, board).run(bundle)
    assert results(bundle) == len(read_manifest(bundle)[0].candidates)
    assert "was slowed by heat in" in warnings(bench.events)
    assert board.files() == []
    assert board.left() == []


@pytest.mark.long
@pytest.mark.nvcc
def test_a_round_that_was_begun_goes_on_behind_ssh(bundle: Path, bench: Bench) -> None:
    ThisMachine(lambda _: None).run(bundle)
    whole = (bundle / RESULTS).read_bytes()
    first = whole[: whole.index(b"\n") + 1]
    (bundle / RESULTS).write_bytes(first)
    behind_ssh(bench, bench.board()).run(bundle)
    again = (bundle / RESULTS).read_bytes()
    assert again.startswith(first)
    assert again.count(b"\n") == whole.count(b"\n")


@pytest.mark.long
@pytest.mark.nvcc
def test_a_candidate_that_hangs_or_crashes_behind_ssh_is_a_result(
    bundle: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_FAULT", "crash")
    behind_ssh(bench, bench.board()).run(bundle)
    assert results(bundle) == len(read_manifest(bundle)[0].candidates)
    assert b" crashed " in (bundle / RESULTS).read_bytes()


@pytest.mark.long
@pytest.mark.nvcc
def test_the_reason_of_the_runner_behind_ssh_is_told(
    bundle: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_PART", "60")
    with pytest.raises(BoardUnfit, match=r"shelf-1: the candidates are for compute capability 7\.5"):
        behind_ssh(bench, bench.board()).run(bundle)


@pytest.mark.long
@pytest.mark.nvcc
def test_a_round_waits_for_the_lock_of_its_host(bundle: Path, bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    with held(board, tmp_path) as holder:
        waiting = BehindSsh(bench.reach(board), bench.events.append, lock_timeout_s=0.2)
        with pytest.raises(BoardBusy, match="board 'shelf-1' belongs to pi@attic: wait until that run ends"):
            waiting.run(bundle)
        assert not (bundle / RESULTS).exists()
        assert "waiting for pi@attic, which has the GPU of shelf-1" in warnings(bench.events)
        holder.kill()
        holder.wait()
        behind_ssh(bench, board).run(bundle)
    assert results(bundle) == len(read_manifest(bundle)[0].candidates)
    assert board.files() == []
    assert board.left() == []


def test_a_holder_ends_as_its_command_and_takes_it_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGETUNE_LOCK", f"edgetune-{tmp_path}"[-80:])
    hold = str(compiled_hold(tmp_path))

    def status(*words: str) -> int:
        return subprocess.run([hold, *words], check=False, stderr=subprocess.DEVNULL).returncode

    assert [status("me", "9", "sh", "-c", "exit 4"), status("me", "9", "no-such-program")] == [4, 127]
    assert status("me", "0.1", "sleep", "9") == 124
    assert status("me", "9", "sh", "-c", "kill -9 $$") == 137
    script = f"echo $$ >pid; {hold} you 9 true; echo $? >taken; exec sleep 60"
    with subprocess.Popen([hold, "me", "60", "sh", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE) as first:
        assert first.stderr is not None
        assert first.stderr.readline() == b"held: me\n"
        while not (tmp_path / "taken").exists() or not (tmp_path / "taken").read_text():
            time.sleep(0.01)
        first.kill()
    assert (tmp_path / "taken").read_text() == "75\n"
    command = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    while command.exists() and " Z " not in (command / "stat").read_text():
        time.sleep(0.01)
    assert status("me", "9", "true") == 0


@pytest.mark.parametrize(
    ("status", "said", "error", "sentence"),
    [
        (5, "noise\nbundle: plan.txt was changed\n", BundleInvalid, "plan.txt was changed"),
        (2, "", BundleInvalid, "the runner ended with status 2"),
        (127, "hold: ./runner cannot be started: Permission denied\n", BoardUnavailable, "./runner cannot be started"),
        (126, "sh: ./hold: Permission denied\n", BoardUnavailable, "the runner ended with status 126"),
        (137, "", BoardUnavailable, "the runner was killed by signal 9: look for lack of memory there"),
    ],
)
def test_what_is_wrong_with_a_host_is_not_said_of_the_bundle(
    status: int, said: str, error: type[EdgetuneError], sentence: str
) -> None:
    assert error_of(status) is error
    assert why_it_ended(status, said).startswith(sentence)


@pytest.mark.nvcc
def test_a_host_without_a_compiler_is_told(bundle: Path, bench: Bench) -> None:
    board = bench.board({"cc -O2 runner-files/*.c -o runner -ldl -lm": "missing"})
    with pytest.raises(ToolchainMissing, match="shelf-1 has no C compiler"):
        behind_ssh(bench, board).run(bundle)


@pytest.mark.long
@pytest.mark.nvcc
def test_tune_times_on_the_gpu_of_this_machine_without_carrying(bundle: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    saved(bundle.parent / "small.onnx", ["y = MatMul x w"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    words = ["tune", "small.onnx", "--board", "cuda-generic", "--trials", "2", "--db", "r.db", "-o", "out", "--json"]
    done = edgetune(words, cwd=bundle.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["waiting"], found["rounds"], found["measured_kernels"]) == (None, 1, 1), found
    assert "was slowed by heat in" in done.stderr


@pytest.mark.parametrize(
    ("samples", "others", "errors", "sentences"),
    [
        (None, None, None, ["is not watched, because nvidia-smi is not there"]),
        ("", "", "", ["is not watched, because nvidia-smi tells nothing"]),
        ("No devices\n1, 2\n", "", "", ["is not watched, because nvidia-smi tells nothing"]),
        ("1980, 1980, 50, 0x1\n210, 1980, 40, 0x1\n", "", "[N/A]", []),
        ("1980, 1980, 50, Active\n", "[Not Found]\n", "0", []),
        ("1900, 1980, 50, 0x4\n", "7\n8\n", "3", ["its power limit", "2 other processes", "had 3 memory errors"]),
        ("1e9999, inf, nan, 0xg\n", "-1\n", "1e400", []),
    ],
)
def test_what_nvidia_smi_says_is_judged(
    samples: str | None, others: str | None, errors: str | None, sentences: list[str]
) -> None:
    found = list(health_faults(samples, others, errors))
    assert len(found) == len(sentences), found
    for fault, sentence in zip(found, sentences, strict=True):
        assert sentence in fault
