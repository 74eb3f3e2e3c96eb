"""The benchmark of threads: its driver runs both instances of a package and reports pairs and layers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import threads
from benchmarks.threads import compare, cores_for
from tests import package_sample, threads_sample


@pytest.mark.long
@pytest.mark.parametrize("layers", [0, 2])
def test_a_package_for_threads_is_compared_with_itself_on_one(layers: int, tmp_path: Path) -> None:
    threads_sample.emit(tmp_path / "tiny")
    found = compare(tmp_path / "tiny", 5, layers)
    assert found.threads == threads_sample.WORKERS
    assert 1 <= len(found.cores) <= found.threads
    assert 0 < found.lower <= found.ratio <= found.upper
    assert min(found.one_us, found.all_us) > 0
    assert 0 <= found.calm <= found.pairs == 5
    assert (found.calm_ratio is None) == (found.calm == 0)
    assert min(found.least_ratio, found.apart_ratio) > 0
    assert len(found.layers) == layers
    assert all(min(layer.one_us, layer.all_us) > 0 for layer in found.layers)


def test_a_package_for_one_thread_is_refused(tmp_path: Path) -> None:
    package_sample.emit(tmp_path / "tiny")
    with pytest.raises(SystemExit, match="--threads 2"):
        compare(tmp_path / "tiny", 5, 0)


def test_threads_are_on_cores_of_their_own_where_there_are_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        (tmp_path / str(number)).write_text(f"{number // 2 * 2},{number // 2 * 2 + 1}\n")
    monkeypatch.setattr(threads, "_SIBLINGS", str(tmp_path / "{}"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 4, 5, 7, 9})
    assert cores_for(2) == (2, 4)
    assert cores_for(4) == (2, 4, 7, 9)
    assert cores_for(5) == (2, 3, 4, 7, 9)
    assert cores_for(16) == (2, 3, 4, 5, 7, 9)


def test_a_pair_is_undisturbed_where_each_core_does_what_it_does_alone() -> None:
    widths = [[3.3, 2.0], [3.2, 1.9], [1.9, 2.0], [3.3, 1.2], [3.1, 1.95]]
    assert threads._undisturbed(widths) == [True, True, False, False, True]
