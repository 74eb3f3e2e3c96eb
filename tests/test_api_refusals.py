"""What the library calls refuse before they start: nothing is dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune import api
from edgetune.config.settings import Flags, resolve_settings
from edgetune.errors import MemoryLimitExceeded

AD_AE = Path(__file__).parents[1] / "examples/models/ad_ae.onnx"


def test_a_model_over_its_memory_limit_is_refused_by_the_tensors_that_need_most(tmp_path: Path) -> None:
    (tmp_path / "edgetune.yaml").write_text(f"model: {AD_AE}\nboards: [host]\nmemory:\n  ram: 512B\n")
    flags = Flags(out=tmp_path / "out", db=tmp_path / "records.db")
    with pytest.raises(MemoryLimitExceeded, match=r"arena of 1024 bytes.*matmul_add_relu 1x128 of 512 bytes"):
        api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_the_memory_limit_counts_what_threads_need(tmp_path: Path) -> None:
    flags = Flags(model=AD_AE, board="host", out=tmp_path / "out", db=tmp_path / "records.db", threads=2)
    with pytest.raises(
        MemoryLimitExceeded, match=r"needs \d+ bytes for its arena and 2 threads, and the limit is 1024"
    ):
        api.build(resolve_settings(flags, {"EDGETUNE_RAM": "1024B"}, tmp_path), events=lambda _: None)
