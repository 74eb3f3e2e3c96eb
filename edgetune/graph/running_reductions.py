"""Running reductions: the sum or extreme of all elements up to each one, from windows instead of a triangle.

The definition takes n / 2 steps for each element. With B elements in a window, W[j] reduces x[j], .. x[j + B - 1], and
the result is the reduction of W[i], W[i + B], .. of a row that is padded by what changes no result: about 2 B + n / B
steps, and lanes lie side by side in both stages (compare W. D. Hillis and G. L. Steele, Data Parallel Algorithms, CACM
29:12, 1986, where each window is twice as long as the one before). Along an outer axis x[j] is a row, and so is W[j].
Rows of floats have at least 48 elements, and results times terms are at least `Margins.running_terms`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2

from tvm import tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import mentions, with_places
from edgetune.graph.element_type import is_floating, type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, reduction_of, variable, with_stages
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import Expr, PrimFunc, Stmt

FEWEST_TERMS = 48
"""Terms of a row below which windows save little."""

_LANES = 8
"""Elements of windows and results are a multiple of this: whole vectors of AVX2, and so of NEON."""

_CONSTANTS = (tirx.FloatImm, tirx.IntImm)
_SLACK = {
    tirx.LE: lambda node: node.b - node.a,
    tirx.LT: lambda node: node.b - node.a - 1,
    tirx.GE: lambda node: node.a - node.b,
    tirx.GT: lambda node: node.a - node.b - 1,
}


@dataclass(frozen=True)
class Running:
    """A reduction of `value`, an expression of `term`, over its places up to that of `result`, or from that on.

    `result` is the axis number `place` of the results. With `offset` c, these are the places k <= i + c, or k >= i + c
    where it is `later`. `idle` stands for all others.
    """

    result: Axis
    place: int
    term: Axis
    value: Expr
    idle: Expr
    offset: int
    later: bool


def shorten_running_reductions(function: PrimFunc) -> PrimFunc:
    """`function` with three stages instead of each running sum, maximum or minimum along an axis."""
    return with_stages(function, _stages)


def _stages(statement: Stmt) -> list[ReductionStage]:
    whole = reduction_of(statement)
    found = None if whole is None else running(whole)
    if whole is None or found is None or found.term[1] < FEWEST_TERMS or not is_floating(whole.out):
        return []
    return _windows(whole, found) if whole.elements * whole.terms >= MARGINS.running_terms else []


def running(whole: ReductionStage) -> Running | None:
    """The running reduction that a stage is; None for any other stage."""
    if len(whole.summed) != 1 or not whole.spatial:
        return None
    (term,), select = whole.summed, whole.term
    fixed = isinstance(whole.first, _CONSTANTS) and isinstance(select, tirx.Select)
    if not fixed or type(select.condition) not in _SLACK:
        return None
    places = [place for place, axis in enumerate(whole.spatial) if mentions(select.condition, axis[0])]
    if len(places) != 1 or term[1] != whole.spatial[places[0]][1]:
        return None
    (place,) = places
    result = whole.spatial[place]
    if not isinstance(select.false_value, _CONSTANTS):
        return None
    sums = whole.combine is tirx.Add
    if sums and (float(select.false_value.value) != 0.0 or float(whole.first.value) != 0.0):
        return None
    value = select.true_value
    if mentions(value, result[0]) or not mentions(value, term[0]):
        return None
    if not all(one.same_as(axis[0]) for one, axis in zip(whole.at, whole.spatial, strict=True)):
        return None
    return _of_condition(select, result, place, term)


def _of_condition(select: Expr, result: Axis, place: int, term: Axis) -> Running | None:
    slack = _SLACK[type(select.condition)](select.condition)
    for later, sign in ((False, 1), (True, -1)):
        offset = simplified(slack - sign * (result[0] - term[0]))
        if isinstance(offset, tirx.IntImm):
            shift = sign * int(offset.value)
            if abs(shift) <= 1:
                return Running(result, place, term, select.true_value, select.false_value, shift, later)
    return None


def _windows(whole: ReductionStage, found: Running) -> list[ReductionStage]:
    """The padded rows, the windows in them, and the results of windows side by side.

    A row that is no whole number of vectors is computed in whole ones. The last stage copies what is wanted of them,
    and compares it with the number that stands for terms that are left out.
    """
    count, dtype, axis = found.term[1], whole.index_type, found.place
    lanes = _LANES if axis == len(whole.spatial) - 1 else 1
    width = _width(count)
    windows = -(-(count + 1) // width)
    results = _whole(count, lanes)
    before = 0 if found.later else windows * width - 1 - found.offset
    lead = _whole(before, lanes)
    begin = lead - before  # where the window of the first result begins
    length = results + (windows - 1) * width

    def stage(word: str, extent: int, summed: tuple[Axis, ...] = ()) -> ReductionStage:
        """A stage with its own axes, which still lacks its term; its running axis is as long as `extent`."""
        axes = [(variable(str(one.name), dtype), size) for one, size in whole.spatial]
        axes[axis] = (variable(word, dtype), extent)
        name, out = f"{whole.name}_{word}", buffer_of(f"{whole.out.name}_{word}", axes, type_of(whole.out))
        at = tuple(one for one, _ in axes)
        return replace(whole, name=name, out=out, at=at, spatial=tuple(axes), summed=summed)

    def moved(one: ReductionStage, place: Expr) -> list[Expr]:
        """The places of a stage, with another one along the running axis."""
        return [*one.at[:axis], place, *one.at[axis + 1 :]]

    padded = stage("row", begin + length + width - 1)
    source = padded.at[axis] + found.offset if found.later else padded.at[axis] - lead
    at = {old: new for (old, _), new in zip(whole.spatial, padded.at, strict=True)} | {found.term[0]: source}
    within = source < count
    inside = within if found.later and found.offset >= 0 else tirx.all(source >= 0, within)
    padded = replace(padded, term=tirx.if_then_else(inside, with_places(found.value, at), whole.first))
    step = (variable("step", dtype), width)
    inner = stage("windows", length, (step,))
    first = inner.at[axis] + step[0]
    inner = replace(inner, term=tirx.BufferLoad(padded.out, moved(inner, first + begin if begin else first)))
    number = (variable("number", dtype), windows)
    copied = results > count or _idle_counts(whole, found)
    outer = stage("vectors", results) if copied else whole
    window = tirx.BufferLoad(inner.out, moved(outer, outer.at[axis] + number[0] * width))
    outer = replace(outer, summed=(number,), term=window)
    if not copied:
        return [padded, inner, outer]
    result: Expr = tirx.BufferLoad(outer.out, list(whole.at))
    result = with_idle(whole, found, result)
    return [padded, inner, outer, replace(whole, summed=(), term=result)]


def with_idle(whole: ReductionStage, found: Running, result: Expr) -> Expr:
    """The reduction of a `result`, that of the terms which count, with the number that stands for the others."""
    if not _idle_counts(whole, found):
        return result
    place = whole.at[found.place]
    left_out = place > -found.offset if found.later else place < found.term[1] - 1 - found.offset
    return whole.combine(result, tirx.Select(left_out, found.idle, whole.first))


def _idle_counts(whole: ReductionStage, found: Running) -> bool:
    """Whether the number that stands for terms left out may be a result: it lies beyond what an extreme begins with."""
    idle, first = float(found.idle.value), float(whole.first.value)
    return idle > first if whole.combine is tirx.Max else idle < first if whole.combine is tirx.Min else False


def _width(count: int) -> int:
    """A power of two near the root of half of the elements, where a result takes the fewest steps."""
    return max(_LANES, 1 << round(log2(count / 2) / 2))


def _whole(elements: int, lanes: int) -> int:
    return -(-elements // lanes) * lanes
