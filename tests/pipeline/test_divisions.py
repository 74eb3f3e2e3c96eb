"""One kernel or several: measured sums decide, and the trials of every division count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tvm import te, topi

from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import KernelFailed
from edgetune.events import Event
from edgetune.frontend.tensor_expression.format import TensorExpression
from edgetune.graph.program import Program
from edgetune.pipeline.compile_input import CompileInput, Events
from edgetune.pipeline.divisions import fastest_division, search_divisions
from edgetune.pipeline.model_formats import read_model
from edgetune.records import RecordStore
from edgetune.rewrites.program import decided
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TaskOutcome, TuneOutcome
from edgetune.target.target import with_cpu
from tests.flags_sample import write_model
from tests.pipeline.test_select import record


def scores(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 64), "k")
    product = te.compute((32, 48), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), "product")
    return topi.nn.softmax(product)


@pytest.fixture(scope="module")
def subject() -> CompileInput:
    inputs = {"x": ((32, 64), "float32"), "y": ((64, 48), "float32")}
    model = read_model(TensorExpression(scores, inputs, {}, "scores"))
    return CompileInput(decided(model.program()), (), "", {}, "scores.te", model)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write_model(tmp_path / "m.onnx")
    flags = CommandLineFlags(model=tmp_path / "m.onnx", board="generic-x86_64", db=tmp_path / "db")
    return resolve_settings(flags, {}, tmp_path)


def timed(program: Program, settings: Settings, store: RecordStore, median_ns: float) -> None:
    for kernel in program.kernels:
        store.add(record(kernel, with_cpu(settings.target), median_ns, streamed=False))


@pytest.mark.long
@pytest.mark.parametrize(("whole_ns", "kernels"), [(1.9e5, 1), (2.1e5, 2)])
def test_the_division_whose_times_add_up_to_less_is_built(
    subject: CompileInput, settings: Settings, whole_ns: float, kernels: int
) -> None:
    (whole,) = subject.program.divisions
    with RecordStore.open(settings.db) as store:
        timed(subject.program, settings, store, 1e5)
        timed(whole, settings, store, whole_ns)
        assert len(fastest_division(subject, settings, store).program.kernels) == kernels


@pytest.mark.parametrize("known", [0, 1])
def test_the_division_that_was_measured_is_built(subject: CompileInput, settings: Settings, known: int) -> None:
    """A database of an earlier version knows kernels as they were before a pass that is new."""
    with RecordStore.open(settings.db) as store:
        programs = (subject.program, *subject.program.divisions)
        timed(programs[known], settings, store, 1.0)
        assert fastest_division(subject, settings, store).program is programs[known]


def test_without_records_the_first_division_is_built(subject: CompileInput, settings: Settings) -> None:
    with RecordStore.open(settings.db) as store:
        assert fastest_division(subject, settings, store).program is subject.program


def outcome(program: Program, records: int, *, interrupted: bool = False) -> TuneOutcome:
    """The outcome of a search that has so many records of all kernels together."""
    share = records // len(program.kernels)
    tasks = tuple(
        TaskOutcome(one.workload, one.name, one.weight, None, None, share, 1, "budget") for one in program.kernels
    )
    boards = {"b": {"candidates": records, "lost": 1, "quarantined": "", "trust": {"A": records}}}
    return TuneOutcome(tasks, records, records, {}, 0, 1.0, {"timing": 0.5}, interrupted=interrupted, boards=boards)


Run = tuple[CompileInput, TuneOutcome, list[tuple[int, int | None]], list[Event]]


@pytest.fixture
def run(subject: CompileInput, settings: Settings) -> Callable[..., Run]:
    """Searches with a stub that takes `times` (ns) for the kernels of each division, or raises instead."""

    def searched(times: Sequence[float | None], trials: int | None, *, interrupted: bool = False) -> Run:
        programs = (subject.program, *subject.program.divisions)
        asked: list[tuple[int, int | None]] = []
        events: list[Event] = []
        with RecordStore.open(settings.db) as store:

            def search(program: Program, options: TuneOptions, told: Events) -> TuneOutcome:
                number = [one is program for one in programs].index(True)
                ns, again = times[number], number in [which for which, _ in asked]
                asked.append((number, options.trials))
                if ns is None:
                    raise KernelFailed("it hangs")
                if not again:
                    timed(program, settings, store, ns)
                told(Event("board", {"board": "b", "what": "lost", "detail": "the link went down"}))
                told(Event("summary", {}))
                return outcome(program, options.trials or 0, interrupted=interrupted)

            options = TuneOptions(trials=trials)
            chosen, last = search_divisions(subject, settings, store, search, options, events.append)
        return chosen, last, asked, events

    return searched


@pytest.mark.long
def test_the_faster_division_gets_the_trials_that_are_left(run: Callable[..., Run]) -> None:
    chosen, last, asked, events = run((1e5, 1e5), 64)
    assert len(chosen.program.kernels) == 1  # two kernels take as long each
    assert asked == [(0, 8), (1, 8), (1, 56)]
    assert last.measured == 8 + 8 + 56
    assert [event.data for event in events if event.kind == "summary"] == [last.to_json()]
    names = [str(event.data["name"]) for event in events if event.kind == "phase"]
    assert names[-1] == "best times: 2 kernels 200.00 us, one kernel 100.00 us; the search goes on with one kernel"


@pytest.mark.long
def test_kernels_that_divisions_share_are_counted_once(subject: CompileInput, settings: Settings) -> None:
    """A model of which a pass changes one kernel of many has the trials of the others left."""
    first, shared = subject.program.kernels
    (whole,) = subject.program.divisions
    changed = replace(subject.program, kernels=(whole.kernels[0], shared), divisions=())
    both = replace(subject, program=replace(subject.program, divisions=(changed,)))
    asked: list[int | None] = []
    events: list[Event] = []
    with RecordStore.open(settings.db) as store:

        def search(program: Program, options: TuneOptions, _: Events) -> TuneOutcome:
            asked.append(options.trials)
            timed(program, settings, store, 2e5 if program is changed else 1e5)
            return outcome(program, options.trials or 0)

        search_divisions(both, settings, store, search, TuneOptions(trials=64), events.append)
    assert first.workload != whole.kernels[0].workload
    assert asked == [8, 8, 60]
    other = f"2 kernels with {whole.kernels[0].name} after the passes"
    *timing, last = [str(event.data["name"]) for event in events if event.kind == "phase"]
    assert timing == ["timing 2 kernels as they are", f"timing {other}"]
    assert last.startswith(f"best times: 2 kernels as they are 200.00 us, {other} 300.00 us; ")


@pytest.mark.long
def test_the_outcome_has_what_all_searches_did(run: Callable[..., Run]) -> None:
    _, last, asked, _ = run((1e5, 1e5), 64)
    assert (last.elapsed, last.seconds) == (3.0, {"timing": 1.5})
    assert last.boards == {"b": {"candidates": 72, "lost": 3, "quarantined": "", "trust": {"A": 72}}}
    assert last.board_counts == {"b": {"lost": 3}}
    assert last.board_events == ({"board": "b", "what": "lost", "times": 3, "detail": "the link went down"},)
    assert len(last.tasks) == 1, "of the division that is built"
    assert last.records == 8 + 56, "of the two kernels of the first division, and of the one that is built"
    assert len(asked) == 3


def test_too_few_trials_compare_nothing(run: Callable[..., Run]) -> None:
    _, _, asked, _ = run((1e5, 1e5), 2)
    assert asked == [(0, 2)]


@pytest.mark.long
def test_a_division_that_cannot_be_measured_is_told_and_left(run: Callable[..., Run]) -> None:
    chosen, _, asked, events = run((1e5, None), 64)
    assert len(chosen.program.kernels) == 2
    assert asked == [(0, 8), (1, 8), (0, 64)]
    said = [event.data["message"] for event in events if event.kind == "warning"]
    assert said == ["one kernel cannot be compared: it hangs"]


def test_an_interruption_ends_the_search(run: Callable[..., Run]) -> None:
    _, last, asked, _ = run((1e5, 1e5), 64, interrupted=True)
    assert asked == [(0, 8)]
    assert last.interrupted


def test_a_search_without_divisions_is_one_search(subject: CompileInput, settings: Settings) -> None:
    (whole,) = subject.program.divisions
    asked: list[int | None] = []

    def search(program: Program, options: TuneOptions, _: Events) -> TuneOutcome:
        asked.append(options.trials)
        return outcome(program, 64)

    with RecordStore.open(settings.db) as store:
        alone = replace(subject, program=whole)
        assert search_divisions(alone, settings, store, search, TuneOptions(trials=64), lambda _: None)[0] is alone
    assert asked == [64]
