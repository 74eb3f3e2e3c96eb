"""Decision vectors: represent programs of a search space so that they mutate, cross and compare without being built.

A design is a trace of schedule instructions, some of which sample a decision (a tile size, a choice). Two programs
of one design differ only in their decisions. So the decisions identify a known program, without a replay.

Crossover is uniform or node-based (Ansor, OSDI 2020, section 5.1): a node is a block of the program, and a child takes
all decisions of a node from one parent. A mutation of the structure keeps decisions under another design, such as
another loop order or another rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
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

_BY_NODE = 0.5
"""Share of crossovers that take all decisions of a block from one parent, in programs of several blocks."""

_apply_mutator = ms._ffi_api.MutatorApply  # noqa: SLF001 (the public wrapper draws its own seed)


@dataclass(frozen=True)
class DecisionVector:
    """A program: the number of its design, and its decisions in the order of the design's instructions."""

    design: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Role:
    """What a decision decides: the `node` (name of a block) whose loops it sizes, and the `kind` of decision.

    Decisions of one kind have the same instruction, attributes and extent, so that each may replace the other.
    """

    node: str
    kind: str


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
        self.roles = _roles(text, self.places)

    def trace(self, decisions: Sequence[Decision | None]) -> Any:
        """TVM's trace with these decisions; None leaves one to be sampled."""
        chosen = {
            self.instructions[place]: list(decision) if isinstance(decision, tuple) else decision
            for place, decision in zip(self.places, decisions, strict=True)
            if decision is not None
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
        return self._completed(number, [None] * len(self.designs[number].places), module, random)

    def restructure(self, genome: DecisionVector, module: Any, random: np.random.Generator) -> DecisionVector | None:
        """The same decisions under another design, None where no other design has a decision in common.

        A decision passes to the next one with the same role; those without a counterpart are sampled. Raises
        RuntimeError or ValueError where the decisions clash.
        """
        own = self.designs[genome.design]
        others = [
            number
            for number, design in enumerate(self.designs)
            if number != genome.design and set(design.roles) & set(own.roles)
        ]
        if not others:
            return None
        number = others[int(random.integers(len(others)))]
        given: dict[Role, list[Decision]] = {}
        for role, decision in zip(own.roles, genome.decisions, strict=True):
            given.setdefault(role, []).append(decision)
        partial = [given[role].pop(0) if given.get(role) else None for role in self.designs[number].roles]
        return self._completed(number, partial, module, random)

    def _completed(
        self, number: int, decisions: Sequence[Decision | None], module: Any, random: np.random.Generator
    ) -> DecisionVector:
        """The program of a design with these decisions; those that are None are sampled."""
        design = self.designs[number]
        schedule = Schedule(module, seed=_seed(random))
        design.trace(decisions).apply_to_schedule(schedule, remove_postproc=True)
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
        """Crossover of two parents: each decision comes from one of them; None where their designs differ.

        Of programs with several nodes, every second child takes the decisions of a node together.
        """
        if first.design != second.design:
            return None
        nodes = [role.node for role in self.designs[first.design].roles]
        names = sorted(set(nodes))
        if len(names) > 1 and random.random() < _BY_NODE:
            chosen = dict(zip(names, random.integers(0, 2, len(names)), strict=True))
            sides = np.array([chosen[node] for node in nodes])
        else:
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


def _roles(trace: list[Any], places: Sequence[int]) -> list[Role]:
    """The role of each decision; `places` are the numbers of their instructions.

    A decision belongs to the block of the loop that it sizes; a choice between numbers has no loop, and belongs to the
    block of the decision before it.
    """
    instructions, decisions = trace
    chosen = {int(place): decision for place, decision in decisions}
    blocks: dict[str, str] = {}
    roles: list[Role] = []
    for place, (name, inputs, attributes, outputs) in enumerate(instructions):
        node = next((blocks[item] for item in inputs if isinstance(item, str) and item in blocks), "")
        if name == "GetSBlock":
            node = str(attributes[0])
        blocks |= dict.fromkeys(outputs, node)
        if place in places:
            decision = _plain(chosen[place])
            extent = prod(decision) if isinstance(decision, tuple) else 0
            node = node or (roles[-1].node if roles else "")
            roles.append(Role(node, json.dumps([name, attributes, extent])))
    return roles


def _plain(decision: Any) -> Decision:
    if isinstance(decision, int):
        return decision
    if hasattr(decision, "value"):
        return int(decision.value)
    return tuple(int(item) for item in decision)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(1, LARGEST_SEED))
