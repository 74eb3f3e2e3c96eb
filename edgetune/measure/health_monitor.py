"""Health monitor of one board between candidates: reads its temperature, times its canary, and once its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event as Flag

from edgetune.boards.environment import Reading
from edgetune.boards.protocol import Board
from edgetune.measure.attempt import Attempt
from edgetune.measure.canary import Canary
from edgetune.measure.peaks import PeakProgram
from edgetune.measure.trend import State, Trend

CANDIDATES = 20
SECONDS = 20.0
"""A canary runs after this many candidates or seconds, whichever comes first ..."""
COST_SHARE = 0.02
"""... but takes at most this share of the time that the board is busy."""

_FIRST_COST_S = 0.02
_COOLER_C = 5.0
_COOL_TICK_S = 1.0
_NO_USE_S = 600.0


class BoardWatch:
    """Use from the board's own thread. `tell` receives the kind of event and a sentence.

    `peaks` are the limits of its core for records' environments, empty until they are measured.
    """

    def __init__(
        self,
        board: Board,
        canary: Callable[[], Canary | None],
        tell: Callable[[str, str], None],
        *,
        ceiling_c: float,
        cooling_s: float,
        closing: Flag,
    ) -> None:
        self.trend = Trend()
        self.peaks: dict[str, float] = {}
        self.canaries = 0
        self.canary_s = 0.0
        self.cooling_total_s = 0.0
        self._board = board
        self._canary = canary
        self._tell = tell
        self._ceiling, self._cooling = ceiling_c, cooling_s
        self._closing = closing
        self._broken = False
        self._peaks_tried = False
        self._cost = _FIRST_COST_S
        self._busy = 0.0
        self._candidates = 0
        self._since = time.monotonic()
        self._no_cooling_before = 0.0

    @property
    def state(self) -> State:
        """State of the board's speed; always "steady" for a board that counts instructions."""
        return "steady" if self._board.facts.get("clock") == "instructions" else self.trend.state

    def worked(self, seconds: float) -> None:
        """Count one candidate that kept the board busy for `seconds`."""
        self._busy += seconds
        self._candidates += 1

    def look(self, turn: Attempt, mark: Callable[[str, float], None]) -> None:
        """Do the checks that are due before the next candidate; the board is reserved. Raises what the board raises."""
        if self._cooling > 0:
            self._cool(mark)
        canary = self._canary()
        if canary is None:
            return
        if canary.peaks is not None and not self._peaks_tried:
            self._peaks_tried = True  # also if the board is lost meanwhile
            self._find_peaks(canary.peaks, turn)
        if self._due():
            self._time(canary, turn)

    def _due(self) -> bool:
        if self._broken or self._board.facts.get("clock") == "instructions":
            return False
        if self._busy * COST_SHARE < self._cost:
            return False
        often = self._candidates >= CANDIDATES or time.monotonic() - self._since >= SECONDS
        return often or self.trend.state != "steady"

    def _time(self, canary: Canary, turn: Attempt) -> None:
        started = time.monotonic()
        ran = turn.run(turn.sent(canary.request()))
        self._cost = time.monotonic() - started
        self.canary_s += self._cost
        self.canaries += 1
        self._busy, self._candidates, self._since = 0.0, 0, time.monotonic()
        if ran.status != "ok" or not ran.samples_ns:
            self._broken = True
            self._tell("fallback", f"the canary does not run ({ran.status}: {ran.reason}): drift cannot be detected")
            return
        if said := self.trend.add(sorted(ran.samples_ns)[len(ran.samples_ns) // 2]):
            self._tell("drift", said)

    def _find_peaks(self, program: PeakProgram, turn: Attempt) -> None:
        """Measure the limits of the core, once; an emulator and a count of instructions have none."""
        if self._board.facts.get("emulated") == 1 or self._board.facts.get("clock") == "instructions":
            return
        fastest = []
        for request in program.requests():
            ran = turn.run(turn.sent(request))
            if ran.status != "ok" or not ran.samples_ns:
                why = f"{ran.status}: {ran.reason}"
                self._tell("fallback", f"the limits of its core cannot be measured ({why}): no kernel gets a roofline")
                return
            fastest.append(min(ran.samples_ns))
        self.peaks = program.peaks(fastest).to_environment()

    def _cool(self, mark: Callable[[str, float], None]) -> None:
        """Wait while the board is too hot; if that does not help, do not wait again for ten minutes."""
        if time.monotonic() < self._no_cooling_before:
            return
        degrees = self._degrees(mark)
        if degrees is None or degrees < self._ceiling:
            return
        self._tell("drift", f"at {degrees:.0f} C it waits to cool for at most {self._cooling:g} s")
        started = time.monotonic()
        while degrees is not None and degrees >= self._ceiling - _COOLER_C:
            if time.monotonic() - started >= self._cooling:
                self._no_cooling_before = time.monotonic() + _NO_USE_S
                self._tell("drift", f"it is still at {degrees:.0f} C: measuring continues")
                break
            if self._closing.wait(_COOL_TICK_S):
                break
            degrees = self._degrees(mark)
        self.cooling_total_s += time.monotonic() - started

    def _degrees(self, mark: Callable[[str, float], None]) -> float | None:
        mark("cool", _COOL_TICK_S + 30.0)
        reading: Reading | None = self._board.health().get("temperature_c")
        return float(reading) if isinstance(reading, int | float) else None
