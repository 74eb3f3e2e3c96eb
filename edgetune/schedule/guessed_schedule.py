"""Guessed schedules: for kernels without records, the formula's best schedule, or one that needs far less instructions.

The formula knows how long operations wait for each other. It does not know all that is printed around them: loads,
addresses, sums that are joined, lanes that are computed twice. Where a core cannot begin the printed instructions in
the predicted cycles, and they are many more than the kernel's own operations and elements ask for, the printed C of
some other schedules is compared. That is done where the ways differ most: where rows of results fill no whole vectors,
and where padding is tested for each of many terms or copied once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.operations import operations, tensor_bytes
from edgetune.errors import KernelFailed
from edgetune.graph.memoise import memoised
from edgetune.graph.written_loops import is_written
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among, direct_algorithm
from edgetune.schedule.algorithms.schedule_text import (
    DIRECT,
    PEELED,
    VECTORS,
    WINOGRAD,
    algorithm_of,
    schedule_text,
    size_of,
)
from edgetune.schedule.default_algorithms import (
    cheapest_tiles,
    dot_algorithms,
    form_for_odd_extents,
    predicted_cycles,
    wide_algorithms,
)
from edgetune.schedule.default_schedule import Guess, default_guess, guess_within, guesses, has_empty_tensor
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import core_of, native_lanes, tile_of
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

_STRUCTURES = 2
"""Schedules of an algorithm that are printed, the formula's best ones."""

_STRUCTURES_ONE_AT_A_TIME = 3
"""The same where a core begins one instruction at a time: the printed instructions are then nearly its cycles."""

_SYMBOL = "kernel"
_OF_MULTIPLY_ADD = 2  # operations


def default_schedule(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: Collection[str], *, streamed: bool = False
) -> tuple[str, str]:
    """Text and note of `guessed_schedule`."""
    found = guessed_schedule(function, target, scratch_limit, allowed, streamed=streamed)
    return found.trace, found.note


def guessed_schedule(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: Collection[str], *, streamed: bool = False
) -> Guess:
    """The best guess: of the form for odd extents if there is one, which its text names, else of the direct algorithm.

    Arguments are as for `default_guess`. Products of bytes are in the wider type where these need far less
    instructions. Winograd algorithms are never guessed: only a measurement can show that they are faster.
    """
    narrow = _compared(function, target, scratch_limit, allowed, streamed=streamed)
    wide = _widened(function, target, scratch_limit, frozenset(allowed), streamed)
    return narrow if wide is None else _cheaper(narrow, wide, function, target)


def _compared(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: Collection[str], *, streamed: bool
) -> Guess:
    """The formula's guess, or another one whose printed C needs far less instructions."""
    first = formula_schedule(function, target, scratch_limit, allowed, streamed=streamed)
    if is_written(function) or has_empty_tensor(function):
        return first
    odd = _has_odd_rows(function, target)
    if not odd and not _tests_padding_again(function, target):
        return first
    each = target.costs.instruction
    name = algorithm_of(first.trace)
    predicted = _predicted(function if name == DIRECT else algorithm_named(function, name).function, target)
    begun = each * estimated_instructions(function, first.trace, target)
    if begun == inf or begun <= max(predicted, MARGINS.of_ideal * each * _least_instructions(function, target)):
        return first
    found = {first: MARGINS.gain_of_estimate * begun}
    for algorithm in _algorithms(function, allowed, target) if odd else [direct_algorithm(function)]:
        least = _predicted(algorithm.function, target)
        for guess in islice(guesses(algorithm.function, target, scratch_limit, streamed=streamed), _STRUCTURES):
            named = replace(guess, trace=schedule_text(algorithm.name, guess.trace))
            found.setdefault(named, max(least, each * estimated_instructions(function, named.trace, target)))
    return min(found, key=lambda guess: found[guess])


@dataclass(frozen=True)
class Estimate:
    """Estimated instructions of a run of a printed kernel, and the bytes of scratch memory that it asks for."""

    instructions: float
    scratch_bytes: int


@memoised(64)
def estimate(function: PrimFunc, text: str, target: Target) -> Estimate | None:
    """What an unscheduled function takes under the schedule `text`; None where it is refused."""
    try:
        source = emit_kernel(apply_schedule(function, text).module, target, _SYMBOL)
    except KernelFailed:
        return None
    return Estimate(source.instructions, source.scratch_bytes)


