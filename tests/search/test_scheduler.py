"""The scheduler is a pure function: worked examples of the formula, and properties over random histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.search.scheduler import (
    GradientParameters,
    Round,
    TaskFacts,
    curves,
    gradients,
    next_task,
    stalled,
    weighted_sum,
)

GREEDY = GradientParameters(epsilon=0.0)


def facts(*weights: float) -> list[TaskFacts]:
    return [TaskFacts(weight, flops=10.0 ** (6 + 2 * place), tag="conv") for place, weight in enumerate(weights)]


def test_every_task_gets_a_first_round_in_order() -> None:
    tasks = facts(1, 1, 1)
    history: list[Round] = []
    order: list[int] = []
    for _ in tasks:
        chosen = next_task(tasks, history, available={0, 1, 2})
        assert chosen is not None
        order.append(chosen)
        history.append(Round(chosen, 1.0))
    assert order == [0, 1, 2]


def test_gradient_is_the_formula_of_the_paper() -> None:
    tasks = [TaskFacts(3.0, 1000.0, "conv"), TaskFacts(1.0, 1100.0, "conv")]
    progress = [[8.0, 6.0, 5.0, 4.0], [1.0]]
    # task 0: window 3: (4-8)/3; optimistic: min(4-4/4, 2*1000/(1100/1)) - 4
    similar = 2 * 1000 / 1100
    expected = 3 * (0.2 * (4 - 8) / 3 + 0.8 * (min(3.0, similar) - 4))
    slopes = gradients(tasks, progress, weighted_sum(tasks), GREEDY)
    assert slopes[0] == pytest.approx(expected, rel=1e-6)
    assert slopes[1] == pytest.approx(1 * 0.8 * (0.0 - 1.0), rel=1e-6)


def test_the_heavier_of_two_equal_tasks_is_chosen() -> None:
    history = [Round(0, 1.0), Round(1, 1.0)]
    assert next_task(facts(1, 5), history, available={0, 1}, parameters=GREEDY) == 1


def test_the_finite_difference_is_relative() -> None:
    """Times of nanoseconds and of hours lead to the same choice."""
    tasks = facts(2, 3)
    for unit in (1e-9, 1.0, 3.6e3):
        history = [Round(0, 5 * unit), Round(1, 2 * unit), Round(0, 4 * unit)]
        assert next_task(tasks, history, available={0, 1}, parameters=GREEDY) == 1


def test_a_task_whose_first_round_failed_is_picked_again() -> None:
    tasks, history = facts(1, 1), [Round(0, None), Round(1, 1.0)]
    assert next_task(tasks, history, available={0, 1}, parameters=GREEDY) == 0
    history.append(Round(0, None))
    picks = []
    for _ in range(6):
        chosen = next_task(tasks, history, available={0, 1}, parameters=GREEDY)
        assert chosen is not None
        picks.append(chosen)
        history.append(Round(chosen, None if chosen == 0 else 1.0))
    assert picks == [1, 1, 0, 1, 1, 1]


def test_only_failing_tasks_share_the_rounds() -> None:
    tasks, history = facts(1, 1), [Round(0, None), Round(1, None)]
    for _ in range(6):
        chosen = next_task(tasks, history, available={0, 1})
        assert chosen is not None
        history.append(Round(chosen, None))
    assert {sum(item.task == index for item in history) for index in (0, 1)} == {4}


def test_a_stalled_task_waits_until_all_are_stalled() -> None:
    parameters = GradientParameters(epsilon=0.0, stall_rounds=2)
    tasks = facts(100, 1)
    history = [Round(0, 5.0), Round(0, 5.0), Round(0, 5.0), Round(1, 1.0)]
    assert next_task(tasks, history, available={0, 1}, parameters=parameters) == 1
    history += [Round(1, 1.0), Round(1, 1.0)]
    assert next_task(tasks, history, available={0, 1}, parameters=parameters) == 0


def test_stalled_counts_only_relative_gain() -> None:
    parameters = GradientParameters(stall_rounds=2, stall_gain=0.01)
    assert not stalled([1.0, 1.0], parameters)
    assert stalled([1.0, 1.0, 0.995], parameters)
    assert not stalled([1.0, 1.0, 0.9], parameters)
    assert stalled([None, None, None], parameters)
    assert not stalled([None, None, 1.0], parameters)


def test_nothing_available() -> None:
    assert next_task(facts(1), [], available=set()) is None


times = st.one_of(st.none(), st.floats(1e-9, 1e3))
task_lists = st.lists(
    st.builds(TaskFacts, st.integers(1, 50), st.floats(0, 1e12), st.sampled_from("ab")), min_size=1, max_size=6
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[TaskFacts], list[Round], set[int]]:
    tasks = draw(task_lists)
    indices = st.integers(0, len(tasks) - 1)
    history = draw(st.lists(st.builds(Round, indices, times), max_size=25))
    return tasks, history, draw(st.sets(indices, min_size=1))


@given(situations(), st.integers(0, 2**31))
def test_choice_is_available_and_repeatable(
    situation: tuple[list[TaskFacts], list[Round], set[int]], seed: int
) -> None:
    tasks, history, available = situation
    chosen = next_task(tasks, history, available=available, seed=seed)
    assert chosen in available
    assert chosen == next_task(tasks, [*history], available=sorted(available), seed=seed)


@given(situations())
def test_gradients_never_promise_a_rise(situation: tuple[list[TaskFacts], list[Round], set[int]]) -> None:
    tasks, history, _ = situation
    slopes = gradients(tasks, curves(len(tasks), history), weighted_sum(tasks), GradientParameters())
    assert all(slope <= 1e-9 * max(1.0, abs(slope)) for slope in slopes.values())


@given(task_lists, st.integers(0, 1000))
def test_no_task_starves_while_it_improves(tasks: list[TaskFacts], seed: int) -> None:
    """With progress like 1/rounds everywhere, each task is chosen now and then."""
    history: list[Round] = []
    counts = [0] * len(tasks)
    for _ in range(12 * len(tasks)):
        chosen = next_task(tasks, history, available=range(len(tasks)), seed=seed)
        assert chosen is not None
        counts[chosen] += 1
        history.append(Round(chosen, 1.0 / counts[chosen]))
    assert min(counts) >= 1
    assert sum(counts) == 12 * len(tasks)
