"""The catalogue of algorithms: which algorithms exist, and which of them a kernel can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from edgetune.errors import KernelFailed
from edgetune.graph.long_sums import split_all_long_sums
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.dot import dot_product_algorithm
from edgetune.schedule.algorithms.integer_products.lanes import lanes_algorithm
from edgetune.schedule.algorithms.integer_products.pairs import pairs_algorithm
from edgetune.schedule.algorithms.integer_products.wide import wide_algorithm
from edgetune.schedule.algorithms.overlapped_tail.tiles import (
    whole_tiles_algorithm,
    whole_tiles_of,
    whole_tiles_of_vectors_algorithm,
    whole_vectors_algorithm,
)
from edgetune.schedule.algorithms.peeled_reductions import peeled_algorithm
from edgetune.schedule.algorithms.schedule_text import (
    BOTH,
    DIRECT,
    DOTS,
    DOTS_IN_TILES,
    IM2COL,
    LANES,
    PAIRS,
    PEELED,
    TILES,
    VECTORS,
    WIDE,
    WINOGRAD,
)
from edgetune.schedule.algorithms.winograd.function import winograd_algorithm
from edgetune.schedule.algorithms.winograd.minimal_filtering import rounding_note
from edgetune.tvm_types import PrimFunc


def _dots_in_tiles(function: PrimFunc, name: str) -> Algorithm | None:
    return whole_tiles_of(dot_product_algorithm(function, name.partition("+")[0]), name)


_DERIVATIONS: dict[str, Callable[[PrimFunc, str], Algorithm | None]] = {
    **dict.fromkeys(WINOGRAD, winograd_algorithm),
    **dict.fromkeys(VECTORS, whole_vectors_algorithm),
    **dict.fromkeys(TILES, whole_tiles_algorithm),
    **dict.fromkeys(BOTH, whole_tiles_of_vectors_algorithm),
    **dict.fromkeys(PEELED, peeled_algorithm),
    **dict.fromkeys((*DOTS, *IM2COL), dot_product_algorithm),
    **dict.fromkeys(DOTS_IN_TILES, _dots_in_tiles),
    **dict.fromkeys(PAIRS, pairs_algorithm),
    **dict.fromkeys(LANES, lanes_algorithm),
    **dict.fromkeys(WIDE, wide_algorithm),
}


def algorithms_among(function: PrimFunc, names: Iterable[str]) -> Iterator[Algorithm]:
    """The algorithms of an unscheduled PrimFunc among those in `names`, in that order; never the direct one."""
    found = (_derived(function, name) for name in names if name in _DERIVATIONS)
    return (algorithm for algorithm in found if algorithm is not None)


def direct_algorithm(function: PrimFunc) -> Algorithm:
    """The algorithm that a PrimFunc states, with all of its long sums in parts."""
    return Algorithm(DIRECT, split_all_long_sums(function))


def algorithm_named(function: PrimFunc, name: str) -> Algorithm:
    """The algorithm of a PrimFunc called `name`; raises KernelFailed if the function does not support it."""
    if name == DIRECT:
        return direct_algorithm(function)
    algorithm = _derived(function, name) if name in _DERIVATIONS else None
    if algorithm is None:
        raise KernelFailed(
            f"a recorded schedule is for the algorithm {name!r}, which this kernel does not have: tune again"
        )
    return algorithm


def rounding_of(name: str) -> str:
    """The error bound of a Winograd algorithm in one sentence; "" for any other name, even an obsolete one."""
    return rounding_note(name) if name in WINOGRAD else ""


@lru_cache(maxsize=64)
def _derived(function: PrimFunc, name: str) -> Algorithm | None:
    try:
        return _DERIVATIONS[name](function, name)
    except RuntimeError:  # TVM raises it for functions that it does not support
        return None
