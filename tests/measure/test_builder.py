"""Two build workers, one program: what one of them makes too much of is no second result, file or process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgetune.errors import ConfigError
from edgetune.measure import builder
from edgetune.measure.build_worker import BuildPolicy, BuildWorker, WorkerSetup
from edgetune.measure.builder import BuildPool
from edgetune.measure.compiler import builder_of, toolchain_of
from edgetune.measure.jobs import BuildJob, CandidateBuild, ReferenceJob
from edgetune.target.target import load_target
from tests import measure_steps

ENDS_S = 120.0  # nothing here takes more than some seconds beyond the workers' imports


@contextmanager
def opened(folder: Path, workers: int) -> Iterator[BuildPool]:
    target = load_target("host")
    pool = BuildPool(
        folder,
        target,
        toolchain_of(target),
        BuildPolicy("tests.measure_steps:make_source", "tests.measure_steps:make_case"),
        workers=workers,
    )
    try:
        pool.register(measure_steps.spec())
        pool.submit(ReferenceJob("k", 0, {}))
        drain(pool)
        yield pool
    finally:
        pool.close()


def drain(pool: BuildPool) -> list[CandidateBuild]:
    found: list[CandidateBuild] = []
    ends = time.monotonic() + ENDS_S
    while pool.outstanding:
        assert time.monotonic() < ends, "the pool hangs"
        found += [result for result in pool.poll(0.1) if isinstance(result, CandidateBuild)]
    return found


def twice(pool: BuildPool, trace: str) -> list[CandidateBuild]:
    """One program under two names, given out before either is done: with two workers, each builds it."""
    for name in ("a", "b"):
        pool.submit(BuildJob(name, "k", trace))
    return drain(pool)


def test_an_unknown_backend_is_the_fault_of_the_target() -> None:
    target = load_target("host").model_copy(update={"backend": "c-lane"})
    with pytest.raises(ConfigError, match="target 'host' has an unknown backend 'c-lane'"):
        builder_of(target)
    setup = WorkerSetup(Path(), target, toolchain_of(target), BuildPolicy("no:step", "no:step"), None)
    with pytest.raises(ConfigError, match="target 'host' has an unknown backend 'c-lane'"):
        BuildWorker(setup, print)


@pytest.mark.long
def test_a_program_that_two_workers_built_leaves_the_files_of_one(tmp_path: Path) -> None:
    with opened(tmp_path, 2) as pool:
        results = twice(pool, measure_steps.trace())
        assert sorted(result.status for result in results) == ["built", "duplicate"]
        (kept,) = [result.library for result in results if result.library is not None]
        assert [kept.parent] == list((tmp_path / "candidates").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_over_its_scratch_limit_is_refused_once(tmp_path: Path, workers: int) -> None:
    with opened(tmp_path, workers) as pool:
        results = twice(pool, measure_steps.trace(scratch=5000))
        assert sorted(result.status for result in results) == ["duplicate", "over_scratch"]
        assert len({result.candidate_id for result in results}) == 1
        pool.submit(BuildJob("again", "k", measure_steps.trace(scratch=5000), again=True))
        assert [result.status for result in drain(pool)] == ["over_scratch"]


DEEP = "volatile float row[%d]; for (int i = 0; i < 1000; ++i) { row[i] = a[i]; out[i] = 2.0f * row[i] + w[i]; }"


@pytest.mark.parametrize(("floats", "status"), [(1000, "built"), (1100, "build_failed")])
def test_a_program_with_a_large_stack_frame_is_refused(tmp_path: Path, floats: int, status: str) -> None:
    with opened(tmp_path, 1) as pool:
        pool.submit(BuildJob("deep", "k", measure_steps.trace(DEEP % floats)))
        (result,) = drain(pool)
    assert result.status == status
    assert ("is larger than 4096 bytes" in result.reason) == (status == "build_failed")


def test_a_compiler_that_has_ended_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By then its number may be that of another program."""
    killed: list[int] = []
    monkeypatch.setattr(builder, "kill_group", killed.append)
    with opened(tmp_path, 1) as pool:
        pool.submit(BuildJob("a", "k", measure_steps.trace()))
        assert [result.status for result in drain(pool)] == ["built"]
    assert killed == []
