"""The last decision of a tune: rivals of each kernel are timed where they will run, in packages of the whole model.

A kernel that is timed alone finds its operands in the caches and all of the core's time. In a run of a large model its
weights come from memory, what it adds to was written long ago, and its output may take that tensor's memory; threads
share it. So some packages are made, each with the next rival of every kernel, and run in turns. What each rival took is
kept in its record.
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

from edgetune.assembly import Choice
from edgetune.choosing import choose, contenders
from edgetune.codegen.epilogue_lines import ANNOTATION as EPILOGUE_LINES
from edgetune.codegen.near_lines import ANNOTATION as NEAR_LINES
from edgetune.codegen.prefetching import ANNOTATION as PREFETCHED
from edgetune.config.settings import Settings
from edgetune.config.target import Target
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.graph.program import Program
from edgetune.in_package import Stage
from edgetune.measure.cores import confined, split_cores
from edgetune.measure.lock import TimingLock
from edgetune.package.bench import LayerTime, benchmark_of
from edgetune.subject import Events, Subject, assembled
from edgetune.tuning.carrying import trouble
from edgetune.tuning.forms.schedule_text import allowed_forms
from edgetune.tuning.records import Record, RecordStore

MOST = 6
"""Rivals of a kernel, and packages."""

_REQUESTS = (PREFETCHED, NEAR_LINES, EPILOGUE_LINES)
_NEAR = 1.3  # times as long alone as the one that should be fastest: who takes longer is not tried
_FASTEST = 3  # of them, before those that are told apart by what they ask the memory for
_SWEEPS = 5
_RUNS, _SECONDS = 60, 0.5  # of a benchmark, at most
_SHARE, _LEAST_S = 0.15, 60.0  # of the time to search, beside it; seconds


@dataclass(frozen=True)
class Terms:
    """For which target, on how many threads; after `seconds` no further package is made, and no further sweep."""

    target: Target
    threads: int = 1
    seconds: float | None = None


Run = Callable[[int, float], Sequence[LayerTime]]
Make = Callable[[Sequence[Choice], Path], None]
"""Writes a package with these choices into a folder."""


def rivals(records: Sequence[Record]) -> list[Record]:
    """Who of the records of a kernel, the one expected to be fastest first, is worth a rehearsal: `MOST` or fewer.

    The first ones, and the first of each kind; none takes much longer alone than the first one.
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


def rehearse_subject(subject: Subject, settings: Settings, store: RecordStore, events: Events) -> bool:
    """Compare the rivals of all kernels of `subject` in packages for the threads of `settings`.

    Where none can be made or run, a warning tells that they are not compared. False after Ctrl-C, which ends it.
    """
    program, target = subject.program, settings.target
    common = (settings.min_trust, allowed_forms(settings.winograd), settings.threads)

    def make(choices: Sequence[Choice], folder: Path) -> None:
        assembled(subject, settings, choices, folder, lambda _: None)

    events(Event("phase", {"name": "comparing kernels in packages"}))
    started = time.monotonic()
    try:
        groups = {}
        for index, records in contenders(program, target, store, *common).items():
            group = [record for record in rivals(records) if not trouble(program.kernels[index], record, target)]
            if len(group) > 1:
                groups[index] = group
        choices = choose(program, target, store, lambda _: None, *common)
        seconds = settings.budget_seconds
        terms = Terms(target, settings.threads, None if seconds is None else max(_LEAST_S, _SHARE * seconds))
        told = rehearse(program, groups, choices, make, terms, store, events)
    except KeyboardInterrupt:
        events(Event("warning", {"message": "interrupted: kernels are not compared in packages"}))
        return False
    except (EdgetuneError, OSError) as error:
        events(Event("warning", {"message": f"kernels are not compared in packages: {error}"}))
        return True
    events(Event("phase", {"name": told, "seconds": round(time.monotonic() - started, 3)}))
    return True


def rehearse(
    program: Program,
    groups: Mapping[int, Sequence[Record]],
    choices: Sequence[Choice],
    make: Make,
    terms: Terms,
    store: RecordStore,
    events: Events,
) -> str:
    """Time the `groups`, rivals by the index of their kernel, in packages that `make` writes; keep that in `store`.

    `choices` are those of all kernels, which those without rivals keep. A package that cannot be made, as its kernels
    do not fit the device together, is left out. Says what was done. Raises what `benchmark_of` does, DatabaseError and
    OSError.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edgetune-rehearsal-") as name, ExitStack() as copies:
        runs: dict[int, Run] = {}
        for number in range(max(map(len, groups.values()), default=0)):
            if runs and terms.seconds is not None and time.monotonic() - started > terms.seconds:
                break
            folder = Path(name).resolve() / str(number)
            try:
                make(_cast(groups, choices, number), folder)
            except EdgetuneError as error:
                events(Event("warning", {"message": f"a package to compare kernels in is left out: {error.message}"}))
                continue
            runs[number] = copies.enter_context(benchmark_of(folder, target=terms.target))
            shutil.rmtree(folder)  # a copy of it runs
        if len(runs) <= 1:  # one alone is no comparison
            return "comparing kernels in packages: nothing to compare"
        times = _in_turns(runs, terms, events)
    stage = Stage(program.model_sha256, terms.threads)
    for kernel, group in groups.items():
        found = {n: times[n].get(program.kernels[kernel].name) for n in times if n < len(group)}
        _keep([(group[n], ns) for n, ns in found.items() if ns is not None], stage, store)
    return f"comparing {len(runs)} packages with rivals of {len(groups)} kernels"


def _cast(groups: Mapping[int, Sequence[Record]], choices: Sequence[Choice], number: int) -> list[Choice]:
    """The choices of package `number`: the rival of that number of each kernel, or its first one."""
    cast = list(choices)
    for kernel, group in groups.items():
        record = group[number if number < len(group) else 0]
        cast[kernel] = Choice(record.trace, replace(choices[kernel].provenance, form=record.form))
    return cast


def _in_turns(runs: Mapping[int, Run], terms: Terms, events: Events) -> dict[int, dict[str, float]]:
    """For each package: nanoseconds of a call by the name of its kernel, the least of each layer over all sweeps.

    All have equally many runs, and what disturbs one of them only ever makes it longer.
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


def _keep(found: Sequence[tuple[Record, float]], stage: Stage, store: RecordStore) -> None:
    """Note what the rivals of one kernel took, and forget what was noted of it before."""
    if len(found) <= 1:
        return
    taken = {record.id: ns for record, ns in found}
    comparison = hashlib.sha256(json.dumps(sorted(taken.items())).encode()).hexdigest()[:12]
    for record in store.all(replace(found[0][0].key, board=None)):
        noted = stage.noted(record, taken.get(record.id), comparison, len(taken))
        if noted.environment != record.environment:
            store.refine(noted)
