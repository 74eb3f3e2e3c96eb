"""Task scheduling by gradient, as in the Ansor paper: chooses the task of the next round from the history alone.

Each round of a task ends with its best time so far. The chosen task is the one whose next round promises the
largest decrease of the objective, estimated from its own recent progress and from the speed of similar tasks.
Nothing here measures, uses a global random source, or depends on TVM.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

Objective = Callable[[Sequence[float]], float]
"""From the best time of each task, in task order and any one unit, to the number to minimise."""

_GOLDEN = (1 + math.sqrt(5)) / 2


@dataclass(frozen=True)
class TaskFacts:
    """Facts of a task that the scheduler uses.

    `flops` is the work of one call, `tag` names the kind of operator. Tasks of one tag and about the same
    work (within a factor of 1.618) are assumed to be able to reach the same speed.
    """

    weight: float
    flops: float
    tag: str

    @property
    def family(self) -> tuple[str, int]:
        """Equal for similar tasks."""
        return self.tag, int(math.log(self.flops + 1, _GOLDEN))


@dataclass(frozen=True)
class Round:
    """A finished round: the task's index and its best time after it, None while it has no valid result."""

    task: int
    best: float | None


@dataclass(frozen=True)
class GradientParameters:
    """Constants of the paper; after `stall_rounds` rounds with less than `stall_gain` gain a task waits."""

    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    epsilon: float = 0.05
    relative_step: float = 1e-3
    stall_rounds: int = 8
    stall_gain: float = 0.005


def weighted_sum(tasks: Sequence[TaskFacts]) -> Objective:
    """The time of a whole run: each task's best time, times how often the task runs (f1 of the paper)."""
    weights = [task.weight for task in tasks]
    return lambda times: sum(weight * time for weight, time in zip(weights, times, strict=True))


def curves(task_count: int, history: Sequence[Round]) -> list[list[float | None]]:
    """Best time after each round of each task. A round without a valid result repeats the previous value."""
    result: list[list[float | None]] = [[] for _ in range(task_count)]
    for item in history:
        curve = result[item.task]
        known = curve[-1] if curve else None
        times = [time for time in (known, item.best) if time is not None]
        curve.append(min(times, default=None))
    return result


def stalled(curve: Sequence[float | None], parameters: GradientParameters) -> bool:
    """Whether the last `stall_rounds` rounds gained less than `stall_gain`, relatively."""
    if len(curve) <= parameters.stall_rounds:
        return False
    now, before = curve[-1], curve[-1 - parameters.stall_rounds]
    if now is None or before is None:
        return now is None
    return before - now < parameters.stall_gain * before


def next_task(
    tasks: Sequence[TaskFacts],
    history: Sequence[Round],
    *,
    available: Collection[int],
    seed: int = 0,
    parameters: GradientParameters = GradientParameters(),
) -> int | None:
    """The index of the task to work on next, or None when none is available.

    First every available task once, in order. A task without a valid time is due again after 1, 2, 4, ...
    further rounds of others. Then, with probability `epsilon`, any task; otherwise the one with the most
    negative gradient, stalled ones only when all are stalled. The same arguments give the same answer.
    """
    candidates = sorted(available)
    if not candidates:
        return None
    progress = curves(len(tasks), history)
    for index in candidates:
        if not progress[index]:
            return index
    due = _due_again(candidates, progress, history)
    if due is not None:
        return due
    valid = [index for index in candidates if progress[index][-1] is not None]
    if not valid:
        return min(candidates, key=lambda index: (len(progress[index]), index))
    awake = [index for index in valid if not stalled(progress[index], parameters)] or valid
    draw = random.Random(f"{seed}/{len(history)}")  # noqa: S311
    if draw.random() < parameters.epsilon:
        return draw.choice(awake)
    slopes = gradients(tasks, progress, weighted_sum(tasks), parameters)
    return min(awake, key=lambda index: (slopes[index], index))


def gradients(
    tasks: Sequence[TaskFacts],
    progress: Sequence[Sequence[float | None]],
    objective: Objective,
    parameters: GradientParameters,
) -> Mapping[int, float]:
    """Expected change of the objective by one more round, for each task with a valid time."""
    now = {index: curve[-1] for index, curve in enumerate(progress) if curve and curve[-1] is not None}
    times = [now.get(index) or 0.0 for index in range(len(tasks))]
    speeds: dict[tuple[str, int], float] = {}
    for index, time in now.items():
        family = tasks[index].family
        speeds[family] = max(speeds.get(family, 0.0), tasks[index].flops / _positive(time))
    base = objective(times)
    result: dict[int, float] = {}
    for index in now:
        time, curve = times[index], progress[index]
        step = _positive(time * parameters.relative_step)
        moved = [*times]
        moved[index] += step
        slope = (objective(moved) - base) / step
        result[index] = slope * _gain_of_round(curve, time, tasks[index], speeds, parameters)
    return result


def _gain_of_round(
    curve: Sequence[float | None],
    time: float,
    task: TaskFacts,
    speeds: Mapping[tuple[str, int], float],
    parameters: GradientParameters,
) -> float:
    rounds = len(curve)
    past = curve[-1 - parameters.window] if rounds > parameters.window else None
    backward = (time - past) / parameters.window if past is not None else 0.0
    possible = time - time / rounds
    speed = speeds[task.family]
    if speed > 0:
        possible = min(possible, parameters.beta * task.flops / speed)
    return parameters.alpha * backward + (1 - parameters.alpha) * (possible - time)


def _due_again(
    candidates: Sequence[int], progress: Sequence[Sequence[float | None]], history: Sequence[Round]
) -> int | None:
    for index in candidates:
        curve = progress[index]
        if curve and curve[-1] is None:
            last = max(place for place, item in enumerate(history) if item.task == index)
            if len(history) - 1 - last >= 2 ** (len(curve) - 1):
                return index
    return None


def _positive(time: float) -> float:
    return max(time, 1e-300)
