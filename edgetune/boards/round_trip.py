"""How long a board may take to answer: a constant for what it does, and what the round trips of its link add."""

from __future__ import annotations

from collections import deque

MOST_ROUND_TRIP_S = 10.0
"""A link that takes longer for a question and its answer is given no more time than one that takes this long."""

ANSWER, COMMAND, LOGIN, STEPS = 4, 8, 20, 40
"""Round trips that a step may take: a question on an open stream, a command from its channel to its end, a login over
one host, several commands (or a trial through TVM). Each is about twice what is needed, for packets that are lost."""

_SAMPLES = 8


def allowed_s(least_s: float, round_trip_s: float, trips: int) -> float:
    """Return how long a step may take, in seconds: the deadline of everything that a board answers.

    It is `least_s + trips * min(round_trip_s, MOST_ROUND_TRIP_S)`: at least `least_s`, which is for the board's own
    work, at most `least_s + 10 * trips`. `round_trip_s` is measured (`RoundTrip`), 0 where nothing is between.
    """
    return least_s + trips * min(max(0.0, round_trip_s), MOST_ROUND_TRIP_S)


class RoundTrip:
    """The round trip of one link: the longest of the last 8 that were measured, 0 before the first.

    A round trip ends with the answer of the program at the other end: a slow board counts as a slow link does.
    """

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=_SAMPLES)

    def add(self, seconds: float) -> None:
        """Take in one measured round trip; from any thread."""
        self._samples.append(seconds)

    @property
    def seconds(self) -> float:
        """The round trip to reckon with."""
        return max(tuple(self._samples), default=0.0)
