"""Rivals of kernels in packages of the whole model: who takes part, what is kept, and what it decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.api import tune
from edgetune.choosing import choose
from edgetune.config.settings import Flags, Settings, resolve_settings
from edgetune.config.target import Target
from edgetune.errors import CompileFailed
from edgetune.events import Event
from edgetune.graph.program import Kernel
from edgetune.in_package import in_package_fact, in_package_ns
from edgetune.rehearsal import MOST, Rehearsal, rehearse, rivals
from edgetune.subject import load
from edgetune.tuning.records import Record, RecordStore
from tests.test_choosing import kernel, program, record, target  # noqa: F401  fixtures among them
from tests.test_tuning_loop import timed

LARGE = 1 << 24


def slower(of: Record, times: float, trace: str = "") -> Record:
    candidate = f"{int(1000 * times):064x}"
    return replace(of, candidate=candidate, trace=trace or of.trace, **timed((1e5 * times,) * 3))


@pytest.fixture
def fastest(kernel: Kernel, target: Target) -> Record:  # noqa: F811
    found = record(kernel, target, 1e5, streamed=False)
    return replace(found, trace=found.trace.replace("edgetune_near_lines", "edgetune_nothing"))


def test_the_fastest_and_one_of_each_kind_are_rivals(fastest: Record) -> None:
    asking = slower(fastest, 1.25, trace=record_text(fastest, "edgetune_prefetch"))
    again = slower(fastest, 1.26, trace=record_text(fastest, "edgetune_prefetch"))
    near = slower(fastest, 1.28, trace=record_text(fastest, "edgetune_near_lines"))
    far = slower(fastest, 1.4, trace=record_text(fastest, "edgetune_epilogue_lines"))
    plain = [slower(fastest, 1 + n / 100) for n in range(1, 9)]
    found = rivals([fastest, *plain, asking, again, near, far])
    assert found == [fastest, *plain[:2], asking, near, plain[2]]
    assert len(found) == MOST
    assert rivals([]) == []


def record_text(of: Record, annotation: str) -> str:
    return of.trace.replace("[]", f'["{annotation}"]', 1)


@pytest.mark.parametrize(
    ("constant_bytes", "threads", "there"), [(LARGE, 1, True), (1 << 10, 1, False), (1 << 10, 2, True)]
)
def test_what_was_fastest_in_a_package_is_taken_where_that_says_more(
    kernel: Kernel,  # noqa: F811
    target: Target,  # noqa: F811
    tmp_path: Path,
    constant_bytes: int,
    threads: int,
    *,
    there: bool,
) -> None:
    first = record(kernel, target, 1e5, streamed=False, sizes="")
    second = record(kernel, target, 1.05e5, streamed=True)
    with RecordStore.open(tmp_path / "db") as store:
        store.add(noted(first, 3e5, threads))
        store.add(noted(second, 2e5, threads))
        found = program(kernel, constant_bytes)
        (choice,) = choose(found, target, store, lambda _: None, threads=threads)
        (other,) = choose(found, target, store, lambda _: None, threads=threads + 1)
    assert (choice.trace == second.trace) == there
    assert ("fastest in a run of the package (200.00 us)" in choice.provenance.why) == there
    assert "in a run of the package" not in other.provenance.why, "that was for another number of threads"


def noted(of: Record, nanoseconds: float, threads: int) -> Record:
    return replace(of, environment={**of.environment, in_package_fact(threads): nanoseconds})


def test_who_was_found_since_is_taken_if_clearly_faster_alone(
    kernel: Kernel,  # noqa: F811
    target: Target,  # noqa: F811
    tmp_path: Path,
) -> None:
    old, new = record(kernel, target, 1e5, streamed=True), record(kernel, target, 0.95e5, streamed=False)
    for nanoseconds, taken in ((0.95e5, old), (0.5e5, new)):
        with RecordStore.open(tmp_path / f"{nanoseconds}.db") as store:
            store.add(noted(old, 1.5e5, 1))
            store.add(replace(new, **timed((nanoseconds,) * 3)))
            (choice,) = choose(program(kernel, LARGE), target, store, lambda _: None)
        assert choice.trace == taken.trace


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """A folder with a model, its records and its package for two threads, and what was told."""
    folder = tmp_path_factory.mktemp("tuned")
    one = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)
    weights = [numpy_helper.from_array(one, "one"), numpy_helper.from_array(one.T.copy(), "two")]
    nodes = [helper.make_node("MatMul", ["x", "one"], ["h"]), helper.make_node("MatMul", ["h", "two"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [48, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    events: list[Event] = []
    tune(settings_of(folder), events=events.append)
    return folder, events


def records_in(folder: Path) -> list[Record]:
    with RecordStore.open(folder / "db") as store:
        return [store.get(int(row["id"])) for row in store.list()]


def settings_of(folder: Path) -> Settings:
    flags = Flags(model=folder / "m.onnx", board="host", out=folder / "out", db=folder / "db", threads=2, trials=24)
    return resolve_settings(flags, {}, folder)


def test_a_tune_for_threads_compares_in_packages(tuned: tuple[Path, list[Event]]) -> None:
    folder, events = tuned
    phases = [str(event.data["name"]) for event in events if event.kind == "phase"]
    assert any("packages with rivals of" in name for name in phases), phases
    there = [r for r in records_in(folder) if in_package_ns(r, 2) is not None]
    assert there
    assert all(r.status == "ok" for r in there)
    manifest = json.loads((folder / "out" / "MANIFEST.json").read_text())
    chosen = {each["name"]: each["provenance"]["record"] for each in manifest["kernels"]}
    for name in {each.workload_name for each in there}:
        best = min((r for r in there if r.workload_name == name), key=lambda r: in_package_ns(r, 2) or 0.0)
        assert chosen[name] == best.candidate[:16]


@pytest.mark.parametrize(
    ("error", "told"), [(CompileFailed("no compiler today"), "no compiler today"), (KeyboardInterrupt(), "interrupted")]
)
def test_what_goes_wrong_is_told_and_decides_nothing(
    tuned: tuple[Path, list[Event]], error: BaseException, told: str
) -> None:
    folder, _ = tuned
    settings = settings_of(folder)
    found = load(settings).program
    events: list[Event] = []

    def make(_choices: object, _folder: Path) -> None:
        raise error

    before = records_in(folder)
    with RecordStore.open(folder / "db") as store:
        choices = choose(found, settings.target, store, lambda _: None)
        group = [r for r in before if r.status == "ok"][:2]
        rehearse(found, {0: group}, choices, make, Rehearsal(settings.target), store, events.append)
    assert records_in(folder) == before
    (event,) = events
    assert event.kind == "warning"
    assert told in str(event.data["message"])
