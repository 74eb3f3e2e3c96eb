"""End-to-end ranking of finalists: times the best records of each kernel inside packages of the whole model.

A kernel that is timed alone finds its operands in the caches and has the core to itself. In a run of a large model its
weights come from memory, its residual was written long ago, its output may overwrite that tensor, and threads share
the kernel. So several packages are made, each with the next finalist of every kernel, and run in turns. The time of
each finalist is stored in its record.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.boards.cores import confined, split_cores
from edgetune.boards.lock import TimingLock
from edgetune.codegen.prefetch.outputs import ANNOTATION as EPILOGUE_LINES
from edgetune.codegen.prefetch.weights_l1 import ANNOTATION as NEAR_LINES
from edgetune.codegen.prefetch.weights_l2 import ANNOTATION as PREFETCHED
from edgetune.config.settings import Settings
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.graph.loops import loops_around
from edgetune.graph.program import Program
from edgetune.pipeline.compile_input import CompileInput, Events, assembled
from edgetune.pipeline.in_model_cost import PackageContext
from edgetune.pipeline.link import Choice
from edgetune.pipeline.select import choose, contenders
from edgetune.records import Record, RecordStore
from edgetune.schedule.algorithms.schedule_text import allowed_algorithms
from edgetune.search.migrate import trouble
from edgetune.target.target import Target, with_cpu
from edgetune.verify.bench import LayerTime, benchmark_of

MOST = 6
"""Most finalists of a kernel, and most packages."""

_REQUESTS = (PREFETCHED, NEAR_LINES, EPILOGUE_LINES)
_NEAR = 1.3  # times the time alone of the expected fastest: slower records are not tried
_FASTEST = 3  # finalists taken by rank, before one of each kind (algorithm and prefetching)
_SWEEPS = 5
_RUNS, _SECONDS = 60, 0.5  # most runs and seconds of one benchmark
_SHARE, _LEAST_S = 0.15, 60.0  # share of the search time, used in addition to it; at least so many seconds


@dataclass(frozen=True)
class RankingTerms:
    """Target and number of threads; after `seconds` no further package is made, and no further sweep starts."""

    target: Target
    threads: int = 1
    seconds: float | None = None


Run = Callable[[int, float], Sequence[LayerTime]]
Make = Callable[[Sequence[Choice], Path], None]
"""Writes a package with these choices into a folder."""


def rivals(records: Sequence[Record]) -> list[Record]:
    """The finalists among the records of a kernel, which come with the expected fastest first: `MOST` or fewer.

    Takes the first ones, then the first of each kind; none takes much longer alone than the first one.
    """
    limit = _NEAR * min((record.median_ns or 0.0 for record in records[:1]), default=0.0)
    near: list[Record] = []
    for record in records:
        if (record.median_ns or 0.0) <= limit and all(other.candidate != record.candidate for other in near):
            near.append(record)
    kinds: dict[tuple[str | bool, ...], Record] = {}
    for record in near:
        kinds.setdefault((record.form, *(request in record.trace for request in _REQUESTS)), record)
    found = near[:_FASTEST]
    found += [record for record in kinds.values() if record not in found]
    found += [record for record in near[_FASTEST:] if record not in found]
    return found[:MOST]


def timed_apart(program: Program) -> frozenset[int]:
    """Kernels, by index, with layers of their own: a benchmark has one time for all kernels of a loop."""
    return frozenset(call.kernel for number, call in enumerate(program.calls) if not loops_around(program, number))


def rank_end_to_end(subject: CompileInput, settings: Settings, store: RecordStore, events: Events) -> bool:
    """Compare the finalists of all kernels of `subject` in packages for the threads of `settings`.

    A warning reports when no package can be made or run. Ctrl-C ends the comparison; the result is then False.
    """
    program, target = subject.program, with_cpu(settings.target)
    common = (settings.min_trust, allowed_algorithms(settings.winograd), settings.threads, settings.arena_bytes)

    def make(choices: Sequence[Choice], folder: Path) -> None:
        assembled(subject, settings, choices, folder, lambda _: None)

    events(Event("phase", {"name": "comparing kernels in packages"}))
    started = time.monotonic()
    try:
        groups = {}
        apart = timed_apart(program)
        for index, records in contenders(program, target, store, *common).items():
            if index not in apart:
                continue
            group = [record for record in rivals(records) if not trouble(program.kernels[index], record, target)]
            if len(group) > 1:
                groups[index] = group
        choices = choose(program, target, store, lambda _: None, *common)
        seconds = settings.budget_seconds
        terms = RankingTerms(target, settings.threads, None if seconds is None else max(_LEAST_S, _SHARE * seconds))
        told = time_finalists(program, groups, choices, make, terms, store, events)
    except KeyboardInterrupt:
        events(Event("warning", {"message": "interrupted: kernels are not compared in whole packages"}))
        return False
    except (EdgetuneError, OSError) as error:
        events(Event("warning", {"message": f"kernels are not compared in packages: {error}"}))
        return True
    events(Event("phase", {"name": told, "seconds": round(time.monotonic() - started, 3)}))
    return True


def time_finalists(
    program: Program,
    groups: Mapping[int, Sequence[Record]],
    choices: Sequence[Choice],
    make: Make,
    terms: RankingTerms,
    store: RecordStore,
    events: Events,
) -> str:
    """Time the `groups`, finalists by index of their kernel, in packages that `make` writes; store times in `store`.

    `choices` has one choice per kernel; kernels without finalists keep theirs. A package is left out when it cannot be
    made, for example because its kernels together do not fit the device. Returns a summary. Raises the errors of
    `benchmark_of`, DatabaseError and OSError.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edgetune-finalists-") as name, ExitStack() as copies:
        runs: dict[int, Run] = {}
        for number in range(max(map(len, groups.values()), default=0)):
            if runs and terms.seconds is not None and time.monotonic() - started > terms.seconds:
                break
            folder = Path(name).resolve() / str(number)
            try:
                make(_cast(groups, choices, number), folder)
            except EdgetuneError as error:
                events(
                    Event(
                        "warning", {"message": f"a package is left out of the comparison of kernels: {error.message}"}
                    )
                )
                continue
            runs[number] = copies.enter_context(benchmark_of(folder, target=terms.target))
            shutil.rmtree(folder)  # the benchmark runs a copy
        if len(runs) <= 1:  # a single package is no comparison
            return "comparing kernels in packages: no candidates compete"
        times = _in_turns(runs, terms, events)
    stage = PackageContext(program.model_sha256, terms.threads)
    for kernel, group in groups.items():
        found = {n: times[n].get(program.kernels[kernel].name) for n in times if n < len(group)}
        _keep([(group[n], ns) for n, ns in found.items() if ns is not None], stage, store)
    return f"comparing {len(runs)} packages with the best candidates of {len(groups)} kernels"


