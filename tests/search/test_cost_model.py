"""The cost model against times that are a function of the features, and against TVM's real features."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pytest

from edgetune.search.cost_model import FLOOR, CostModel, CostModelOptions, Features


def candidates(seed: int, count: int) -> list[Features]:
    """Each with 3 stores of 164 features, most of them noise, as TVM's are."""
    draw = np.random.default_rng(seed)
    return [np.log2(1 + draw.integers(0, 4096, (3, 164))).astype(np.float32) for _ in range(count)]


def synthetic_time(features: Features) -> float:
    """Each store costs by three of its features; a few cliffs, as caches make them."""
    cost = 2 ** (features[:, 3] / 6) + np.where(features[:, 40] > 8, 3.0, 0.5) * features[:, 99]
    return float(cost.sum())


def rank_correlation(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def trained(seed: int, count: int) -> CostModel:
    model = CostModel(seed)
    for features in candidates(1, count):
        model.add("task", features, synthetic_time(features))
    assert model.fit()
    return model


def correlation(model: CostModel) -> float:
    unseen = candidates(2, 300)
    speeds = np.array([1 / synthetic_time(features) for features in unseen])
    return rank_correlation(model.score(unseen), speeds)


def test_it_ranks_unseen_candidates_far_better_than_chance() -> None:
    assert abs(correlation(CostModel(0))) < 0.2
    few, many = correlation(trained(0, 64)), correlation(trained(0, 800))
    assert few > 0.4
    assert many > 0.75
    assert many > few


def test_the_best_predicted_are_fast() -> None:
    unseen = candidates(3, 300)
    times = np.array([synthetic_time(features) for features in unseen])
    picked = np.argsort(-trained(0, 400).score(unseen))[:16]
    assert np.median(times[picked]) < np.quantile(times, 0.15)


def test_it_is_deterministic() -> None:
    first, second = (trained(5, 200).score(candidates(4, 50)) for _ in range(2))
    assert np.array_equal(first, second)


def test_scores_are_random_until_there_is_enough() -> None:
    model = CostModel(1, CostModelOptions(min_samples=8))
    for features in candidates(1, 7):
        model.add("task", features, 1.0)
    for features in candidates(2, 50):
        model.add("task", features, None)
    assert not model.fit()
    scores = model.score(candidates(3, 10))
    assert scores.min() >= 0.5
    assert len(set(scores.tolist())) == 10


def test_failures_rank_last() -> None:
    model = CostModel(1)
    for place, features in enumerate(candidates(1, 200)):
        features[:, 7] = 12.0 if place % 2 else 1.0
        model.add("task", features, None if place % 2 else synthetic_time(features))
    model.fit()
    good, bad = candidates(2, 60), candidates(2, 60)
    for features in good:
        features[:, 7] = 1.0
    for features in bad:
        features[:, 7] = 12.0
    assert np.median(model.score(good)) > 2 * np.median(model.score(bad))
    assert model.score(bad).min() >= FLOOR


def test_tasks_of_different_speed_teach_together() -> None:
    """Only the speed relative to the task's best counts."""
    model = CostModel(1)
    for place, features in enumerate(candidates(1, 400)):
        model.add(f"task{place % 2}", features, synthetic_time(features) * (1.0, 1e6)[place % 2])
    model.fit()
    assert correlation(model) > 0.6


@pytest.mark.long
def test_a_fit_stays_fast_with_many_samples() -> None:
    model = CostModel(1)
    for features in candidates(1, 5000):
        model.add("task", features, synthetic_time(features))

    def seconds_of_fit() -> float:
        model._stale = True
        started = time.process_time()
        assert model.fit()
        return time.process_time() - started

    assert any(seconds_of_fit() < 4.0 for _ in range(3))  # a busy machine makes the same work take more CPU time
    assert len(model) == 5000
