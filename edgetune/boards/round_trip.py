"""Deadlines from round-trip times: a constant for the board's own work, plus the measured round trips of its link."""

from __future__ import annotations

from collections import deque

MOST_ROUND_TRIP_S = 10.0
"""Upper limit of the round-trip time in deadlines; a slower link gets no more time than this."""

ANSWER, COMMAND, LOGIN, STEPS = 4, 8, 20, 40
"""Round trips that a step may take: a request on an open stream, a command including its channel, a login over one
host, several commands (or a trial through TVM). Each is about twice the number needed, in case packets are lost."""

_SAMPLES = 8


def allowed_s(least_s: float, round_trip_s: float, trips: int) -> float:
    """Return the deadline of a step in seconds; it applies to everything that a board answers.

    It is `least_s + trips * min(round_trip_s, MOST_ROUND_TRIP_S)`: at least `least_s`, for the board's own work, at
    most `least_s + 10 * trips`. `round_trip_s` is measured (`RoundTrip`), 0 on this machine.
    """
    return least_s + trips * min(max(0.0, round_trip_s), MOST_ROUND_TRIP_S)


class RoundTrip:
    """The round-trip time of one link: the longest of the last 8 measurements, 0 before the first.

    A round trip ends with the answer of the program at the other end, so a slow board counts like a slow link.
    """

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=_SAMPLES)

    def add(self, seconds: float) -> None:
        """Add one measured round trip; may be called from any thread."""
        self._samples.append(seconds)

    @property
    def seconds(self) -> float:
        """The round-trip time to use in deadlines, in seconds."""
        return max(tuple(self._samples), default=0.0)
