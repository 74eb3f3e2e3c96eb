"""Schedule selection: the fastest record for this target and compiler for each kernel, else the default schedule."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from edgetune.boards.options import GRADES, Grade
from edgetune.codegen import CODEGEN_VERSION
from edgetune.codegen.operations import operations, tensor_bytes
from edgetune.codegen.parallel_time import expected_share
from edgetune.errors import KernelFailed
from edgetune.events import Event
from edgetune.graph.program import Kernel, Program, byte_size
from edgetune.graph.tvm_errors import kernel_named
from edgetune.measure.peaks import Peaks
from edgetune.package.emit import OnEvent
from edgetune.package.provenance import KernelProvenance
from edgetune.pipeline.in_model_cost import PackageContext, compared_first, expected_order, streams
from edgetune.pipeline.kernel_scratch import kernel_scratch
from edgetune.pipeline.link import Choice, arena_bytes
from edgetune.pipeline.strips_for_arena import strips_for_arena
from edgetune.records import Record, RecordStore
from edgetune.records.ranking import passes
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, rounding_of
from edgetune.schedule.algorithms.schedule_text import BOTH, DIRECT, DOTS_IN_TILES, FORMS, TILES, WINOGRAD, algorithm_of
from edgetune.schedule.default_algorithms import times_faster
from edgetune.schedule.default_schedule import Guess
from edgetune.schedule.guessed_schedule import guessed_schedule
from edgetune.schedule.sketches.winograd_tile import PRODUCTS
from edgetune.schedule.summary import summary
from edgetune.search.migrate import record_key, still_valid, trouble
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target

_CONSIDERED = 50
"""How many of the fastest records of a kernel are checked for one whose trace gives the text that was timed."""

_STREAMED = 400
"""The same number where the fastest with cached weights need not be the fastest with weights from memory."""


def choose(
    program: Program,
    target: Target,
    store: RecordStore | None,
    events: OnEvent,
    min_trust: Grade = GRADES[-1],
    forms: Collection[str] = FORMS,
    threads: int = 1,
    arena: int | None = None,
) -> list[Choice]:
    """One choice per kernel of `program`, in order; none needs more scratch than this program's memory plan allows.

    With `arena`, all tensors and scratch may take so many bytes. Without it, where memory is scarce, default schedules
    copy strips of rows if that saves much of the arena for few instructions.

    A record counts only if its trace still gives the very C text that was timed; a warning names the others, and those
    graded below `min_trust`. A record without a grade counts as D. Only `forms` (names of algorithms) may win. Without
    a record a kernel uses an overlapped tail where that should be faster, else its direct algorithm. Kernels are timed
    on one thread with cached weights. For several `threads`, the expected time under sharing decides; for a program
    that `streams` its weights, the expected time with weights from memory decides.
    """
    rules = _rules(program, target, min_trust, forms, threads)
    limits = kernel_scratch(program, target, threads, arena)
    choices = []
    for number, kernel in enumerate(program.kernels):
        with kernel_named(program, number):
            choices.append(_choose(kernel, store, limits[number], rules, events))
    return (
        choices if arena is not None or not target.memory_is_scarce else _with_strips(program, target, threads, choices)
    )


def _with_strips(program: Program, target: Target, threads: int, usual: list[Choice]) -> list[Choice]:
    """`usual`, or default schedules that copy strips of rows instead, where these make the arena smaller."""
    free = {number for number, choice in enumerate(usual) if choice.provenance.origin == "fixed"}
    found = strips_for_arena(program, target, threads, [choice.trace for choice in usual], free)
    if not found:
        return usual
    divided = list(usual)
    for number, guess in found.items():
        share = usual[number].provenance.predicted_share
        divided[number] = default_choice(program.kernels[number], guess.trace, guess.note, share)
    # Tensors that kernels do not write in place after all, and gaps between tensors, may take what strips save.
    most = (1 - MARGINS.least_of_arena) * arena_bytes(program, usual, target, threads)
    return divided if arena_bytes(program, divided, target, threads) <= most else usual


def contenders(
    program: Program,
    target: Target,
    store: RecordStore,
    min_trust: Grade = GRADES[-1],
    forms: Collection[str] = FORMS,
    threads: int = 1,
    arena: int | None = None,
) -> dict[int, list[Record]]:
    """Records of each kernel (by index) that `choose` would consider, the expected fastest first.

    Earlier comparisons in a package are ignored.
    """
    rules = _rules(program, target, min_trust, forms, threads)
    limits = kernel_scratch(program, target, threads, arena)
    return {
        index: rules.expected(kernel, rules.looked_through(kernel, store, limits[index]))
        for index, kernel in enumerate(program.kernels)
    }


def _rules(program: Program, target: Target, min_trust: Grade, forms: Collection[str], threads: int) -> _Rules:
    stage = PackageContext(program.model_sha256, threads)
    return _Rules(target, min_trust, frozenset(forms), streams(program, target), stage)


@dataclass(frozen=True)
class _Rules:
    """Settings common to all kernels of a selection."""

    target: Target
    min_trust: Grade
    forms: frozenset[str]
    streamed: bool
    stage: PackageContext

    @property
    def threads(self) -> int:
        """Number of threads of the package."""
        return self.stage.threads

    def looked_through(self, kernel: Kernel, store: RecordStore, scratch_limit: int) -> list[Record]:
        """Records of the kernel that may win, ranked by their times alone."""
        most = _STREAMED if self.streamed else _CONSIDERED
        return store.best(record_key(kernel, self.target), most, self.min_trust, scratch_limit, self.forms)

    def expected(self, kernel: Kernel, records: list[Record]) -> list[Record]:
        """`records`, ranked by their times alone, reordered so that the expected fastest in the package comes first."""
        return expected_order(kernel, records, self.target, self.threads, streamed=self.streamed)

    def order(self, kernel: Kernel, records: list[Record]) -> list[Record]:
        """The same order, but records compared in a package come before all others."""
        expected = self.expected(kernel, records)
        return compared_first(expected, self.stage) if self.streamed or self.threads > 1 else expected


def _choose(kernel: Kernel, store: RecordStore | None, scratch_limit: int, rules: _Rules, events: OnEvent) -> Choice:
    target, min_trust, forms = rules.target, rules.min_trust, rules.forms
    if store is not None:
        key = record_key(kernel, target)
        best = rules.looked_through(kernel, store, scratch_limit)
        if not best and min_trust != GRADES[-1] and store.best(key, scratch_limit=scratch_limit, forms=forms):
            text = f"the records of {kernel.name} are skipped: their trust grade is below {min_trust}"
            events(Event("warning", {"message": text}))
        places = {record.candidate: place for place, record in enumerate(best)}
        best = rules.order(kernel, best)[:_CONSIDERED]
        while best and (reason := trouble(kernel, best[0], target)):
            text = f"record {best[0].candidate[:16]} of {kernel.name} is skipped: {reason}"
            events(Event("warning", {"message": text}))
            best = best[1:]
        if best:
            valid = sum(record.status == "ok" and record.form in forms for record in store.all(key))
            reordered = any(places[record.candidate] < places[best[0].candidate] for record in best)
            return Choice(best[0].trace, _measured(kernel, best, valid, target, rules if reordered else None))
        older = (
            record
            for record in still_valid(kernel, target, store)
            if passes(record, min_trust) and record.scratch_bytes <= scratch_limit and record.form in forms
        )
        taken = [*islice(older, 1 if rules.threads == 1 else None)]
        for record in rules.order(kernel, taken)[:1]:
            told = f"code generator {record.environment['codegen_version']}, which made the same C"
            why = f"the fastest record of {told}"
            return Choice(record.trace, replace(_measured(kernel, [record], 1, target), why=why))
    guess = _fixed(kernel, scratch_limit, rules)
    return default_choice(kernel, guess.trace, guess.note, guess.share)


def imported_choice(kernel: Kernel, records: Sequence[Record]) -> Choice:
    """The choice of the first of records that were timed elsewhere, the fastest first; there is one at least."""
    return Choice(records[0].trace, _measured(kernel, [*records], len(records), None))


def default_choice(kernel: Kernel, text: str, note: str, share: float | None = None) -> Choice:
    """The choice of a default schedule, with a note for people and its predicted share of the ideal."""
    why = f"no record: the default schedule ({note})"
    provenance = KernelProvenance(
        kernel.workload,
        "fixed",
        codegen_version=CODEGEN_VERSION,
        form=algorithm_of(text),
        schedule=summary(text, kernel.function),
        why=why,
        predicted_share=None if share is None else round(share, 3),
    )
    return Choice(text, provenance)


def _fixed(kernel: Kernel, scratch_limit: int, rules: _Rules) -> Guess:
    """The default schedule that should be fastest on the threads of the package.

    Threads share no tiles that overlap, so several may finish sooner without these, or with the direct algorithm.
    """
    function, target = kernel.function, rules.target
    best = guessed_schedule(function, target, scratch_limit, rules.forms, streamed=rules.streamed)
    form = algorithm_of(best.trace)
    if rules.threads == 1 or form == DIRECT:
        return best
    tiles = frozenset({*TILES, *BOTH, *DOTS_IN_TILES})
    others = [*([rules.forms - tiles] if form in tiles else []), frozenset[str]()]
    guesses = [best, *(guessed_schedule(function, target, scratch_limit, o, streamed=rules.streamed) for o in others)]

    def predicted(guess: Guess) -> float:
        """Time relative to the direct algorithm on one thread."""
        share = expected_share(apply_schedule(function, guess.trace).module, target, rules.threads)
        form = algorithm_of(guess.trace)
        return share if form == DIRECT else share / times_faster(function, form, target)

    try:
        return min(guesses, key=predicted)
    except KernelFailed:
        return guesses[-1]  # if this schedule is used, printing it reports the error


def _measured(
    kernel: Kernel, best: list[Record], valid: int, target: Target | None, decided: _Rules | None = None
) -> KernelProvenance:
    winner = best[0]
    counted = winner.environment.get("clock") == "instructions"  # the record stores one instruction as one nanosecond
    why = f"fastest of {valid} correct candidates" if valid > 1 else "the only correct candidate"
    if decided is not None and (there := decided.stage.ns(winner)) is not None:
        why = f"of {valid} correct candidates, the one that is fastest in a run of the package ({there / 1000:.2f} us)"
    elif decided is not None:
        threads = f"{decided.threads} threads" if decided.threads > 1 else "one core"
        weights = " with weights from memory" if decided.streamed else ""
        why = f"of {valid} correct candidates, the one that should be fastest on {threads}{weights}"
    elif len(best) > 1 and winner.median_ns:
        much = "many" if counted else "long"
        why += f"; the next takes {(best[1].median_ns or 0) / winner.median_ns:.3f} times as {much}"
    peaks = Peaks.of_environment(winner.environment)
    roofline = None if counted or peaks is None or target is None else roofline_of(kernel, peaks, target, winner.form)
    return KernelProvenance(
        workload=winner.workload,
        origin="record",
        board=winner.board,
        record=winner.candidate[:16],
        trace_sha256=hashlib.sha256(winner.trace.encode()).hexdigest(),
        median_us=None if counted else _us(winner.median_ns),
        low_us=None if counted else _us(winner.ci_low_ns),
        high_us=None if counted else _us(winner.ci_high_ns),
        samples=len(winner.samples_ns),
        candidates=valid,
        codegen_version=winner.codegen_version,
        toolchain=winner.toolchain,
        form=winner.form,
        rounding=rounding_of(winner.form),
        schedule=summary(winner.trace, kernel.function),
        why=why,
        clock="instructions" if counted else "time",
        instructions=round(winner.median_ns) if counted and winner.median_ns is not None else None,
        trust=str(winner.environment.get("trust", "")),
        trust_reason=str(winner.environment.get("trust_reason", "")),
        roofline_us=None if roofline is None else round(roofline.us, 4),
        roofline_limit="" if roofline is None else roofline.limit,
    )


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1000, 4)


@dataclass(frozen=True)
class Roofline:
    """The least microseconds that the limits of a core allow one call, and what sets them, as text for people.

    It is the larger of the operations over the peak, and of the bytes, each tensor once, over the bandwidth of the
    smallest level of memory that holds them all (Williams, Waterman, Patterson, CACM 52(4), 2009). The peak is that of
    float32 multiply-adds: integer kernels may exceed it where a core multiplies bytes faster. Winograd's algorithms
    multiply less than the definition: their operations are those of their products, without the transforms, and their
    weights are the transformed ones.
    """

    us: float
    limit: str


def roofline_of(kernel: Kernel, peaks: Peaks, target: Target, form: str = DIRECT) -> Roofline:
    """The roofline of `kernel` by the algorithm `form` on a core of `target` with these limits."""
    function, stage, products = kernel.function, "", ""
    if form in WINOGRAD:
        function, stage = algorithm_named(kernel.function, form).function, PRODUCTS
        products = f" for the products of {form}"
    size = tensor_bytes(function)
    size -= sum(
        round(byte_size(param.shape, param.dtype) * (1 - param.rows.share)) for param in kernel.params if param.rows
    )
    level = "DRAM" if target.caches == "cold" else peaks.level(size, target)
    compute = 1e6 * operations(function, stage) / peaks.flops
    memory = 1e6 * size / peaks.bandwidth[level]
    if compute >= memory:
        return Roofline(compute, f"peak, {peaks.flops / 1e9:.1f} GFLOP/s{products}")
    return Roofline(memory, f"{level}, {peaks.bandwidth[level] / 1e9:.1f} GB/s")
