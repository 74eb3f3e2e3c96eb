"""Decision vectors: represent programs of a search space so that they mutate, cross and compare without being built.

A design is a trace of schedule instructions, some of which sample a decision (a tile size, a choice). Two programs
of one design differ only in their decisions. So the decisions identify a known program, without a replay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.search.seeds import LARGEST_SEED

Decision = int | tuple[int, ...]

PRINTERS = "edgetune_"
"""Prefix of the annotations that are for the printer of C."""

_apply_mutator = ms._ffi_api.MutatorApply  # noqa: SLF001 (the public wrapper draws its own seed)


@dataclass(frozen=True)
class DecisionVector:
    """A program: the number of its design, and its decisions in the order of the design's instructions."""

    design: int
    decisions: tuple[Decision, ...]


class DesignSpace:
    """The instructions of one design; `trace` is TVM's trace of the design as generated."""

    def __init__(self, trace: Any) -> None:
        self.instructions = list(trace.insts)
        sampled = list(trace.decisions)
        self.places = [
            place
            for place, instruction in enumerate(self.instructions)
            if any(instruction.same_as(other) for other in sampled)
        ]
        text = json.loads(trace_text(trace))
        self.signature, self.structure = _signature(text)[0], _structure(text)

    def trace(self, decisions: Sequence[Decision] | None) -> Any:
        """TVM's trace with these decisions; None leaves them to be sampled."""
        if decisions is None:
            return Trace(self.instructions, {})
        chosen = {
            self.instructions[place]: list(decision) if isinstance(decision, tuple) else decision
            for place, decision in zip(self.places, decisions, strict=True)
        }
        return Trace(self.instructions, chosen)

    def decisions(self, trace: Any) -> tuple[Decision, ...]:
        """The decisions of a trace that begins with the design's instructions."""
        instructions = trace.insts
        return tuple(_plain(trace.get_decision(instructions[place])) for place in self.places)


class CandidateGenerator:
    """Makes decision vectors of a space; all random numbers come from the generator passed in."""

    def __init__(self, designs: Sequence[Any], mutators: Mapping[Any, float]) -> None:
        self.designs = [DesignSpace(schedule.trace) for schedule in designs]
        self._mutators = list(mutators)
        weights = np.array([float(weight) for weight in mutators.values()])
        self._odds = weights / weights.sum() if len(weights) else weights
        self._numbers = {design.signature: number for number, design in enumerate(self.designs)}

    def read(self, trace: str) -> DecisionVector | None:
        """The decision vector of a recorded trace, None if it belongs to none of the designs."""
        signature, decisions = _signature(json.loads(trace))
        number = self._numbers.get(signature)
        if number is None or sorted(decisions) != self.designs[number].places:
            return None
        return DecisionVector(number, tuple(decisions[place] for place in sorted(decisions)))

    def relatives(self, trace: str) -> list[DecisionVector]:
        """Decision vectors with a recorded trace's decisions, in designs that differ from its own only in annotations.

        Annotations instruct the printer beyond the schedule. A version of edgetune with new annotations thus tries them
        on the programs that older versions found.
        """
        instructions = json.loads(trace)
        structure, (_, decisions) = _structure(instructions), _signature(instructions)
        own = self.read(trace)
        chosen = tuple(decisions[place] for place in sorted(decisions))
        return [
            DecisionVector(number, chosen)
            for number, design in enumerate(self.designs)
            if design.structure == structure
            and len(design.places) == len(chosen)
            and (own is None or own.design != number)
        ]

    def sample(self, number: int, module: Any, random: np.random.Generator) -> DecisionVector:
        """A random program of a design. Raises RuntimeError or ValueError where the sampled decisions clash."""
        design = self.designs[number]
        schedule = Schedule(module, seed=_seed(random))
        design.trace(None).apply_to_schedule(schedule, remove_postproc=True)
        return DecisionVector(number, design.decisions(schedule.trace))

    def mutate(self, genome: DecisionVector, random: np.random.Generator) -> DecisionVector | None:
        """A copy with one decision changed by one of the mutators, None where that mutator has nothing to change."""
        if not self._mutators or not genome.decisions:
            return None
        mutator = self._mutators[int(random.choice(len(self._mutators), p=self._odds))]
        design = self.designs[genome.design]
        mutated = _apply_mutator(mutator, design.trace(genome.decisions), _seed(random))
        return None if mutated is None else DecisionVector(genome.design, design.decisions(mutated))

    def cross(
        self, first: DecisionVector, second: DecisionVector, random: np.random.Generator
    ) -> DecisionVector | None:
        """Uniform crossover: each decision from one of two parents; None where their designs differ."""
        if first.design != second.design:
            return None
        sides = random.integers(0, 2, len(first.decisions))
        pairs = zip(sides, first.decisions, second.decisions, strict=True)
        return DecisionVector(first.design, tuple(b if side else a for side, a, b in pairs))


def _signature(trace: list[Any]) -> tuple[str, dict[int, Decision]]:
    """The instructions of a trace before postprocessing, as text, and its decisions by position."""
    instructions, decisions = trace
    end = next((place for place, item in enumerate(instructions) if item[0] == "EnterPostproc"), len(instructions))
    text = json.dumps(instructions[:end], separators=(",", ":"))
    return text, {int(place): _plain(decision) for place, decision in decisions if place < end}


def _structure(trace: list[Any]) -> str:
    """The instructions of a trace before postprocessing without the printer's annotations, as text."""
    instructions = [item for item in trace[0] if not (item[0] == "Annotate" and str(item[2][0]).startswith(PRINTERS))]
    return _signature([instructions, []])[0]


def _plain(decision: Any) -> Decision:
    if isinstance(decision, int):
        return decision
    if hasattr(decision, "value"):
        return int(decision.value)
    return tuple(int(item) for item in decision)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(1, LARGEST_SEED))
