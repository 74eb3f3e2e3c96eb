"""Rivals of kernels in packages of the whole model: who takes part, what is kept, and what it decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.api import tune
from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import DatabaseError, MemoryLimitExceeded
from edgetune.events import Event
from edgetune.graph.program import Kernel, Loop
from edgetune.pipeline import end_to_end_ranking
from edgetune.pipeline.compile_input import load
from edgetune.pipeline.end_to_end_ranking import MOST, RankingTerms, rivals, time_finalists, timed_apart
from edgetune.pipeline.in_model_cost import PackageContext, compared_first
from edgetune.pipeline.link import Choice
from edgetune.pipeline.select import choose
from edgetune.records import Record, RecordStore
from edgetune.target.target import Target
from edgetune.verify.bench import LayerTime
from tests.pipeline.test_select import kernel, program, record, target  # noqa: F401  fixtures among them
from tests.search.test_loop import timed

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


def test_kernels_of_loops_are_not_compared(kernel: Kernel) -> None:  # noqa: F811
    plain = program(kernel, 64)
    inside = replace(plain, loops=(Loop(0, len(plain.calls), 3, "loop"),))
    assert (timed_apart(plain), timed_apart(inside)) == (frozenset({0}), frozenset())


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
        compared(store, [(first, 3e5), (second, 2e5)], PackageContext("", threads))
        found = program(kernel, constant_bytes)
        (choice,) = choose(found, target, store, lambda _: None, threads=threads)
        (other,) = choose(found, target, store, lambda _: None, threads=threads + 1)
    assert (choice.trace == second.trace) == there
    assert ("fastest in a run of the package (200.00 us)" in choice.provenance.why) == there
    assert "in a run of the package" not in other.provenance.why, "that was for another number of threads"


def compared(store: RecordStore, pairs: Sequence[tuple[Record, float]], stage: PackageContext) -> None:
    for each, nanoseconds in pairs:
        store.add(stage.noted(each, nanoseconds, "once", len(pairs)))


def test_who_was_found_since_is_taken_if_clearly_faster_alone(
    kernel: Kernel,  # noqa: F811
    target: Target,  # noqa: F811
    tmp_path: Path,
) -> None:
    old, slow = record(kernel, target, 1e5, streamed=True), record(kernel, target, 1.1e5, streamed=True, sizes="7x1")
    new = record(kernel, target, 0.95e5, streamed=False)
    for nanoseconds, taken in ((0.95e5, old), (0.3e5, new)):
        with RecordStore.open(tmp_path / f"{nanoseconds}.db") as store:
            compared(store, [(old, 1.5e5), (slow, 1.6e5)], PackageContext("", 1))
            store.add(replace(new, **timed((nanoseconds,) * 3)))
            (choice,) = choose(program(kernel, LARGE), target, store, lambda _: None)
        assert choice.trace == taken.trace


def test_a_part_of_a_comparison_says_nothing(kernel: Kernel, target: Target) -> None:  # noqa: F811
    first, second = record(kernel, target, 1e5, streamed=False), record(kernel, target, 1.05e5, streamed=True)
    stage, other = PackageContext("ab" * 32, 1), PackageContext("cd" * 32, 1)
    both = [stage.noted(first, 3e5, "once", 2), stage.noted(second, 2e5, "once", 2)]
    assert compared_first(both, stage) == both[::-1]
    assert compared_first(both, other) == both, "another model"
    assert compared_first(both[:1], stage) == both[:1]
    mixed = [both[0], stage.noted(second, 2e5, "twice", 2)]
    assert compared_first(mixed, stage) == mixed, "halves of two comparisons"
    assert stage.noted(both[0], None).environment == first.environment
    slow = replace(second, **timed((0.5e5,) * 3))
    assert compared_first([*both, slow], stage)[0] == both[1], "fast alone, and expected to be slow in a package"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """A folder with a model, its records and its package for two threads, and the events."""
    folder = tmp_path_factory.mktemp("tuned")
    one = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)
    weights = [numpy_helper.from_array(one, "one"), numpy_helper.from_array(one.T.copy(), "two")]
    nodes = [helper.make_node("MatMul", ["x", "one"], ["h"]), helper.make_node("MatMul", ["h", "two"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [48, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    events: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(end_to_end_ranking, "_NEAR", 1e9)  # few candidates, timed beside other tests
        tune(settings_of(folder), events=events.append)
    return folder, events


def records_in(folder: Path) -> list[Record]:
    with RecordStore.open(folder / "db") as store:
        return [store.get(int(row["id"])) for row in store.list()]


def settings_of(folder: Path) -> Settings:
    flags = CommandLineFlags(
        model=folder / "m.onnx", board="host", out=folder / "out", db=folder / "db", threads=2, trials=24
    )
    return resolve_settings(flags, {}, folder)


@pytest.mark.long
def test_a_tune_for_threads_compares_in_packages(tuned: tuple[Path, list[Event]]) -> None:
    folder, events = tuned
    phases = [str(event.data["name"]) for event in events if event.kind == "phase"]
    assert any("packages with the best candidates of" in name for name in phases), phases
    stage = PackageContext(load(settings_of(folder)).program.model_sha256, 2)
    groups: dict[str, list[Record]] = {}
    for each in records_in(folder):
        groups.setdefault(each.workload_name, []).append(each)
    assert all(len(stage.compared(group)) != 1 for group in groups.values())
    assert any(stage.compared(group) for group in groups.values())


class Stand:
    """Stands in for packages and their benchmarks: layer `a` of package n takes `times[n]` us, then a little more."""

    def __init__(self, times: Sequence[float | Exception]) -> None:
        self.times = times
        self.made: list[str] = []
        self.runs = 0

    def make(self, choices: Sequence[Choice], folder: Path) -> None:
        self.made.append(choices[0].trace)
        folder.mkdir()
        error = self.times[int(folder.name)]
        if isinstance(error, Exception):
            raise error

    @contextmanager
    def benchmark_of(self, package: Path, *, target: Target) -> Iterator[Any]:  # noqa: F811
        assert target is not None
        least = self.times[int(package.name)]
        assert isinstance(least, float)

        def run(_runs: int, _seconds: float) -> list[LayerTime]:
            self.runs += 1
            return [LayerTime(0, "a", "product", 0, 2 * least, least + 1 / self.runs)]

        yield run


@dataclass
class Trial:
    """Three rivals of one kernel in a store, to be compared by benchmarks that are made up."""

    kernel: Kernel
    target: Target
    store: RecordStore
    events: list[Event] = field(default_factory=list)

    def records(self) -> list[Record]:
        return [self.store.get(int(row["id"])) for row in self.store.list()]

    def chosen(self) -> Choice:
        (choice,) = choose(program(self.kernel, LARGE), self.target, self.store, lambda _: None)
        return choice

    def noted(self) -> list[float | None]:
        return [PackageContext("", 1).ns(each) for each in self.records()]

    def rehearse(self, stand: Stand, seconds: float | None = None, rivals: int = 3) -> str:
        group = {0: self.records()[:rivals]}
        terms = RankingTerms(self.target, 1, seconds)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(end_to_end_ranking, "benchmark_of", stand.benchmark_of)
            found = program(self.kernel, LARGE)
            return time_finalists(found, group, [self.chosen()], stand.make, terms, self.store, self.events.append)


@pytest.fixture
def trial(kernel: Kernel, target: Target, tmp_path: Path) -> Iterator[Trial]:  # noqa: F811
    with RecordStore.open(tmp_path / "three.db") as store:
        for number, sizes in enumerate(("7x1", "1x4", "1x1")):
            store.add(record(kernel, target, 1e5 + number, streamed=True, sizes=sizes))
        yield Trial(kernel, target, store)


def test_the_least_of_all_sweeps_is_kept(trial: Trial) -> None:
    stand = Stand([30.0, 10.0, 20.0])
    assert trial.rehearse(stand) == "comparing 3 packages with the best candidates of 1 kernels"
    assert trial.events == []
    assert stand.made == [each.trace for each in trial.records()]
    assert stand.runs == 15
    assert trial.noted() == pytest.approx([1e3 * (t + 1 / (13 + n)) for n, t in enumerate((30.0, 10.0, 20.0))])
    assert trial.chosen().trace == trial.records()[1].trace
    trial.rehearse(Stand([30.0, 40.0]), rivals=2)
    assert [ns is None for ns in trial.noted()] == [False, False, True], "what was noted before is gone"


def test_a_package_that_does_not_fit_is_left_out(trial: Trial) -> None:
    told = trial.rehearse(Stand([30.0, MemoryLimitExceeded("too large"), 20.0]))
    assert told == "comparing 2 packages with the best candidates of 1 kernels"
    assert ["too large" in str(event.data["message"]) for event in trial.events] == [True]
    assert [ns is None for ns in trial.noted()] == [False, True, False]


def test_one_package_alone_is_no_comparison(trial: Trial) -> None:
    assert "no candidates compete" in trial.rehearse(Stand([30.0, 10.0, 20.0]), seconds=0.0)
    assert trial.noted() == [None] * 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "told", "goes_on"),
    [
        (OSError(28, "No space left on device"), "No space left", True),
        (DatabaseError("somebody pruned it"), "somebody pruned it", True),
        (KeyboardInterrupt(), "interrupted", False),
    ],
)
def test_what_goes_wrong_is_told_and_leaves_the_tune_its_package(
    tuned: tuple[Path, list[Event]], monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str, *, goes_on: bool
) -> None:
    folder, _ = tuned
    before = records_in(folder)

    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(end_to_end_ranking, "time_finalists", fail)
    events: list[Event] = []
    settings = settings_of(folder)
    with RecordStore.open(folder / "db") as store:
        assert end_to_end_ranking.rank_end_to_end(load(settings), settings, store, events.append) == goes_on
    assert [event.kind for event in events] == ["phase", "warning"]
    assert told in str(events[1].data["message"])
    assert records_in(folder) == before
