"""The last decision of a tune: rivals of each kernel are timed where they will run, in packages of the whole model.

A kernel that is timed alone finds its operands in the caches and all of the core's time. In a run of a large model its
weights come from memory, what it adds to was written long ago, and its output may take that tensor's memory; threads
share it. So some packages are made, each with the next rival of every kernel, and run in turns. What each rival took is
kept in its record.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.assembly import Choice
from edgetune.choosing import choose, contenders
from edgetune.config.settings import Settings
from edgetune.config.target import Target
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.graph.program import Program
from edgetune.in_package import in_package_fact
from edgetune.measure.cores import confined, split_cores
from edgetune.measure.lock import TimingLock
from edgetune.package.bench import LayerTime, benchmark_of
from edgetune.subject import Subject, assembled
from edgetune.tuning.carrying import trouble
from edgetune.tuning.forms.schedule_text import allowed_forms
from edgetune.tuning.records import Record, RecordStore

MOST = 6
"""Rivals of a kernel, and packages."""

_NEAR = 1.3  # times as long as the fastest one alone: who takes longer is not tried
_FASTEST = 3  # of them, before those that are told apart by what they ask the memory for
_SWEEPS = 5
_SHARE, _LEAST_S = 0.15, 60.0  # of the time to search, beside it; seconds
_RUNS, _SECONDS = 60, 0.5


@dataclass(frozen=True)
class Rehearsal:
    """For which target, on how many threads; no further package is made after `seconds` (None: no limit)."""

    target: Target
    threads: int = 1
    seconds: float | None = None


Run = Callable[[int, float], Sequence[LayerTime]]
Make = Callable[[Sequence[Choice], Path], None]
"""Writes a package with these choices into a folder."""


def rivals(records: Sequence[Record]) -> list[Record]:
    """Who of the records of a kernel, the one expected to be fastest first, is worth a rehearsal: `MOST` or fewer."""
    limit = _NEAR * min((record.median_ns or 0.0 for record in records[:1]), default=0.0)
    near = [record for record in records if (record.median_ns or 0.0) <= limit]
    kinds: dict[tuple[str, bool, bool, bool], Record] = {}
    for record in near:
        asked = (f"edgetune_{name}" in record.trace for name in ("prefetch", "near_lines", "epilogue_lines"))
        kinds.setdefault((record.form, *asked), record)  # type: ignore[arg-type]
    found = near[:_FASTEST]
    found += [record for record in kinds.values() if record not in found]
    found += [record for record in near[_FASTEST:] if record not in found]
    return found[:MOST]


def rehearse_subject(subject: Subject, settings: Settings, store: RecordStore, events: Callable[[Event], None]) -> None:
    """Compare the rivals of all kernels of `subject` in packages for the threads of `settings`."""
    program, target = subject.program, settings.target
    common = (settings.min_trust, allowed_forms(settings.winograd), settings.threads)
    groups = {}
    for index, records in contenders(program, target, store, *common).items():
        group = [record for record in rivals(records) if not trouble(program.kernels[index], record, target)]
        if len(group) > 1:
            groups[index] = group

    def make(choices: Sequence[Choice], folder: Path) -> None:
        assembled(subject, settings, choices, folder, lambda _: None)

    seconds = settings.budget_seconds
    terms = Rehearsal(target, settings.threads, None if seconds is None else max(_LEAST_S, _SHARE * seconds))
    rehearse(program, groups, choose(program, target, store, lambda _: None, *common), make, terms, store, events)


def rehearse(
    program: Program,
    groups: Mapping[int, Sequence[Record]],
    choices: Sequence[Choice],
    make: Make,
    terms: Rehearsal,
    store: RecordStore,
    events: Callable[[Event], None],
) -> None:
    """Time the `groups`, rivals by the index of their kernel, in packages that `make` writes; keep that in `store`.

    `choices` are those of all kernels, which those without rivals keep. Where a package cannot be made or run, and
    after Ctrl-C, a warning tells that what kernels take alone decides.
    """
    if not groups:
        return
    rounds = max(map(len, groups.values()))
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="edgetune-rehearsal-") as name, ExitStack() as copies:
            runs: list[Run] = []
            for number in range(rounds):
                if runs and terms.seconds is not None and time.monotonic() - started > terms.seconds:
                    break
                folder = Path(name).resolve() / str(number)
                make(_cast(groups, choices, number), folder)
                runs.append(copies.enter_context(benchmark_of(folder, target=terms.target)))
            times = _in_turns(runs, terms.threads, events)
    except KeyboardInterrupt:
        events(Event("warning", {"message": "interrupted: what kernels take alone decides about the package"}))
        return
    except EdgetuneError as error:
        message = f"kernels are not compared in the package ({error.message}): what they take alone decides"
        events(Event("warning", {"message": message}))
        return
    for kernel, group in groups.items():
        found = [times[number].get(program.kernels[kernel].name) for number in range(min(len(group), len(times)))]
        _keep(group, found, store, terms.threads)
    name = f"comparing {len(runs)} packages with rivals of {len(groups)} kernels"
    events(Event("phase", {"name": name, "seconds": round(time.monotonic() - started, 3)}))


def _cast(groups: Mapping[int, Sequence[Record]], choices: Sequence[Choice], number: int) -> list[Choice]:
    """The choices of package `number`: the rival of that number of each kernel, or its first one."""
    cast = list(choices)
    for kernel, group in groups.items():
        record = group[number if number < len(group) else 0]
        cast[kernel] = Choice(record.trace, replace(choices[kernel].provenance, form=record.form))
    return cast


def _in_turns(runs: Sequence[Run], threads: int, events: Callable[[Event], None]) -> list[dict[str, float]]:
    """For each package: nanoseconds of a call by the name of its kernel, the least of each layer over all sweeps.

    All have equally many runs, and what disturbs one of them only ever makes it longer.
    """
    split = split_cores()
    lock = TimingLock(on_event=events)
    best: list[dict[int, LayerTime]] = [{} for _ in runs]
    try:
        with nullcontext() if split.shared or threads > 1 else confined(split.measuring):
            for run, found in ((run, found) for _ in range(_SWEEPS) for run, found in zip(runs, best, strict=True)):
                lock.acquire()
                layers = run(_RUNS, _SECONDS)
                lock.release()
                for layer in layers:
                    if layer.index not in found or layer.min_us < found[layer.index].min_us:
                        found[layer.index] = layer
    finally:
        lock.close()
    return [_by_kernel(list(found.values())) for found in best]


def _by_kernel(layers: Sequence[LayerTime]) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for layer in layers:
        times.setdefault(layer.kernel, []).append(1e3 * layer.min_us)
    return {kernel: sum(found) / len(found) for kernel, found in times.items()}


def _keep(group: Sequence[Record], found: Sequence[float | None], store: RecordStore, threads: int) -> None:
    """Note what the rivals of one kernel took, and forget what others, or they, took in an earlier rehearsal."""
    fact = in_package_fact(threads)
    noted = {record.candidate: ns for record, ns in zip(group, found, strict=False) if ns is not None}
    for record in store.all(replace(group[0].key, board=None)):
        environment = {name: value for name, value in record.environment.items() if name != fact}
        if record.candidate in noted:
            environment[fact] = noted[record.candidate]
        if environment != record.environment:
            store.refine(replace(record, environment=environment))