def _cast(groups: Mapping[int, Sequence[Record]], choices: Sequence[Choice], number: int) -> list[Choice]:
    """The choices of package `number`: each kernel's finalist of that number, or its first one."""
    cast = list(choices)
    for kernel, group in groups.items():
        record = group[number if number < len(group) else 0]
        cast[kernel] = Choice(record.trace, replace(choices[kernel].provenance, form=record.form))
    return cast


def _in_turns(runs: Mapping[int, Run], terms: RankingTerms, events: Events) -> dict[int, dict[str, float]]:
    """For each package: nanoseconds of a call by the name of its kernel, the least of each layer over all sweeps.

    All have equally many runs. The least time is used because a disturbance only ever makes a run longer.
    """
    started = time.monotonic()
    split = split_cores()
    lock = TimingLock(on_event=events)
    best: dict[int, dict[int, LayerTime]] = {number: {} for number in runs}
    try:
        with nullcontext() if split.shared or terms.threads > 1 else confined(split.measuring):
            for sweep in range(_SWEEPS):
                if sweep and terms.seconds is not None and time.monotonic() - started > terms.seconds:
                    break
                for number, run in runs.items():
                    lock.acquire()
                    layers = run(_RUNS, _SECONDS)
                    lock.release()
                    for layer in layers:
                        known = best[number].get(layer.index)
                        if known is None or layer.min_us < known.min_us:
                            best[number][layer.index] = layer
    finally:
        lock.close()
    return {number: _by_kernel(list(found.values())) for number, found in best.items()}


def _by_kernel(layers: Sequence[LayerTime]) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for layer in layers:
        times.setdefault(layer.kernel, []).append(1e3 * layer.min_us)
    return {kernel: sum(found) / len(found) for kernel, found in times.items()}


def _keep(found: Sequence[tuple[Record, float]], stage: PackageContext, store: RecordStore) -> None:
    """Store the times of the finalists of one kernel, and delete its earlier times in such packages."""
    if len(found) <= 1:
        return
    taken = {record.id: ns for record, ns in found}
    comparison = hashlib.sha256(json.dumps(sorted(taken.items())).encode()).hexdigest()[:12]

    def noted(record: Record) -> Record:
        return stage.noted(record, taken.get(record.id), comparison, len(taken))

    store.refine_all(replace(found[0][0].key, board=None), noted)
