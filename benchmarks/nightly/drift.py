"""How often drift is noted: python -m benchmarks.nightly.drift [--series 300] [--seed 1] [--check].

A/A nights of one program, each the median of three starts of `simulator`, show a change of level too often or not: that
is what the penalty in `edgetune.farm.drift` is from. Then the last nights are made slower by a known step. A note is
looked for each night, as a page does it, so the table counts nights as well. With --check the exit status is 1 where
more than 1 % of the series show a change. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from benchmarks.nightly.many_cells import costs, draw
from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise
from edgetune.farm.drift import LEAST_NIGHTS, PENALTY, cuts, drift_of

LENGTHS = (14, 30, 90, 365)
MOST_SHOWN = 0.01
_STARTS = 3


def series_of(noise: Noise, length: int, number: int, seed: int) -> np.ndarray:
    """Logarithms of the costs of some series of nights, (number, length)."""
    draws = draw(np.random.default_rng((seed, length)), length * number, _STARTS)
    return np.asarray(np.median(costs(draws, noise), axis=1).reshape(number, length))


def share_shown(series: np.ndarray) -> float:
    """Share of series that show a change of level."""
    return sum(bool(cuts(one, PENALTY)) for one in series) / len(series)


def share_found(series: np.ndarray, step: float, nights: int) -> float:
    """Share of series whose step in the last nights is shown, at most two nights from where it is."""
    changed = series.copy()
    changed[:, -nights:] += np.log1p(step)
    begins = series.shape[1] - nights
    return sum(any(abs(point - begins) <= 2 for point in cuts(one, PENALTY)) for one in changed) / len(changed)


def share_noted(series: np.ndarray) -> float:
    """Share of nights on which a note stands on the page, of all nights that have enough before them."""
    names = [str(number) for number in range(series.shape[1])]
    looked = [
        drift_of(names[:end], np.exp(one[:end]), counts=False) is not None
        for one in series
        for end in range(LEAST_NIGHTS, series.shape[1] + 1)
    ]
    return sum(looked) / len(looked)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    print("| nights | A/A series that show a change | found: +3 % for 14 nights | +6 % for 7 | +6 % for 14 |")
    print("|---|---|---|---|---|")
    worst = 0.0
    for name, noise in (("ordinary", ORDINARY), ("steps and heavy tails", ROUGH)):
        for length in LENGTHS:
            series = series_of(noise, length, given.series, given.seed)
            shown = share_shown(series)
            worst = max(worst, shown)
            row = {"shown": shown}
            if length > max(LEAST_NIGHTS, 28):
                row |= {
                    f"+{100 * step:g} % for {nights}": share_found(series, step, nights)
                    for step, nights in ((0.03, 14), (0.06, 7), (0.06, 14))
                }
            result[f"{length}, {name}"] = row
            said = [f"{100 * share:.1f} %" for share in row.values()]
            print("|", " | ".join([f"{length}, {name}", *said, *["-"] * (4 - len(said))]), "|")
    noted = share_noted(series_of(ORDINARY, 120, max(1, given.series // 10), given.seed))
    print(f"A/A nights with a note: {100 * noted:.2f} %")
    print(json.dumps({"series": given.series, "seed": given.seed, "noted": noted, "of": result}))
    if given.check and worst > MOST_SHOWN:
        sys.exit(f"{100 * worst:.1f} % of A/A series show a change")


if __name__ == "__main__":
    main()
