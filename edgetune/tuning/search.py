"""Proposes programs for one task by evolution: parents that were fast, or promise to be, and children of them.

TVM gives the space (designs with sampled decisions, mutators, postprocessors) and the features; its own evolution
class forgets in each process what was measured, has no crossover, and makes programs again and again that it made
before. Here a program is known by its decisions: only new ones are replayed, those not measured yet stay in a
pool that later rounds rank with what the cost model has learned since. A round depends on the seed, its number
and what was measured before it, and on nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_hash

from edgetune.errors import KernelFailed
from edgetune.tuning.cost_model import CostModel, Features
from edgetune.tuning.features import extract, make_context
from edgetune.tuning.forms.schedule_text import DIRECT
from edgetune.tuning.genome import Genetics, Genome, trace_text
from edgetune.tuning.seeds import derive_seed


@dataclass(frozen=True)
class SearchOptions:
    """How a round searches: it makes `children` new programs per proposed one, at 10 to 30 ms of CPU each.

    `newcomers` of the children are sampled afresh, `crossed` have two parents; `by_chance` of the proposals are picked
    without asking the cost model. Parents are the `parents` best. `pool` bounds the programs kept for later rounds.
    """

    children: float = 2.0
    generations: int = 2
    newcomers: float = 0.2
    crossed: float = 0.15
    by_chance: float = 0.1
    parents: int = 48
    pool: int = 1024
    tries: int = 12


@dataclass(frozen=True)
class SearchSpace:
    """All programs of one function: the function as a module, the designs whose decisions are drawn, and how.

    `designs` are TVM schedules, `target` is TVM's, `postprocs` a list and `mutators` a dict with probabilities. `form`
    names the form of the kernel that the function is, `first` are traces to propose before any other.
    """

    module: Any
    target: Any
    designs: Sequence[Any]
    postprocs: Sequence[Any]
    mutators: dict[Any, float]
    form: str = DIRECT
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Made:
    """A program that exists but was not proposed: its postprocessed trace (TVM's), and its features."""

    genome: Genome
    trace: Any
    features: Features


@dataclass
class _Parents:
    genomes: list[Genome] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def draw(self, random: np.random.Generator) -> Genome:
        odds = np.array(self.scores)
        return self.genomes[int(random.choice(len(odds), p=odds / odds.sum()))]


class TaskSearch:
    """Proposes for one task. `workload` is its name towards the cost model, together with `seed` its luck."""

    def __init__(
        self,
        workload: str,
        space: SearchSpace,
        model: CostModel,
        seed: int,
        options: SearchOptions | None = None,
    ) -> None:
        self._workload = workload
        self._space = space
        self._model = model
        self._seed = seed
        self._options = options or SearchOptions()
        self._context = make_context(space.module, space.target, space.postprocs, space.mutators)
        self._genetics = Genetics(space.designs, space.mutators)
        self._met: set[Genome] = set()
        self._programs: set[int] = set()
        self._measured: dict[Genome, float] = {}
        self._pool: dict[Genome, _Made] = {}
        self._proposed: dict[str, Features] = {}
        self._relatives: dict[Genome, float] = {}

    def learn(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Adds measured traces with their times (None: failed) to the cost model and to what is known."""
        for trace, time in results:
            genome = self._genetics.read(trace)
            if time is not None:
                for relative in self._genetics.relatives(trace):
                    self._relatives[relative] = min(time, self._relatives.get(relative, time))
            if genome is not None:
                self._met.add(genome)
                self._pool.pop(genome, None)
                if time is not None:
                    self._measured[genome] = time
            features = self._proposed.pop(trace, None)
            if features is None:
                features = self._recall(trace)
            if features is not None:
                self._model.add(self._workload, features, time)

    def propose(self, count: int, round_number: int, known: Collection[str]) -> list[str]:
        """At most `count` traces that are not among `known`; fewer when no others were found.

        The cost model should be fitted before.
        """
        random = np.random.default_rng(derive_seed(self._seed, self._workload, round_number))
        self._make_relatives(max(1, count // 4))
        wanted = max(round(count * self._options.children / self._options.generations), 1)
        for generation in range(self._options.generations):
            if generation == 0:
                self._make_newcomers(max(round(wanted * self._options.newcomers), 1), random)
            self._make_children(wanted, random)
        picked = self._pick(count, random, known)
        self._trim()
        return picked

    def _make_relatives(self, count: int) -> None:
        """Makes the most promising of those that differ from measured programs in annotations alone."""
        promising = sorted(
            (item for item in self._relatives.items() if item[0] not in self._met), key=lambda one: one[1]
        )
        for relative, _ in promising[:count]:
            with _unless_refused():
                self._make(relative)

    def _make_newcomers(self, count: int, random: np.random.Generator) -> None:
        """Samples programs; each design has at least one before any has two."""
        represented = {genome.design for genome in self._met}
        missing = [number for number in range(len(self._genetics.designs)) if number not in represented]
        drawn = [int(number) for number in random.integers(0, len(self._genetics.designs), count)]
        for number in missing + drawn:
            with _unless_refused():
                self._make(self._genetics.sample(number, self._space.module, random))

    def _make_children(self, count: int, random: np.random.Generator) -> None:
        parents = self._parents()
        made = tries = 0
        while parents.genomes and made < count and tries < count * self._options.tries:
            tries += 1
            parent = parents.draw(random)
            with _unless_refused():
                if random.random() < self._options.crossed:
                    child = self._genetics.cross(parent, parents.draw(random), random)
                else:
                    child = self._genetics.mutate(parent, random)
                if child is not None and child not in self._met:
                    self._make(child)
                    made += 1

    def _parents(self) -> _Parents:
        """The best of the measured and of the pool, scored alike: speed relative to the best measured."""
        fastest = min(self._measured.values(), default=1.0)
        scored = [(fastest / time, genome) for genome, time in self._measured.items()]
        pool = list(self._pool.values())
        scores = self._model.score([made.features for made in pool])
        scored += [(float(score), made.genome) for score, made in zip(scores, pool, strict=True)]
        scored.sort(key=lambda item: -item[0])
        best = scored[: self._options.parents]
        return _Parents([genome for _, genome in best], [score for score, _ in best])

    def _make(self, genome: Genome) -> None:
        """Replays and postprocesses a program, and puts it into the pool if it is valid and new."""
        if genome in self._met:
            return
        self._met.add(genome)
        schedule = Schedule(self._space.module, seed=1)
        trace = self._genetics.designs[genome.design].trace(genome.decisions)
        trace.apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        if not all(postproc.apply(schedule) for postproc in self._space.postprocs):
            return
        program = structural_hash(schedule.mod)
        if program in self._programs:
            return
        self._programs.add(program)
        features = extract(self._context, schedule)
        if features is not None:
            self._pool[genome] = _Made(genome, schedule.trace, features)

    def _pick(self, count: int, random: np.random.Generator, known: Collection[str]) -> list[str]:
        pool = list(self._pool.values())
        scores = self._model.score([made.features for made in pool])
        ranked = [pool[place] for place in np.argsort(-scores, kind="stable")]
        by_chance = round(count * self._options.by_chance)
        shuffled = [pool[place] for place in random.permutation(len(pool))]
        picked: list[str] = []
        for candidates, limit in ((ranked, count - by_chance), (shuffled, count)):
            for made in candidates:
                if len(picked) >= limit:
                    break
                if self._pool.pop(made.genome, None) is not None:
                    trace = trace_text(made.trace)
                    if trace not in known:
                        self._proposed[trace] = made.features
                        picked.append(trace)
        return picked

    def _trim(self) -> None:
        """Forgets the least promising; they count as met all the same."""
        if len(self._pool) > self._options.pool:
            pool = list(self._pool.values())
            scores = self._model.score([made.features for made in pool])
            kept = np.argsort(-scores, kind="stable")[: self._options.pool]
            self._pool = {pool[place].genome: pool[place] for place in sorted(kept)}

    def _recall(self, trace: str) -> Features | None:
        """Features of a recorded program; None when it no longer applies, which teaches nothing."""
        with _unless_refused():
            schedule = Schedule(self._space.module, seed=1)
            Trace.apply_json_to_schedule(json.loads(trace), schedule)
            self._programs.add(structural_hash(schedule.mod))
            return extract(self._context, schedule)
        return None


@contextmanager
def _unless_refused() -> Iterator[None]:
    """Drops a program over which TVM raises: decisions that do not go together, a block that cannot move there."""
    try:
        yield
    except (RuntimeError, ValueError):
        return


@contextmanager
def told_as_failure(what: str) -> Iterator[None]:
    """Turn the errors that TVM raises into KernelFailed, with TVM's own reason."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else type(error).__name__
        raise KernelFailed(f"TVM could not {what} ({reason}): the search goes on without it") from error
