"""Strips for the arena: where memory is scarce, copies have strips if that makes the arena smaller for next to nothing.

The kernel whose tensors and scratch take most memory sets the size of the arena. It gets the longest strips that take
less; then another kernel, or the same one, sets the size. Of all these steps, the one is taken that saves most of the
arena for the instructions that it adds. A kernel that does not set the size keeps its whole rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from edgetune.graph.loops import times_called
from edgetune.graph.program import Program
from edgetune.pipeline.kernel_scratch import kernel_tensors
from edgetune.schedule.default_schedule import Guess
from edgetune.schedule.divided_copies import divided_copies
from edgetune.schedule.guessed_schedule import Estimate, estimate
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target


def strips_for_arena(
    program: Program, target: Target, threads: int, texts: Sequence[str], free: Collection[int]
) -> dict[int, Guess]:
    """The schedules with strips that take the place of those in `texts`, one for each kernel, by the kernel's index.

    Only kernels in `free` get other schedules, which differ by strips alone. Each of `threads` has its own scratch.
    """
    made = _estimates(program, target, texts) if free else None
    tensors = kernel_tensors(program, target) if made else {}
    if not made or not tensors:
        return {}

    def taken(kernel: int) -> int:
        return tensors[kernel] + threads * made[kernel].scratch_bytes

    def arena() -> int:
        return max(map(taken, tensors))

    usual, least = arena(), max(tensors.values())
    before = _instructions(program, made)
    left: dict[int, list[tuple[Guess, Estimate]]] = {}
    chosen: dict[int, Guess] = {}
    best, found = 0.0, dict(chosen)
    while usual - least >= MARGINS.least_of_arena * usual > 0:
        kernel = max(tensors, key=taken)
        if kernel not in free:
            break
        if kernel not in left:
            left[kernel] = _divided(program, target, kernel, texts[kernel])
        shorter = [one for one in left[kernel] if one[1].scratch_bytes < made[kernel].scratch_bytes]
        if not shorter:
            break
        (chosen[kernel], made[kernel]), *left[kernel] = shorter
        added = _instructions(program, made) / before - 1
        if added > MARGINS.most_of_strips:
            break
        saved = 1 - arena() / usual
        gain = saved - MARGINS.arena_of_strips * added
        if saved >= MARGINS.least_of_arena and gain > best:
            best, found = gain, dict(chosen)
    return found


def _estimates(program: Program, target: Target, texts: Sequence[str]) -> dict[int, Estimate] | None:
    """Those of all kernels, by index; None where a schedule is refused, which is reported where it is printed."""
    made = {}
    for number, (kernel, text) in enumerate(zip(program.kernels, texts, strict=True)):
        one = estimate(kernel.function, text, target)
        if one is None:
            return None
        made[number] = one
    return made


def _divided(program: Program, target: Target, kernel: int, text: str) -> list[tuple[Guess, Estimate]]:
    function = program.kernels[kernel].function
    guesses = divided_copies(function, text, target)
    estimates = [(guess, estimate(function, guess.trace, target)) for guess in guesses]
    return [(guess, one) for guess, one in estimates if one is not None]


def _instructions(program: Program, made: Mapping[int, Estimate]) -> float:
    """Estimated instructions of a run; of a loop, those of every iteration."""
    calls = enumerate(program.calls)
    return max(sum(times_called(program, number) * made[call.kernel].instructions for number, call in calls), 1.0)
