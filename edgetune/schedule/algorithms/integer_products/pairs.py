"""Products of pairs of taps: each lane multiplies its own data, two taps of a window at a time.

In a depthwise convolution neighbouring results share no data, so that no dot product has one operand for all lanes. Two
neighbouring taps lie a pixel apart: a step loads a vector of bytes of each, and adds the sum of both products to the
lanes. Of bytes, with weights that are not -128, that sum fits 16 bits. The taps of a small window are one axis, so that
one at most is missing in the last step: the last tap again, with weights of zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import tirx

from edgetune.affine.expressions import with_places
from edgetune.codegen.dot_products import RESULTS_AT_A_TIME
from edgetune.graph.kernels import SYMMETRIC_BYTES
from edgetune.graph.reduction_stage import Axis, variable
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import product_of
from edgetune.schedule.algorithms.integer_products.operand import Steps, copied, is_computed
from edgetune.schedule.algorithms.integer_products.product import WEIGHTS, Product
from edgetune.schedule.algorithms.integer_products.steps import summed_in_steps
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.register_tile import MAX_UNROLLED_WINDOW
from edgetune.tvm_types import Expr, PrimFunc, Var

_PAIR = 2


def pairs_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` of an unscheduled PrimFunc: "pairs" and the results of a step.

    None if the function does not sum products of bytes of each lane with constant weights, or if rows of results are no
    whole steps.
    """
    results = int(name.rpartition("_")[2])
    matched = product_of(function) if SYMMETRIC_BYTES in (function.attrs or {}) else None
    if matched is None:
        return None
    analysis, found = matched
    if not found.has_own_data or found.whole.spatial[-1][1] % results:
        return None
    axes = [axis for axis in found.whole.summed if axis[1] > 1]
    windows = [tuple(axes), *((axis,) for axis in reversed(axes))]
    known = [one for window in windows if (one := _taps_in_steps(found, window, analysis)) is not None]
    steps = min(known, key=Steps.waste, default=None)
    made = None if steps is None else summed_in_steps(name, analysis, found, steps, tuple(range(_PAIR)))
    if made is None:
        return None
    return Algorithm(name, made.function.with_attr(RESULTS_AT_A_TIME, results), made.transforms)


def _taps_in_steps(found: Product, axes: tuple[Axis, ...], analysis: BlockAnalysis) -> Steps | None:
    """The taps along some axes in pairs, one axis after the other; None for more of several than are unrolled."""
    terms = prod(extent for _, extent in axes)
    missing = -terms % _PAIR
    steps = (terms + missing) // _PAIR
    if not axes or (len(axes) > 1 and steps > MAX_UNROLLED_WINDOW):
        return None
    index = str(axes[0][0].ty.dtype)
    step, inner = variable("taps", index), variable("tap", index)
    copy = copied(found, WEIGHTS) if is_computed(found.data.source, analysis) else None
    tap = step * _PAIR + inner
    places = _places(axes, tirx.min(tap, terms - 1) if missing else tap)
    load = tirx.BufferLoad(
        found.data.source if copy is None else copy.out, [with_places(one, places) for one in found.data.indices]
    )
    return Steps(axes, step, inner, missing, copy, load)


def _places(axes: Sequence[Axis], tap: Expr) -> dict[Var, Expr]:
    """The place of a tap along each of some axes."""
    places: dict[Var, Expr] = {}
    for axis, extent in reversed(axes[1:]):
        places[axis] = tirx.floormod(tap, extent)
        tap = tirx.floordiv(tap, extent)
    return places | {axes[0][0]: tap}