def estimated_instructions(function: PrimFunc, text: str, target: Target) -> float:
    """Instructions of a run of an unscheduled function under the schedule `text`; infinite where it is refused."""
    found = estimate(function, text, target)
    return inf if found is None else found.instructions


def formula_schedule(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: Collection[str], *, streamed: bool = False
) -> Guess:
    """What the formula alone guesses; see `guessed_schedule`."""
    return _formula(function, target, scratch_limit, frozenset(allowed).difference(WINOGRAD), streamed)


@memoised(64)
def _formula(function: PrimFunc, target: Target, scratch_limit: int, allowed: frozenset[str], streamed: bool) -> Guess:
    found = [_without_dots(function, target, scratch_limit, allowed, streamed)]
    for algorithm in dot_algorithms(function, allowed, target):
        guess = guess_within(algorithm.function, target, scratch_limit, streamed=streamed)
        known = [] if guess is None else [guess]
        if target.costs.one_at_a_time:
            more = guesses(algorithm.function, target, scratch_limit, streamed=streamed)
            known += [one for one in islice(more, _STRUCTURES_ONE_AT_A_TIME) if one not in known]
        found += [replace(one, trace=schedule_text(algorithm.name, one.trace)) for one in known]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda one: estimated_instructions(function, one.trace, target))


@memoised(64)
def _widened(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: frozenset[str], streamed: bool
) -> Guess | None:
    """The guess of the wider form of products of bytes; None where there is none."""
    for algorithm in wide_algorithms(function, allowed, target):
        guess = guess_within(algorithm.function, target, scratch_limit, streamed=streamed)
        if guess is not None:
            return replace(guess, trace=schedule_text(algorithm.name, guess.trace))
    return None


def _cheaper(narrow: Guess, wide: Guess, function: PrimFunc, target: Target) -> Guess:
    """The `narrow` guess, or the `wide` one where it needs far less instructions; the note has the numbers of both.

    Weights in a wider type take more flash and more of the caches, so a small difference leaves them as they are.
    """
    integers, floats = (estimated_instructions(function, one.trace, target) for one in (narrow, wide))
    chosen = wide if floats < MARGINS.gain_of_estimate * integers else narrow
    told = f"an estimated {integers:,.0f} instructions with products of integers, {floats:,.0f} of floats"
    return replace(chosen, note=f"{chosen.note}; {told}")


def _without_dots(
    function: PrimFunc, target: Target, scratch_limit: int, allowed: frozenset[str], streamed: bool
) -> Guess:
    algorithm = form_for_odd_extents(function, allowed, target)
    found = None if algorithm is None else guess_within(algorithm.function, target, scratch_limit, streamed=streamed)
    if algorithm is None or found is None:
        return default_guess(direct_algorithm(function).function, target, scratch_limit, streamed=streamed)
    return replace(found, trace=schedule_text(algorithm.name, found.trace))


def _predicted(function: PrimFunc, target: Target) -> float:
    """Predicted cycles; 0 where nothing is known."""
    found = predicted_cycles(function, target)
    return 0.0 if found == inf else found


def _has_odd_rows(function: PrimFunc, target: Target) -> bool:
    """Whether the results of some reduction lie in rows that no whole vectors fill."""
    analysis, lanes = analyse_blocks(function), native_lanes(function, target)
    reductions = [] if analysis is None else analysis.reductions
    return any(stage.spatial_extents and stage.spatial_extents[-1] % lanes for stage in reductions)


def _tests_padding_again(function: PrimFunc, target: Target) -> bool:
    found = tile_of(function, target)
    return found is not None and found[1].tests_again


def _least_instructions(function: PrimFunc, target: Target) -> float:
    """Instructions of a kernel where all lanes count: multiply-adds, and loads and stores of each element once."""
    core = core_of(function, target)
    elements = tensor_bytes(function) / core.element_bytes
    return (operations(function) / _OF_MULTIPLY_ADD + elements) / core.lanes


def _algorithms(function: PrimFunc, allowed: Collection[str], target: Target) -> Iterator[Algorithm]:
    """The algorithms that are compared, for extents that vectors or whole tiles do not divide, among those allowed."""
    widest = [
        next((name for name in names if name in allowed and size_of(name) <= target.vector_bits), None)
        for names in (VECTORS, PEELED)
    ]
    whole = [name for name in widest if name is not None]
    tiles = cheapest_tiles(function, whole[:1], target)
    yield direct_algorithm(function)
    yield from algorithms_among(function, [name for name in (*whole, *tiles) if name in allowed])
