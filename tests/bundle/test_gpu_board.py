"""A GPU behind SSH as a board of boards.yaml: added, listed, checked and tuned on by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.boards import gpu_check
from edgetune.boards.gpu_check import findings
from edgetune.bundle.gpu_host import check_via
from edgetune.config.boards_file import boards_path
from edgetune.config.settings import CommandLineFlags
from edgetune.errors import BoardUnavailable, BoardUnfit, EdgetuneError, ToolchainMissing, UsageError
from edgetune.pipeline.boards import add_board, check, list_addresses, load_board, resolve_settings
from tests.boards.ssh_bench import Bench, opened
from tests.bundle.bundle_sample import MODEL, compiled, saved
from tests.bundle.gpu_bench import give_gpu
from tests.cuda.cpu_check import gpu
from tests.distribution_sample import edgetune

COMPILER = "compiler /usr/bin/cc\n"
GOOD = f"device /dev/nvidia0\n{COMPILER}smi\ngpu Stub GPU, 7.5, 580.1\nerrors 0\nsample 1980, 1980, 61, 0x0\nend\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path / "user", monkeypatch) as bench:
        yield bench


def add(bench: Bench, **more: object) -> Path:
    """Add lab-gpu, a new board; returns the folder for its files."""
    board = bench.board()
    address = {"name": "lab-gpu", "target": "cuda-generic", "ssh": f"pi@127.0.0.1:{board.port}"}
    add_board({**address, "folder": board.folders[0], **more})
    return Path(board.folders[0])


@pytest.mark.long
@pytest.mark.nvcc
def test_a_gpu_behind_ssh_is_added_checked_and_tuned_on_by_its_name(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_gpu(tmp_path, compiled(tmp_path)[1], monkeypatch)
    folder = add(bench)
    board = bench.boards[0]
    assert [(each.name, each.target, each.rpc) for each in list_addresses()] == [("lab-gpu", "cuda-generic", "gpu")]
    found = {one.check: one for one in check(load_board("lab-gpu")) if one.board == "lab-gpu"}
    assert found["GPU"].detail == "Stub GPU, compute capability 7.5, driver 580.1"
    assert found["GPU health"].detail == "its GPU is shared with 1 other process"
    assert not any(one.required for one in found.values() if not one.ok)
    weights = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    saved(tmp_path / "small.onnx", ["y = MatMul x w"], [("y", onnx.TensorProto.FLOAT)], w=weights)
    monkeypatch.delenv("EDGETUNE_CUDA_DRIVER")  # this machine has no GPU
    words = ["tune", "small.onnx", "--board", "lab-gpu", "--trials", "2", "--db", "r.db", "-o", "out", "--json"]
    done = edgetune(words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["waiting"], told["rounds"], told["measured_kernels"]) == (None, 1, 1), told
    assert "the GPU of lab-gpu was slowed by heat" in done.stderr
    assert any("./hold " in command for command in board.commands)
    assert list(folder.iterdir()) == []
    assert board.left() == []


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"cores": (1,)}, "--cores has no effect on a GPU: leave it out"),
        ({"reboot": "sudo reboot"}, "--reboot has no effect on a GPU, whose host is not recovered"),
        ({"rpc": "agent"}, "--rpc is 'agent', which times no candidates of 'cuda-generic': leave it out"),
        ({"target": "rpi4", "rpc": "gpu"}, "--rpc is 'gpu', which times no candidates of 'rpi4': leave it out"),
        ({"target": "mps2-an500"}, "--target mps2-an500 needs no address"),
    ],
)
def test_keys_that_do_nothing_on_a_gpu_are_refused(bench: Bench, more: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        add(bench, **more)
    assert not boards_path().exists()


def test_of_several_gpus_one_is_named_and_a_way_that_is_given_needs_none(bench: Bench, tmp_path: Path) -> None:
    add(bench)
    add(bench, name="lab-2")
    settings = resolve_settings(CommandLineFlags(model=MODEL, board="cuda-generic", trials=2), {}, tmp_path)
    with pytest.raises(UsageError, match="'cuda-generic' has several boards: give one of lab-2, lab-gpu"):
        check_via(settings, None)
    check_via(settings, "bundle")
    check_via(settings, "pi@elsewhere")


def test_a_transport_that_times_no_rounds_is_refused(bench: Bench, tmp_path: Path) -> None:
    add(bench)
    ours, other = (
        resolve_settings(CommandLineFlags(model=MODEL, board="lab-gpu", trials=2, rpc=rpc), {}, tmp_path)
        for rpc in ("gpu", "tvm")
    )
    check_via(ours, None)
    with pytest.raises(UsageError, match="--rpc tvm times no candidates of 'cuda-generic': leave it out"):
        check_via(other, None)


@pytest.mark.parametrize(
    ("change", "check", "sentence", "error"),
    [
        (("", ""), "GPU", "Stub GPU, compute capability 7.5, driver 580.1", None),
        (("7.5", "8.9"), "GPU", "compute capability 8.9, driver 580.1: 'cuda-generic' needs 7.5, or a", BoardUnfit),
        (("7.5", "7.0"), "GPU", "'cuda-generic' needs 7.5", BoardUnfit),
        (("gpu Stub GPU, 7.5, 580.1\n", ""), "GPU", "/dev/nvidia0; the first round shows its compute", None),
        (
            (f"device /dev/nvidia0\n{COMPILER}smi\ngpu Stub GPU, 7.5, 580.1\n", "smi\n"),
            "GPU",
            "no NVIDIA GPU",
            BoardUnavailable,
        ),
        (("smi\ngpu Stub GPU, 7.5, 580.1\n", ""), "GPU health", "nvidia-smi is not there", None),
        (("errors 0", "errors 3"), "GPU health", "its GPU had 3 memory errors", None),
        (("0x0", "0x20"), "GPU health", "was slowed by heat in 1 of 1 samples (up to 61 degrees)", None),
        (("", ""), "GPU health", "1980 MHz of 1980, 61 degrees; no limit slows it", None),
        ((COMPILER, ""), "C compiler", "there is none for the runner", ToolchainMissing),
        (("errors", "lock\nerrors"), "lock", "another run measures on it now", None),
        (("", ""), "lock", "no other run measures on it", None),
    ],
)
def test_what_a_host_says_of_its_gpu_is_judged(
    change: tuple[str, str], check: str, sentence: str, error: type[EdgetuneError] | None
) -> None:
    text = GOOD.replace(*change) if change[0] else GOOD
    found = [one for one in findings(text, gpu()) if one.check == check]
    assert len(found) == 1, found
    assert sentence in found[0].detail
    assert (found[0].exit_code if found[0].required else None) == (error.exit_code if error else None)
    assert found[0].ok is (not found[0].fix)


def test_a_host_without_gpu_is_a_fault_and_nothing_else_is_told() -> None:
    found = list(findings("compiler /usr/bin/cc\nend\n", gpu()))
    assert [(one.check, one.required, one.exit_code) for one in found] == [("GPU", True, BoardUnavailable.exit_code)]


def test_a_host_whose_driver_is_missing_is_told(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpu(tmp_path, tmp_path / "no-such-driver", monkeypatch)
    (tmp_path / "programs/nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    monkeypatch.setattr(gpu_check, "DEVICES", "/dev/no-such-gpu")
    add(bench)
    found = [one for one in check(load_board("lab-gpu")) if one.board == "lab-gpu" and not one.ok]
    assert [one.check for one in found] == ["GPU"], found
