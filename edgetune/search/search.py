"""Evolutionary search: proposes programs for one task, as new samples and as children of the best programs.

TVM provides the space (designs with sampled decisions, mutators, postprocessors) and the features. TVM's own evolution
class is not used: it forgets in each process what was measured, has no crossover, and makes the same programs again and
again. Here the decision vector identifies a program, and only new ones are replayed. Programs not measured yet stay in
a pool, which later rounds rank with the newer cost model. A round depends only on the seed, its number and what was
measured before it.

`AlgorithmsSearch` covers all algorithms of a task: it searches each one separately, and the fast ones more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_hash

from edgetune.errors import KernelFailed
from edgetune.schedule.algorithms.schedule_text import DIRECT, algorithm_and_trace, schedule_text, trace_text
from edgetune.search.candidate import CandidateGenerator, DecisionVector
from edgetune.search.cost_model import CostModel, Features, extract, make_context
from edgetune.search.seeds import derive_seed

MADE, EQUAL, REFUSED, BEYOND_LIMITS = "made", "equal to another", "refused by TVM", "beyond limits"
"""What becomes of the decision vectors that a search tries."""
NO_DESIGN = "designs refused"
"""Designs that a rule or TVM refused before the search began."""


@dataclass(frozen=True)
class SearchOptions:
    """How a round searches: it makes `children` new programs per proposed one, at 10 to 30 ms of CPU each.

    Of the children, the share `newcomers` is sampled anew, the share `crossed` has two parents, and the share
    `restructured` has its parent's decisions under another design. The share `by_chance` of the proposals is picked
    without the cost model. Parents are the `parents` best. `pool` limits the programs kept for later rounds.
    """

    children: float = 2.0
    generations: int = 2
    newcomers: float = 0.2
    crossed: float = 0.15
    restructured: float = 0.1
    by_chance: float = 0.1
    parents: int = 48
    pool: int = 1024
    tries: int = 12


@dataclass(frozen=True)
class SearchSpace:
    """All programs of one function: the function as a module, its designs, and how decisions are drawn.

    `designs` are TVM schedules, `target` is TVM's, `postprocs` a list and `mutators` a dict with probabilities. `form`
    names the algorithm that the function implements, `first` are traces that get half of each round until all are
    proposed. `refused` counts the designs that a rule or TVM refused.
    """

    module: Any
    target: Any
    designs: Sequence[Any]
    postprocs: Sequence[Any]
    mutators: dict[Any, float]
    form: str = DIRECT
    first: tuple[str, ...] = ()
    refused: int = 0


@dataclass(frozen=True)
class _Made:
    """A program that was made but not proposed: its postprocessed trace (TVM's), and its features."""

    genome: DecisionVector
    trace: Any
    features: Features


@dataclass
class _Parents:
    genomes: list[DecisionVector] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def draw(self, random: np.random.Generator) -> DecisionVector:
        odds = np.array(self.scores)
        return self.genomes[int(random.choice(len(odds), p=odds / odds.sum()))]


class TaskSearch:
    """Proposes for one task. `workload` names it in the cost model and, with `seed`, determines its random numbers.

    `counts` has how many programs it `MADE`, why others were dropped, and how many designs were refused.
    """

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
        self._genetics = CandidateGenerator(space.designs, space.mutators)
        self._met: set[DecisionVector] = set()
        self._programs: set[int] = set()
        self._measured: dict[DecisionVector, float] = {}
        self._pool: dict[DecisionVector, _Made] = {}
        self._proposed: dict[str, Features] = {}
        self._relatives: dict[DecisionVector, float] = {}
        self.counts: Counter[str] = Counter({NO_DESIGN: space.refused} if space.refused else {})

    def learn(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Adds measured traces with their times (None: failed) to the cost model and to the known programs."""
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

        The caller should fit the cost model first.
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
        """Makes the most promising programs that differ from measured ones only in annotations."""
        promising = sorted(
            (item for item in self._relatives.items() if item[0] not in self._met), key=lambda one: one[1]
        )
        for relative, _ in promising[:count]:
            with self._unless_refused():
                self._make(relative)

    def _make_newcomers(self, count: int, random: np.random.Generator) -> None:
        """Samples programs; each design without a program gets one in any case."""
        represented = {genome.design for genome in self._met}
        missing = [number for number in range(len(self._genetics.designs)) if number not in represented]
        drawn = [int(number) for number in random.integers(0, len(self._genetics.designs), count)]
        for number in missing + drawn:
            with self._unless_refused():
                self._make(self._genetics.sample(number, self._space.module, random))

    def _make_children(self, count: int, random: np.random.Generator) -> None:
        parents = self._parents()
        made = tries = 0
        while parents.genomes and made < count and tries < count * self._options.tries:
            tries += 1
            parent = parents.draw(random)
            with self._unless_refused():
                kind = random.random()
                if kind < self._options.crossed:
                    child = self._genetics.cross(parent, parents.draw(random), random)
                elif kind < self._options.crossed + self._options.restructured:
                    child = self._genetics.restructure(parent, self._space.module, random)
                else:
                    child = self._genetics.mutate(parent, random)
                if child is not None and child not in self._met:
                    self._make(child)
                    made += 1

    def _parents(self) -> _Parents:
        """The best of the measured programs and of the pool, on one scale: speed relative to the best measured."""
        fastest = min(self._measured.values(), default=1.0)
        scored = [(fastest / time, genome) for genome, time in self._measured.items()]
        pool = list(self._pool.values())
        scores = self._model.score([made.features for made in pool])
        scored += [(float(score), made.genome) for score, made in zip(scores, pool, strict=True)]
        scored.sort(key=lambda item: -item[0])
        best = scored[: self._options.parents]
        return _Parents([genome for _, genome in best], [score for score, _ in best])

    def _make(self, genome: DecisionVector) -> None:
        """Replays and postprocesses a program, and puts it into the pool if it is valid and new."""
        if genome in self._met:
            return
        self._met.add(genome)
        schedule = Schedule(self._space.module, seed=1)
        trace = self._genetics.designs[genome.design].trace(genome.decisions)
        trace.apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        if not all(postproc.apply(schedule) for postproc in self._space.postprocs):
            self.counts[BEYOND_LIMITS] += 1
            return
        program = structural_hash(schedule.mod)
        if program in self._programs:
            self.counts[EQUAL] += 1
            return
        self._programs.add(program)
        features = extract(self._context, schedule)
        if features is not None:
            self.counts[MADE] += 1
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
        """Drops the least promising programs of the pool; they still count as seen."""
        if len(self._pool) > self._options.pool:
            pool = list(self._pool.values())
            scores = self._model.score([made.features for made in pool])
            kept = np.argsort(-scores, kind="stable")[: self._options.pool]
            self._pool = {pool[place].genome: pool[place] for place in sorted(kept)}

    @contextmanager
    def _unless_refused(self) -> Iterator[None]:
        """Count and drop a program that TVM refuses: its decisions clash, or a block cannot move there."""
        try:
            yield
        except (RuntimeError, ValueError):
            self.counts[REFUSED] += 1

    def _recall(self, trace: str) -> Features | None:
        """Features of a recorded program; None when its trace no longer applies, so that nothing is learned from it."""
        with self._unless_refused():
            schedule = Schedule(self._space.module, seed=1)
            Trace.apply_json_to_schedule(json.loads(trace), schedule)
            self._programs.add(structural_hash(schedule.mod))
            return extract(self._context, schedule)
        return None


@contextmanager
def told_as_failure(what: str) -> Iterator[None]:
    """Turn the errors that TVM raises into KernelFailed, with TVM's own reason."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else type(error).__name__
        raise KernelFailed(f"TVM could not {what} ({reason}): the search continues without it") from error


class AlgorithmsSearch:
    """A `TaskSearch` for each of `spaces`, the direct algorithm's first; schedules go in and out as text."""

    def __init__(
        self,
        workload: str,
        spaces: Sequence[SearchSpace],
        model: CostModel,
        seed: int,
        options: SearchOptions | None = None,
    ) -> None:
        self._spaces = spaces
        self._searches = {
            space.form: TaskSearch(
                workload,
                space,
                model,
                seed if space.form == DIRECT else derive_seed(seed, "form", space.form),
                options,
            )
            for space in spaces
        }
        self._best: dict[str, float] = {}

    @property
    def counts(self) -> Counter[str]:
        """The counts of all algorithms' searches."""
        return sum((search.counts for search in self._searches.values()), Counter())

    def learn(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Adds measured schedules with their times (None: failed); those of algorithms not searched are ignored."""
        by_form: dict[str, list[tuple[str, float | None]]] = {form: [] for form in self._searches}
        for text, time in results:
            form, trace = algorithm_and_trace(text)
            if form in by_form:
                by_form[form].append((trace, time))
                if time is not None:
                    self._best[form] = min(time, self._best.get(form, time))
        for form, members in by_form.items():
            if members:
                self._searches[form].learn(members)

    def propose(self, count: int, round_number: int, known: Collection[str]) -> list[str]:
        """At most `count` schedules that are not among `known`; fewer when no others were found."""
        tried: dict[str, set[str]] = {form: set() for form in self._searches}
        for text in known:
            form, trace = algorithm_and_trace(text)
            tried.get(form, set()).add(trace)
        found: list[str] = []
        shares = share(count, [space.form for space in self._spaces], self._best)
        for space in self._spaces:
            room = shares[space.form]
            first = [trace for trace in space.first if trace not in tried[space.form]][: -(-room // 2)]
            rest = room - len(first)
            if rest:
                first += self._searches[space.form].propose(rest, round_number, tried[space.form] | set(first))
            found += [schedule_text(space.form, trace) for trace in first]
        return found


def share(count: int, forms: Sequence[str], best: Mapping[str, float]) -> dict[str, int]:
    """How many of `count` trials each algorithm gets: in proportion to the square of its speed, but at least one.

    `best` has the shortest time of each algorithm that has one; one without a time counts as being as fast as the
    fastest. The remainder of the rounding goes to the fastest, earlier ones first. With fewer trials than algorithms
    the last ones get none.
    """
    fastest = min(best.values(), default=1.0)
    speeds = [(fastest / best.get(form, fastest)) ** 2 for form in forms]
    spare = max(count - len(forms), 0)
    shares = [int(n < count) + int(spare * speed / sum(speeds)) for n, speed in enumerate(speeds)]
    order = sorted(range(len(forms)), key=lambda n: -speeds[n])
    for n in range(max(count - sum(shares), 0)):
        shares[order[n % len(order)]] += 1
    return dict(zip(forms, shares, strict=True))
