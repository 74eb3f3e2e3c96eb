"""Cost model of register tiles: multiply-adds and loads of the unrolled body, and how far it hides latency.

Tiles that do not fit the registers are excluded: no measurement could show that they are fast anyway. Of a window that
is too large to be unrolled as a whole, only the sums must fit. A sum of few terms takes no less than the lines of its
results, and of the tensors added to them, where L1 does not hold these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod

from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.liveness import Body, Reads, epilogue_operands, reads_of
from edgetune.schedule.sketches.register_tile import MAX_UNROLLED_WINDOW
from edgetune.schedule.sketches.tile import Tile
from edgetune.schedule.sketches.variants import Variant
from edgetune.target.costs import Costs
from edgetune.target.isa.vector_instructions import NEIGHBOURS, TileSize
from edgetune.target.target import Target

_DEPTH, _MOST_DEPTH = 4, 8  # steps of a long reduction that are unrolled, and of neighbours in memory
_AXES_OF_WINDOW = 3  # along taps, along steps, and of the products of a step
_UNROLLED = 256  # most stores in a body that is unrolled by default
LINE = 64  # bytes
_OPEN_LINES = 4  # rows of results, and of what is added to them, whose last lines wait for their other part
_AHEAD = 2  # operands of the next multiply-add, loaded while this one runs; the vectors of a block are loaded together


def cheapest(
    analysis: BlockAnalysis, tile: Tile, variant: Variant, target: Target, pixels: Iterable[tuple[int, int]]
) -> tuple[float, dict[str, int]]:
    """Cycles per multiply-add of one vector, and the sizes (as in `default_sizes.tile_sizes`) of the cheapest tile.

    `pixels` has the choices: pairs of the number of rows and the pixels in each. Infinity and no sizes if no tile fits.
    """
    columns = tile.anchor.spatial_extents[tile.pixel] if variant.fuse and tile.pixel is not None else 0
    registers = max(2, target.vector_registers)
    reads = reads_of(tile.anchor, tile.row, tile.pixel, tile.channel, tile.lanes)
    epilogue = epilogue_operands(analysis, tile.after, tile.channel)
    results = _results_of(analysis, tile, target)
    tiles = target.tiles_of_dots(tile.products) if tile.products > 1 else frozenset()
    joint = {(size.rows, size.columns) for size in tiles}
    taps = {size.taps for size in tiles}
    best: tuple[tuple[float, float, int], dict[str, int]] | None = None
    for (row, pixel), vectors in product(pixels, divisors(tile.vectors, registers)):
        size = row * pixel * vectors
        if size > registers or (row > target.instruction_set.tile_rows and pixel > 1):
            continue
        if joint and (1 not in (row, pixel) or (row * pixel, vectors) not in joint):
            continue  # pixels of several rows are not at equal distances
        over_pixels = variant.order[-1] != "channel" or vectors == tile.vectors
        choices = _unrolled(tile, max(1, _UNROLLED // size), taps)
        for unrolled in choices:
            body = Body(row, pixel, vectors, tuple(unrolled.values()), columns)
            if joint and _has_taps(body) and _window_of(body, reads, tile, target) is None:
                continue
            cycles, sums = _cost(body, reads, epilogue, over_pixels, tile, target, carried=len(choices) > 1)
            cycles /= tile.products
            cost = max(cycles, results.cycles(tile, body, target.costs, over_pixels=over_pixels)), cycles, sums
            if best is None or cost < best[0]:
                best = cost, {"row": row, "pixel": pixel, "vectors": vectors} | unrolled
    return (best[0][0], best[1]) if best else (inf, {})


def _windows(tile: Tile) -> list[int]:
    """Reduction axes short enough to be unrolled completely, innermost first; without the depth of a first layer."""
    extents = tile.steps
    found = [n for n in reversed(range(len(extents))) if 1 < extents[n] <= MAX_UNROLLED_WINDOW]
    return found[1:] if len(found) > 1 and found[0] == len(extents) - 1 and not tile.per_channel else found


def _unrolled(tile: Tile, most: int, taps: Collection[int] = ()) -> list[dict[str, int]]:
    """Choices of the unrolled steps of each reduction axis, at most `most` steps in total.

    `taps` are those of windows of which one function computes several steps.

    A window that does not fit as a whole can be unrolled along any of its axes: along that of the pixels, neighbours
    share what they load.
    """
    extents, windows = tile.steps, _windows(tile)
    sizes = {f"reduction{number}": 1 for number in range(len(extents))}
    depth = len(extents) - (1 if tile.products == 1 else 2)
    if not windows:
        last = {f"reduction{depth}": max(divisors(extents[depth], min(_DEPTH, most)))} if extents else {}
        return [sizes | last]
    orders = [windows[:1]]
    if tile.per_channel:
        orders = [[first, *(other for other in windows if other != first)] for first in windows]
    choices: list[dict[str, int]] = []
    for order in orders:
        left, choice = most, dict(sizes)
        for number in order:
            if extents[number] <= left:
                choice[f"reduction{number}"] = extents[number]
                left //= extents[number]
        if choice not in choices:
            choices.append(choice)
    if tile.products > 1:  # along the axis of neighbours in memory
        choices.append(sizes | {f"reduction{depth}": max(divisors(extents[depth], min(_MOST_DEPTH, most)))})
    window = extents[depth - 1] if depth else 1
    if window > 1 and window in taps:
        steps = divisors(extents[depth], min(_MOST_DEPTH, most // window))
        choices += [sizes | {f"reduction{depth - 1}": window, f"reduction{depth}": number} for number in steps]
    return choices


def _cost(
    body: Body, reads: Reads, epilogue: int, over_pixels: bool, tile: Tile, target: Target, *, carried: bool = False
) -> tuple[float, int]:
    """Cycles per multiply-add of one vector (lower is better), then the tile size: smaller tiles first.

    `over_pixels`: the loop around the reduction runs over pixels, so channels and their operands, such as the
    `epilogue` operands of each vector, are the same in all iterations; compilers load them before the loop. `carried`:
    a loop runs over a part of the window, and what neighbours share need not fit the registers; it is loaded again.
    """
    if tile.from_memory:
        return _cost_of_dots(body, reads, epilogue * body.vectors if over_pixels else 0, tile, target)
    size = body.accumulators
    whole = over_pixels and body.reduction == tile.steps
    few = body.reduction == tile.steps and tile.pixel is not None
    shared = 1 if few and body.row * body.pixel == 1 else body.vectors  # of one row, they are operands in memory
    ahead = max(_AHEAD, shared, epilogue * body.vectors + 1 if over_pixels else 0)
    taken, registers = reads.registers(body, over_pixels=whole) + ahead, max(2, target.vector_registers)
    spilled = 0
    if taken > registers:
        if not carried or size + ahead >= registers:
            return _too_large(taken, size)
        spilled = taken - registers
    kept = reads.carried(body, tile.steps)
    spilled = max(spilled, size + ahead + kept - registers if kept else 0)
    loads = (reads.loads(body) + target.costs.repeated_load * spilled) / prod(body.reduction)
    far = not tile.per_channel and tile.weight_bytes > target.l1_bytes // 2
    cycles = step_cycles(target.costs, size, loads, body.vectors if far else 0)
    cycles += target.costs.crossing_load * body.vectors if tile.crosses_lines else 0.0
    return (cycles / size, size)


def _too_large(taken: int, size: int) -> tuple[float, int]:
    """The cost of a tile that needs `taken` registers, more than there are."""
    return (1e3 + taken, size)


def _cost_of_dots(body: Body, reads: Reads, epilogue: int, tile: Tile, target: Target) -> tuple[float, int]:
    """The same of products that an instruction adds to the lanes.

    It takes the numbers of all lanes from memory, copied to all lanes, and compilers load them again for each tap of a
    window. Where it only multiplies, an addition of its own follows: sums then do not wait for products.
    """
    size, step = body.accumulators, replace(body, reduction=tuple(1 for _ in body.reduction))
    ahead = max(_OF_PRODUCT, epilogue + 1 if epilogue else 0)
    of_vector = max(1, 8 * tile.lanes * tile.sum_element // max(1, target.vector_bits))
    operands = min(of_vector, _MOST_OF_OPERAND) * (reads.registers(step) - size)
    taken, registers = of_vector * size + operands + ahead, max(2, target.vector_registers)
    tiles = target.tiles_of_dots(tile.products)
    joint = any((of.rows, of.columns) == (body.row * body.pixel, body.vectors) for of in tiles)
    whole = size == 1 and target.has_windows_of(tile.lanes)
    if taken > registers and not (joint or whole):  # such functions say in which order registers are loaded
        return _too_large(taken, size)
    far = body.vectors if tile.weight_bytes > target.l1_bytes // 2 else 0
    chained = not target.adds_apart(tile.products, tile.lanes)
    costs, own = target.costs, reads.loads(step, of_lanes=True)
    loads = reads.loads(step) + (costs.widened_factors - 1) * own
    *groups, last = body.reduction[:-1] if tile.products > 1 else body.reduction
    around = (costs.iteration + costs.addresses * prod(groups)) / (prod(groups) * last)
    window = _window_of(body, reads, tile, target)
    if window is not None:
        loads = (window.places + window.taps * window.columns) / window.taps + (costs.widened_factors - 1) * own
        addresses = costs.addresses + (0 if window.near else costs.instruction * (window.places - 1))
        around = (costs.iteration + addresses) / (window.taps * window.steps)
    joins = tile.lanes == 1 and NEIGHBOURS in _equally_far(body)
    of_results = 0.0 if joins else costs.joint_results * tile.operations_after * size / prod(tile.steps)
    return ((step_cycles(costs, size, loads, far, chained=chained) + around + of_results) / size, size)


def _equally_far(body: Body) -> set[int]:
    """The divisors of how many results of a body follow one another at equal distances."""
    if body.vectors > 1:
        return set(divisors(body.vectors, body.vectors))
    pixels = body.row * body.pixel if 1 in (body.row, body.pixel) else 1
    return set(divisors(pixels, pixels))


def _has_taps(body: Body) -> bool:
    """Whether several steps of several taps are unrolled."""
    taps, steps = body.reduction[-_AXES_OF_WINDOW:-1] if len(body.reduction) >= _AXES_OF_WINDOW else (1, 1)
    return taps > 1 and steps > 1


def _window_of(body: Body, reads: Reads, tile: Tile, target: Target) -> TileSize | None:
    """The function that computes a body of several taps, if there is one and neighbours share the rows of data."""
    if len(body.reduction) < _AXES_OF_WINDOW:
        return None
    *others, taps, steps, _ = body.reduction
    window = TileSize(steps, body.row * body.pixel, body.vectors, taps)
    apart = tile.steps[-2] * tile.products  # of pixels, where taps are those of a row
    last = apart * (window.places - 1) + tile.products * (steps - 1)
    window = window._replace(near=body.row == 1 and last <= target.near_rows_of_dots(tile.products))
    if taps == 1 or prod(others) > 1 or window not in target.tiles_of_dots(tile.products):
        return None
    loads = reads.loads(replace(body, reduction=(*others, taps, 1, 1)))
    return window if loads == window.places + taps * window.columns else None


_MOST_OF_OPERAND = 2  # registers of an operand of several lanes, which are bytes
_OF_PRODUCT = 1  # registers that hold a product before it is added


@dataclass(frozen=True)
class _Results:
    """What passes between L2 and L1: `tensors` are the results and what is added to them, none if L1 holds them.

    `split`: rows begin inside a line.
    """

    tensors: int
    split: bool

    def cycles(self, tile: Tile, body: Body, costs: Costs, *, over_pixels: bool) -> float:
        """Cycles per multiply-add of one vector.

        Where rows begin inside a line, two tiles share it, and it takes longer if many lines lie between the two.
        """
        rows = body.row * body.pixel * self.tensors
        apart = self.split and body.vectors < tile.vectors and (over_pixels or rows > _OPEN_LINES)
        lines = self.tensors * tile.lanes * tile.output_element / LINE
        return (costs.shared_line if apart else 1.0) * costs.far_line * lines / prod(tile.anchor.reduction_extents)


def _results_of(analysis: BlockAnalysis, tile: Tile, target: Target) -> _Results:
    stages = [tile.anchor, *(analysis.stage(name) for name in tile.after)]
    shape = [int(extent) for extent in stages[-1].block.writes[0].source.ty.shape]
    made = [write.source for stage in stages for write in stage.block.writes]
    added = [region.source for stage in stages[1:] for region in stage.reads()]
    added = [one for one in added if not any(one.same_as(other) for other in made)]
    tensors = 1 + sum([int(extent) for extent in one.ty.shape] == shape for one in added)
    held = tensors * tile.output_element * prod(shape) <= target.l1_bytes
    return _Results(0 if held else tensors, shape[-1] * tile.output_element % LINE > 0)


def step_cycles(costs: Costs, accumulators: int, loads: float, far: int = 0, *, chained: bool = True) -> float:
    """Cycles of one step of an unrolled tile; `far` of its loads are vectors that come from beyond L1.

    `chained`: the next step adds to the same sums, and waits for them where they are few.
    """
    least = costs.operations_in_flight if chained else 1
    begun = max(accumulators, least, costs.place_of_load * loads)
    return begun * costs.operation + costs.load * loads + costs.far_load * far


def ideal_cycles(vectors: float, bytes_touched: int, target: Target) -> float:
    """Cycles that `step_cycles` gives for `vectors` multiply-adds of one vector, if nothing is loaded twice.

    Loads are those of `bytes_touched` bytes, each once; beyond L1 they cost more.
    """
    loads = 8 * bytes_touched / max(target.vector_bits, 64)
    costs = target.costs
    far = costs.far_load if bytes_touched > target.l1_bytes else 0.0
    return max(vectors, costs.place_of_load * loads) * costs.operation + (costs.load + far) * loads


def divisors(extent: int, limit: int) -> list[int]:
    """Divisors of `extent` that are at most `limit`; always contains 1."""
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]
