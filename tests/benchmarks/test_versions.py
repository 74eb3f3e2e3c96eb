"""The comparison of versions of a package in one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.versions import change, compare
from edgetune.package.manifest import read_manifest
from edgetune.package.provenance import KernelProvenance
from tests import package_sample, threads_sample


@pytest.mark.long
@pytest.mark.parametrize(("emit", "threads"), [(package_sample.emit, 1), (threads_sample.emit, threads_sample.WORKERS)])
def test_versions_are_timed_on_one_thread_and_on_all(
    emit: Callable[[Path], object], threads: int, tmp_path: Path
) -> None:
    for name in ("before", "after"):
        emit(tmp_path / name)
    allowed = os.sched_getaffinity(0)
    found = compare([tmp_path / "before", tmp_path / "after"], 5, 1)
    assert os.sched_getaffinity(0) == allowed
    assert [version.package for version in found] == [str(tmp_path / "before"), str(tmp_path / "after")]
    assert {version.threads for version in found} == {threads}
    assert all(min(version.one_us, version.all_us, version.ratio) > 0 for version in found)
    assert found[0].one == found[0].all == change(np.ones(5), 1)
    assert all((version.one == version.all) == (version.threads == 1) for version in found[1:])


def test_what_is_twice_as_slow_in_every_round_is_told_so() -> None:
    found = change(np.full(9, 2.0), 1)
    assert (found.share, found.error) == (1.0, 0.0)
    assert change(np.random.default_rng(0).normal(1, 0.1, 400), 1).error == pytest.approx(0.1 * 1.2533 / 20, rel=0.3)


def test_packages_with_other_interfaces_are_refused(tmp_path: Path) -> None:
    package_sample.emit(tmp_path / "one")
    threads_sample.emit(tmp_path / "several")
    with pytest.raises(SystemExit, match="different interfaces"):
        compare([tmp_path / "one", tmp_path / "several"], 5, 1)


def test_packages_of_the_same_tensors_are_compared_whatever_their_fingerprints(tmp_path: Path) -> None:
    folders = [tmp_path / "then", tmp_path / "now"]
    for folder, scratch in zip(folders, (0, 64), strict=True):
        package_sample.emit(folder, scratch=scratch, measure=False)
    assert len({read_manifest(folder)["abi"] for folder in folders}) == 2
    assert [version.package for version in compare(folders, 3, 1)] == [str(folder) for folder in folders]


def test_twins_may_have_other_types(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("float", "bytes")]
    for folder, dtype in zip(folders, ("float32", "int8"), strict=True):
        model, made, cases = package_sample.copies([(dtype, (2, 3))])
        origins = [KernelProvenance("33" * 32, "fixed")]
        package_sample.write(package_sample.compiled(model, made, origins), cases, folder, measure=False)
    with pytest.raises(SystemExit, match="different interfaces"):
        compare(folders, 3, 1)
    assert len(compare(folders, 3, 1, twins=True)) == 2
