"""Candidates that the driver refuses: each is a result with a reason, and the others are timed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetune.bundle.import_results import import_bundle
from edgetune.bundle.manifest import RESULTS
from edgetune.bundle.running import run_bundle
from edgetune.records import RecordStore
from tests.bundle.bundle_sample import compiled, environment, export

TOO_MUCH = 200_000  # bytes of shared memory of a block, of which the stub has 64 KiB


@pytest.fixture
def place(tmp_path: Path) -> Path:
    export(tmp_path / "sent")
    return tmp_path


def reasons(lines: Sequence[str]) -> set[str]:
    """Status and words of results that are not ok; there is at least one that is."""
    fields = [line.split(" ", 6) for line in lines]
    assert any(field[2] == "ok" for field in fields)
    return {f"{field[2]}: {field[6]}" for field in fields if field[2] != "ok"}


@pytest.mark.long
@pytest.mark.nvcc
def test_a_cubin_without_code_for_the_gpu_leaves_the_others_unharmed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(compiled(place)[1]))
    monkeypatch.setenv("STUB_FAULT", "arch")
    run_bundle(place / "sent")
    lines = (place / "sent" / RESULTS).read_text().splitlines()
    said = "loading the cubin (does it hold this architecture?) failed with CUDA error 209"
    assert reasons(lines) == {f"crashed: {said}"}
    with RecordStore.open(place / "records.db") as store:
        assert import_bundle(place / "sent", store).imported == len(lines)
        assert {row["status"] for row in store.list()} == {"ok", "crashed"}


@pytest.mark.long
@pytest.mark.nvcc
def test_too_much_shared_memory_leaves_the_others_unharmed(place: Path) -> None:
    plan = place / "sent/plan.txt"
    grid_and_block = r"^(launch \S+(?: [0-9]+){6}) [0-9]+ "
    plan.write_text(re.sub(grid_and_block, rf"\1 {TOO_MUCH} ", plan.read_text(), count=1, flags=re.MULTILINE))
    runner, stub = compiled(place)
    subprocess.run([str(runner), str(place / "sent")], env=environment(stub), check=True)
    lines = (place / "sent" / RESULTS).read_text().splitlines()
    assert reasons(lines) == {"crashed: asking for shared memory failed with CUDA error 1"}
