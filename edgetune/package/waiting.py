"""What threads do while they wait for the others at the end of a loop: ask for the weights of the next one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from edgetune.package.calls import CallView
from edgetune.package.constants import Weights


def ask_while_waiting(calls: Sequence[CallView], weights: Weights, cached_bytes: int) -> tuple[CallView, ...]:
    """Return `calls` with the weights that threads ask for at the ends of the loops of each shared one.

    These are the largest constant of the next shared call, as far as half the second cache of a core (`cached_bytes`)
    goes: the rest belongs to the tensors at hand. Each core reads all weights of a layer whose rows are shared, out of
    a cache or memory that all cores read; what came while a thread had to wait comes for nothing. Where all weights
    stay in the second cache from run to run nothing is asked for.
    """
    if weights.nbytes <= cached_bytes:
        return tuple(calls)
    shared = [number for number, call in enumerate(calls) if call.workers > 1]
    found = list(calls)
    for number, following in itertools.zip_longest(shared, shared[1:]):
        constants = {
            calls[call].arguments[position]: weights.items[index].array.nbytes
            for (call, position), index in weights.uses.items()
            if call == following
        }
        largest, nbytes = max(constants.items(), key=itemgetter(1), default=("NULL", 0))
        found[number] = replace(calls[number], ahead=f"{largest}, {min(nbytes, cached_bytes // 2)}u")
    return tuple(found)
