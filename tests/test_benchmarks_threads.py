"""The benchmark of threads: its driver runs both instances of a package and tells pairs and layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.threads import compare
from tests import package_sample, threads_sample


@pytest.mark.parametrize("layers", [0, 2])
def test_a_package_for_threads_is_compared_with_itself_on_one(layers: int, tmp_path: Path) -> None:
    threads_sample.emit(tmp_path / "tiny")
    found = compare(tmp_path / "tiny", 5, layers)
    assert found.threads == threads_sample.WORKERS
    assert 0 < found.lower <= found.ratio <= found.upper
    assert min(found.one_us, found.all_us) > 0
    assert 0 <= found.calm <= found.pairs == 5
    assert (found.calm_ratio is None) == (found.calm == 0)
    assert found.least_ratio > 0
    assert len(found.layers) == layers
    assert all(min(layer.one_us, layer.all_us) > 0 for layer in found.layers)


def test_a_package_for_one_thread_is_refused(tmp_path: Path) -> None:
    package_sample.emit(tmp_path / "tiny")
    with pytest.raises(SystemExit, match="--threads 2"):
        compare(tmp_path / "tiny", 5, 0)
