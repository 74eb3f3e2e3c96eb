"""Search supervision: runs the search in a child process and restarts it when TVM crashes or hangs.

A task that crashed the search gets another seed, and is left out after `MOST_CRASHES` crashes. Every result is in the
store before the next candidate, so a restart loses only what was being measured.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from edgetune.errors import EdgetuneError, Interrupted
from edgetune.events import Event
from edgetune.interrupts import held, interrupts_held_back
from edgetune.ipc.child_process import ChildProcess
from edgetune.search.counters import EventCounters
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.search_process import Entering, SearchFailed, SearchSetup

MOST_RESTARTS = 5
MOST_CRASHES = 2
"""Crashes after which a task is left out; after fewer it is searched with another seed."""

STEP_SECONDS = 120.0
STEP_SECONDS_PER_CANDIDATE = 2.0
"""Time limit of one search of one task, more for larger rounds: some fifty times what it takes on a slow core."""

_KILLED = "killed by"
_TICK_S = 0.5
_LAST_WORDS = 300


class SupervisedSearch:
    """One search in child processes, one at a time; call `run` once.

    A step of the search that takes longer than `step_seconds` (by default derived from the size of a round) counts as
    a crash of its task.
    """

    def __init__(self, setup: SearchSetup, events: Callable[[Event], None], step_seconds: float | None = None) -> None:
        self._setup = setup
        self._events = events
        self._started = time.monotonic()
        rounds = max(setup.options.batch, len(setup.kernels))
        self._step_seconds = step_seconds or STEP_SECONDS + STEP_SECONDS_PER_CANDIDATE * rounds
        self._suspect: Entering | None = None
        self._since = 0.0
        self._crashes: Counter[str] = Counter()
        self._restarts = 0
        self._tally = EventCounters()
        self._records_before: int | None = None
        self._warnings: list[str] = []
        self._outcome: TuneOutcome | None = None
        self._interrupted = False
        self._ready = False

    def run(self) -> TuneOutcome:
        """Search until there is an outcome.

        Raises what the search raised, EdgetuneError when it keeps crashing, Interrupted when Ctrl-C came too early.
        """
        for _ in range(MOST_RESTARTS + 1):
            outcome, last_words = self._run_child()
            if outcome is not None:
                return self._whole(outcome)
            if self._interrupted:
                raise Interrupted("interrupted; what was measured is kept, and the same command continues")
            if not last_words.startswith(_KILLED):
                raise EdgetuneError(
                    f"the search ended unexpectedly ({last_words}): nothing measured is lost; report this"
                )
            self._after_crash(last_words)
        raise EdgetuneError(
            f"the search crashed {MOST_RESTARTS + 1} times ({last_words}): what was measured is kept; "
            "`edgetune build` makes the package from it"
        )

    def _run_child(self) -> tuple[TuneOutcome | None, str]:
        self._suspect, self._ready = None, False
        with tempfile.TemporaryDirectory(prefix="edgetune-search-") as folder:
            child = ChildProcess("edgetune.search.search_process", [], Path(folder, "log"))
            try:
                child.send(replace(self._setup, options=self._options()))
                with interrupts_held_back():
                    outcome = self._listen(child)
                last_words = "" if outcome else child.last_words()
                self._pass_on(child)
                if outcome is None and self._is_late():
                    return None, f"{_KILLED} us after {self._step_seconds:.0f} s without an end"
                return outcome, last_words
            finally:
                child.close()

    def _listen(self, child: ChildProcess) -> TuneOutcome | None:
        """Forward the child's events until its outcome, None when it ends without; the first Ctrl-C asks it to end."""
        while not child.ended:
            try:
                self._pass_on(child)
                if not select.select([child], [], [], _TICK_S)[0]:
                    if self._is_late():
                        child.kill()
                        return None
                    continue
                with held():  # messages already read are handled before Ctrl-C takes effect
                    for message in child.read_available():
                        self._take(message)
                if self._outcome is not None:
                    return self._outcome
            except KeyboardInterrupt:
                if self._interrupted:
                    child.kill()
                    raise
                self._interrupted = True
                if self._outcome is not None:
                    return self._outcome
                if self._ready:
                    os.kill(child.pid, signal.SIGINT)
                else:  # it is still importing: nothing to end cleanly
                    child.kill()
                    return None
        return None

    def _pass_on(self, child: ChildProcess) -> None:
        for line in child.said():
            self._events(Event("stderr", {"process": "search", "message": line}))

    def _take(self, message: object) -> None:
        if self._outcome is not None:
            return  # nothing after the outcome matters
        if isinstance(message, SearchFailed):
            raise message.error
        if isinstance(message, TuneOutcome):
            self._outcome = message
        elif isinstance(message, Entering):
            self._suspect, self._ready = message, True
            self._since = time.monotonic()
        elif isinstance(message, Event):
            if message.kind == "round" and self._records_before is None:
                self._records_before = cast(int, message.data["records"])
            self._tally.take(message)
            if message.kind != "summary":
                self._events(message)

    def _is_late(self) -> bool:
        """Whether the child has spent too long in one step of the search."""
        searching = self._suspect is not None and self._suspect.workload is not None
        return searching and time.monotonic() - self._since > self._step_seconds

    def _after_crash(self, last_words: str) -> None:
        self._restarts += 1
        suspect, self._suspect = self._suspect, None
        if suspect is None or suspect.workload is None:
            self._warn(f"the search was {_how(last_words)}; starting it again")
            return
        workload = suspect.workload
        self._crashes[workload] += 1
        name = next(kernel.name for kernel in self._setup.kernels if kernel.workload == workload)
        out = self._crashes[workload] >= MOST_CRASHES
        consequence = "it keeps its best schedule so far" if out else "it continues with another seed"
        self._warn(f"the search of {name} was {_how(last_words)} in round {suspect.round}: {consequence}")

    def _options(self) -> TuneOptions:
        options = self._setup.options
        seconds = options.seconds
        if seconds is not None and self._restarts:
            seconds = max(seconds - (time.monotonic() - self._started), 0.0)
        excluded = {name for name, count in self._crashes.items() if count >= MOST_CRASHES}
        return replace(options, seconds=seconds, salts=dict(self._crashes), excluded=options.excluded | excluded)

    def _warn(self, message: str) -> None:
        self._warnings.append(message)
        self._events(Event("warning", {"message": message}))

    def _whole(self, outcome: TuneOutcome) -> TuneOutcome:
        """The outcome of the last child, with counts and time of all of them."""
        whole = replace(
            self._tally.complete(outcome),
            measured=outcome.records - (self._records_before or 0) + self._tally.again,
            failed=self._tally.failed,
            elapsed=time.monotonic() - self._started,
            interrupted=outcome.interrupted or self._interrupted,
            warnings=(*self._warnings, *outcome.warnings),
        )
        self._events(Event("summary", whole.to_json()))
        return whole


def _how(last_words: str) -> str:
    """How the search ended, and the last text that it wrote."""
    how, _, text = last_words.partition(":")
    return f"{how} (it wrote last: {' '.join(text.split())[-_LAST_WORDS:]})" if text.strip() else how
