"""A new code generator takes over what an older one's records still say, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tvm import te

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.program import Kernel
from edgetune.records import Record, RecordStore
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.source import make_source
from edgetune.search.migrate import carry_over, known_to_older, record_key, still_valid
from edgetune.target.target import Target, load_target
from tests.search.test_loop import timed

OLDER = 1
"""A code generator before today's."""


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("generic-x86_64")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    x = te.placeholder((64, 64), name="x")
    return kernel_from_te([x, te.compute((64, 64), lambda i, j: x[i, j] * 2.0, name="y")])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore.open(tmp_path / "db") as opened:
        yield opened


def record(kernel: Kernel, target: Target, *, same: bool, version: int = OLDER, **changes: Any) -> Record:
    """What an older version measured of the fixed schedule: the `same` text as today's, or other text."""
    key = record_key(kernel, target)
    trace = default_trace(kernel.function, target, 0)[0]
    text = make_source(kernel_spec(kernel, 0), trace, target).unit if same else f"other text {changes}"
    values: dict[str, Any] = {
        "workload": key.workload, "workload_name": "twice", "target": "t", "target_fingerprint": key.target_fingerprint,
        "toolchain": key.toolchain, "codegen_version": version, "board": "b", "status": "ok", "tool_version": "1",
        "candidate": hashlib.sha256(text.encode()).hexdigest(), "trace": trace, **timed((1000.0,) * 3),
    }  # fmt: skip
    return Record(**(values | changes))


def test_what_gives_the_same_text_holds_under_todays_key(kernel: Kernel, target: Target, store: RecordStore) -> None:
    old = record(kernel, target, same=True)
    store.add(old)
    assert known_to_older([kernel, kernel], target, store) == [kernel]
    assert carry_over([kernel, kernel], target, store) == 1
    assert not known_to_older([kernel], target, store)
    (carried,) = store.best(record_key(kernel, target))
    assert (carried.candidate, carried.samples_ns, carried.created_utc) == (
        old.candidate,
        old.samples_ns,
        old.created_utc,
    )
    assert carried.environment["codegen_version"] == OLDER
    assert carry_over([kernel], target, store) == 0, "it was carried twice"


def test_other_text_is_not_carried(kernel: Kernel, target: Target, store: RecordStore) -> None:
    store.add(record(kernel, target, same=False))
    assert carry_over([kernel], target, store) == 0
    assert not store.best(record_key(kernel, target))


@pytest.mark.parametrize(
    "changes",
    [
        {"target_fingerprint": "another"},
        {"toolchain": "another"},
        {"status": "crashed", "samples_ns": (), "median_ns": None, "ci_low_ns": None, "ci_high_ns": None},
        {"trace": '["no trace"]'},
    ],
)
def test_what_is_not_comparable_is_not_carried(
    kernel: Kernel, target: Target, store: RecordStore, changes: dict[str, Any]
) -> None:
    store.add(record(kernel, target, same=True, **changes))
    assert not [*still_valid(kernel, target, store)]


def test_todays_own_records_count_alone(kernel: Kernel, target: Target, store: RecordStore) -> None:
    store.add(record(kernel, target, same=True))
    today = record_key(kernel, target).codegen_version
    store.add(record(kernel, target, same=False, version=today))
    assert not [*still_valid(kernel, target, store)]


def test_a_failure_of_today_hides_nothing(kernel: Kernel, target: Target, store: RecordStore) -> None:
    store.add(record(kernel, target, same=True))
    today = record_key(kernel, target).codegen_version
    failed = {"status": "crashed", "samples_ns": (), "median_ns": None, "ci_low_ns": None, "ci_high_ns": None}
    store.add(record(kernel, target, same=False, version=today, **failed))
    assert carry_over([kernel], target, store) == 1


def test_one_candidate_of_two_older_versions_is_carried_once(
    kernel: Kernel, target: Target, store: RecordStore
) -> None:
    store.add(record(kernel, target, same=True, version=0, **timed((2000.0,) * 3)))
    store.add(record(kernel, target, same=True))
    assert [one.median_ns for one in still_valid(kernel, target, store)] == [1000.0]


def test_many_other_texts_end_the_look(kernel: Kernel, target: Target, store: RecordStore) -> None:
    for number in range(3):
        store.add(record(kernel, target, same=False, **timed((100.0 + number,) * 3)))
    store.add(record(kernel, target, same=True))
    assert not [*still_valid(kernel, target, store)], "the slowest was looked at though the fastest have all changed"
