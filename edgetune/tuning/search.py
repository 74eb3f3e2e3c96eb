"""Proposes programs for one task: TVM's sampling and evolution, driven round by round from here.

A round takes the fastest measured programs and freshly sampled ones, evolves both by TVM's mutators towards
high scores of the cost model, and picks the best that were never proposed, a few of them at random. TVM's own
memory of what it proposed starts empty in each process; here the measured set comes from the records instead,
so nothing is proposed twice. A round depends only on the seed, its number, and what was measured before it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.logging import get_logging_func
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_hash

from edgetune.errors import KernelFailed
from edgetune.tuning.cost_model import CostModel
from edgetune.tuning.features import FeatureCache, RankingModel
from edgetune.tuning.seeds import derive_seed

_ffi_api = ms._ffi_api  # noqa: SLF001 (the two steps of evolution that we drive have no public wrapper)


@dataclass(frozen=True)
class SearchOptions:
    """Size of a round: about `population * (1 + generations)` programs are made, at some 10 ms of CPU each.

    `measured_share` of the population are the fastest measured programs; `random_share` of a batch is picked
    at random; `mutation` is the chance that a child differs from its parent.
    """

    population: int = 64
    generations: int = 2
    measured_share: float = 0.3
    random_share: float = 0.1
    mutation: float = 0.9


@dataclass(frozen=True)
class SearchSpace:
    """All programs of one function: the function as a module, the designs whose decisions are drawn, and how.

    `designs` are TVM schedules, `target` is TVM's, `postprocs` a list and `mutators` a dict with probabilities.
    """

    module: Any
    target: Any
    designs: Sequence[Any]
    postprocs: Sequence[Any]
    mutators: dict[Any, float]


@dataclass(frozen=True)
class Proposal:
    """A program to measure: the text of its trace, and the schedule that the trace leads to."""

    trace: str
    schedule: Any


@contextmanager
def told_as_failure(what: str) -> Iterator[None]:
    """Turn the errors that TVM raises over a schedule into KernelFailed, with TVM's own reason."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else type(error).__name__
        raise KernelFailed(f"TVM could not {what} ({reason}): the search goes on without it") from error


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
        self._known: set[int] = set()
        self._replayed: dict[str, Any] = {}
        self._features = FeatureCache(self._context(1, self._strategy()))

    def learn(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Adds measured traces with their times (None: failed) to the cost model and to what is known."""
        for trace, time in results:
            try:
                schedule = self.replay(trace)
                self._known.add(structural_hash(schedule.mod))
                features = self._features.of(schedule)
            except KernelFailed:
                continue  # a record of a program that no longer applies teaches nothing
            if features is not None:
                self._model.add(self._workload, features, time)

    def replay(self, trace: str) -> Any:
        """The schedule of a trace. Raises KernelFailed when the trace does not fit the function."""
        schedule = self._replayed.get(trace)
        if schedule is None:
            schedule = Schedule(self._space.module, seed=derive_seed(self._seed, self._workload))
            with told_as_failure("replay a schedule"):
                Trace.apply_json_to_schedule(json.loads(trace), schedule)
            self._replayed[trace] = schedule
            while len(self._replayed) > 4 * self._options.population:
                del self._replayed[next(iter(self._replayed))]
        return schedule

    def propose(self, count: int, round_number: int, fastest: Sequence[str], known: Collection[str]) -> list[Proposal]:
        """At most `count` programs that are not among the traces `known`; fewer when no others were found.

        `fastest` are measured traces, best first. The cost model should be fitted before. Raises KernelFailed
        when TVM trips over a program; another `round_number` takes another path.
        """
        with told_as_failure("search a round"):
            return self._propose(count, round_number, fastest, known)

    def _propose(self, count: int, round_number: int, fastest: Sequence[str], known: Collection[str]) -> list[Proposal]:
        strategy = self._strategy()
        context = self._context(derive_seed(self._seed, self._workload, round_number), strategy)
        random = np.random.default_rng(derive_seed(self._seed, self._workload, round_number, "pick"))
        population = self._options.population
        measured = [self.replay(trace) for trace in fastest[: int(population * self._options.measured_share)]]
        self._known.update(structural_hash(schedule.mod) for schedule in measured)
        ranking = RankingModel(self._features, self._model)
        context.pre_tuning(population, population, list(self._space.designs), ms.database.MemoryDatabase(), ranking)
        sampled = list(
            _ffi_api.SearchStrategyEvolutionarySearchSampleInitPopulation(strategy, population - len(measured))
        )
        if not sampled and not measured:
            context.post_tuning()
            return []
        parents = (measured + sampled) * -(-population // len(measured + sampled))
        everything = population * (1 + self._options.generations)
        evolved = list(
            _ffi_api.SearchStrategyEvolutionarySearchEvolveWithCostModel(strategy, parents[:population], everything)
        )
        context.post_tuning()
        random.shuffle(sampled)
        return self._pick(evolved, sampled, count, known)

    def _pick(
        self, ranked: Sequence[Any], sampled: Sequence[Any], count: int, known: Collection[str]
    ) -> list[Proposal]:
        picked: list[Proposal] = []
        by_chance = round(count * self._options.random_share)
        for schedules, limit in ((ranked, count - by_chance), (sampled, count), (ranked, count)):
            for schedule in schedules:
                if len(picked) >= limit:
                    break
                name = structural_hash(schedule.mod)
                if name in self._known:
                    continue
                self._known.add(name)
                trace = trace_text(schedule.trace)
                if trace not in known:
                    self._replayed[trace] = schedule
                    picked.append(Proposal(trace, schedule))
        return picked

    def _strategy(self) -> Any:
        options = self._options
        return ms.search_strategy.EvolutionarySearch(
            population_size=options.population,
            init_measured_ratio=0.0,
            init_min_unmeasured=1,
            max_fail_count=3,
            genetic_num_iters=options.generations,
            genetic_mutate_prob=options.mutation,
            eps_greedy=0.0,
        )

    def _context(self, seed: int, strategy: Any) -> Any:
        designs = list(self._space.designs)
        space = ms.space_generator.ScheduleFn(
            lambda _: designs,
            sch_rules=[],
            postprocs=list(self._space.postprocs),
            mutator_probs=dict(self._space.mutators),
        )
        return make_context(self._space.module, self._space.target, space, strategy, seed)


def make_context(module: Any, target: Any, space: Any, strategy: Any, seed: int) -> Any:
    """A TuneContext on one thread, without the import of all tensor intrinsics that its constructor does.

    That import costs seconds of CPU, and none of the intrinsics ends in printable C.
    """
    context = ms.TuneContext.__new__(ms.TuneContext)
    log = get_logging_func(_quiet_logger())
    context.__init_handle_by_constructor__(_ffi_api.TuneContext, module, target, space, strategy, "main", 1, seed, log)
    _ffi_api.TuneContextInitialize(context)
    return context


def trace_text(trace: Any) -> str:
    """The trace as compact JSON text; equal traces give equal text."""
    return json.dumps(trace.as_json(), separators=(",", ":"), default=lambda constant: constant.value)


def _quiet_logger() -> logging.Logger:
    logger = logging.getLogger("edgetune.tuning.tvm")
    logger.setLevel(logging.ERROR)
    return logger
