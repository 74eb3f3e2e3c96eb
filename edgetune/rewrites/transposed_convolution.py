"""Transposed convolutions, and other sums over tensors with zeros between their elements: a dense sum for all phases.

In `out[t] = sum(wide[t + k] * w[k])`, where `wide` has f - 1 zeros after each element of x, results f q + p meet the
elements of x at every f-th tap alone. Each phase p is a dense sum over `x[q + m]`, with taps of its own, and the phases
are channels of one sum, whose results are interleaved (W. Shi et al., Real-Time Single Image and Video Super-Resolution
Using an Efficient Sub-Pixel Convolutional Neural Network, CVPR 2016). f is at most 8. In an image both axes have
phases. Lanes run along phases and channels where the last axis of the results is a channel, or where they fill half a
vector and a result has 32 terms, else along the results. The cycles of the dense sum and its copies must be less than
`Margins.gain` of those of the sum as it is, which skips steps that meet zeros but tests each one. Taps that a phase
lacks are zero, so that an infinite element also makes those results NaN whose window ends beside it.

Four kernels: x with zeros around it, where windows reach over its ends; the taps of all phases; the dense sum; and the
interleaved results, with what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import TypeVar

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import conjuncts, expressions, is_among, is_choice, is_one, mentions, with_places
from edgetune.graph.element_type import is_floating, type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, factors_of, variable
from edgetune.rewrites.reordered import written_by
from edgetune.rewrites.short_sums import term_of_sum
from edgetune.rewrites.transposed_windows import TransposedWindow, is_of_one, window_of, with_ends
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stores
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, Expr, IterVar, Stmt, TvmBuffer, Var

_MOST_PHASES = 8
_LEAST_DEPTH = 32
"""Terms of each phase from which on lanes run along phases and channels: each is a load of one element of x."""


_Item = TypeVar("_Item")


@dataclass(frozen=True)
class _Phases:
    """The sum `total` of products of `load`, an element of x, and `others`, over the windows of x.

    Axes of results that x does not depend on, as the channels of a convolution, are `channels`.
    """

    total: BlockStage
    load: BufferLoad
    others: tuple[Expr, ...]
    windows: tuple[TransposedWindow, ...]
    weights: bool
    """Whether the other factors are constants, so that their taps are copied when the package is built."""

    core: Core

    @property
    def channels(self) -> list[IterVar]:
        """The axes of results that only the other factors depend on."""
        own = [axis for axis in self.total.spatial if any(mentions(one, axis.var) for one in self.others)]
        return [axis for axis in own if not any(mentions(index, axis.var) for index in self.load.indices)]

    @property
    def dtype(self) -> str:
        """The type of the terms."""
        return type_of(self.total.block.body.value)

    @property
    def phases(self) -> int:
        """Phases of all windows."""
        return prod(window.factor for window in self.windows)

    @property
    def joined(self) -> int:
        """Phases and channels, which are one axis."""
        return self.phases * prod(map(extent_of, self.channels))

    @property
    def depth(self) -> int:
        """Terms of each result of a phase."""
        return prod(self._extent(axis) for axis in self.total.reduction)

    @property
    def in_lanes(self) -> bool:
        """Whether lanes run along phases and channels."""
        along = self._window(self.total.spatial[-1])
        fitting = bool(self.channels) and self.joined >= self.core.lanes // 2 and self.depth >= _LEAST_DEPTH
        return along is None or fitting

    def pays(self) -> bool:
        """Whether the dense sum and the copies take less time than the sum as it is."""
        total, last, core = self.total, self.total.spatial[-1], self.core
        if not 1 < max(window.factor for window in self.windows) <= _MOST_PHASES:
            return False
        results = prod(map(self._extent, total.spatial))
        work = results * self.phases * self.depth
        moved = prod(total.spatial_extents) + (0 if self.weights else self.joined * self.depth)
        along = self._window(last)
        if along is not None and along.factor > 1:
            lanes = self.joined if self.in_lanes else along.results
            now = total.work / core.lanes * core.costs.unaligned_operation
        elif any(last.same_as(axis) for axis in self.channels):
            lanes, of_last = self.joined, extent_of(last)
            vectors = total.work / self.phases / of_last * -(-of_last // core.lanes)
            now = vectors * core.costs.operation * core.costs.tested_terms
        else:
            return False
        each = core.costs.operation if self.in_lanes else core.costs.unaligned_operation
        copies = core.move("one_by_one" if self.in_lanes else "interleaved") * moved
        return work / lanes * -(-lanes // core.lanes) * each + copies < core.margins.gain * now

    def kernels(self, after: Sequence[BlockStage]) -> list[list[Stmt | BlockStage]]:
        """The statements of each kernel; the stages `after` stay as they are."""
        border = self._border()
        taps = self._taps()
        dense = self._dense(border, taps)
        first = [] if border is None else [border.statement()]
        made: list[Stmt | BlockStage] = [dense.statement()]
        ahead: list[list[Stmt | BlockStage]] = [[taps.statement()]]
        if self.in_lanes:
            made = [*first, *made]
        elif first:
            ahead.insert(0, [*first])
        *rows, last = self._interleaved(dense)
        return [*ahead, made, *([one.statement()] for one in rows), [last.statement(), *after]]

    def _window(self, axis: IterVar) -> TransposedWindow | None:
        """The window of an axis, of results or of taps."""
        return next((one for one in self.windows if axis.same_as(one.at) or axis.same_as(one.tap)), None)

    def _extent(self, axis: IterVar) -> int:
        """The extent of an axis of the dense sum."""
        window = self._window(axis)
        if window is None:
            return extent_of(axis)
        return window.results if axis.same_as(window.at) else window.taps

    def _axis(self, axis: IterVar) -> Axis:
        return self._named(axis)[0], self._extent(axis)

    def _named(self, axis: IterVar) -> Axis:
        return variable(str(axis.var.name).removeprefix("v_"), "int32"), extent_of(axis)

    def _border(self) -> ReductionStage | None:
        """The tensor x with zeros around it; None where windows do not reach over its ends."""
        if all(window.first == 0 and window.end == window.read for window in self.windows):
            return None
        x = self.load.source
        axes: list[Axis] = []
        at: list[Expr] = []
        inside: list[Expr] = []
        for place, extent in enumerate(x.ty.shape):
            window = next((one for one in self.windows if one.place == place), None)
            one = variable(f"i{place}", "int32")
            axes.append((one, int(extent) if window is None else window.read))
            at.append(one if window is None or not window.start else one + window.start)
            if window is not None:
                inside += [one >= window.first] if window.first else []
                inside += [one < window.end] if window.end < window.read else []
        value = tirx.if_then_else(tirx.all(*inside), tirx.BufferLoad(x, at), tirx.const(0.0, type_of(x)))
        return _stage(f"{x.name}_padded", axes, value)

    def _taps(self) -> ReductionStage:
        """The other factors at the taps of each phase, and zero at those that a phase does not have."""
        axes = [(axis, *self._axis(axis)) for axis in (*self._shared(), *self.total.reduction)]
        joined = variable("phase", "int32")
        places: dict[Var, Expr] = {axis.var: one for axis, one, _ in axes}
        rest: Expr = joined
        for channel in reversed(self.channels):
            places[channel.var] = tirx.floormod(rest, extent_of(channel))
            rest = tirx.floordiv(rest, extent_of(channel))
        inside = []
        for window in reversed(self.windows):
            phase, rest = tirx.floormod(rest, window.factor), tirx.floordiv(rest, window.factor)
            extent = extent_of(window.tap)
            tap = places[window.tap.var] * window.factor + (window.factor - 1 - phase)
            if extent % window.factor:
                inside.append(tap < extent)
            places[window.tap.var] = extent - 1 - tap if window.backwards else tap
        own: list[Axis] = self._with_phase([(one, extent) for _, one, extent in axes], (joined, self.joined))
        analyzer = Domain.of(own).analyzer
        value = reduce(lambda a, b: a * b, self.others) if self.others else tirx.const(1.0, self.dtype)
        value = analyzer.simplify(with_places(value, places))
        if inside:
            value = tirx.if_then_else(analyzer.simplify(tirx.all(*inside)), value, tirx.const(0.0, self.dtype))
        return _stage(f"{self.total.name}_taps", own, value)

    def _shared(self) -> list[IterVar]:
        """The axes of results, neither windows nor channels, on which x and the other factors depend."""
        others = (*self.channels, *(window.at for window in self.windows))
        straight = (axis for axis in self.total.spatial if not any(axis.same_as(one) for one in others))
        return [axis for axis in straight if any(mentions(one, axis.var) for one in self.others)]

    def _with_phase(self, items: Sequence[_Item], phase: _Item) -> list[_Item]:
        """Axes or indices with that of phases and channels among them: it comes last where lanes run along it."""
        return [*items, phase] if self.in_lanes else [phase, *items]

    def _dense(self, border: ReductionStage | None, taps: ReductionStage) -> ReductionStage:
        """The sum of all phases."""
        kept = [axis for axis in self.total.spatial if not any(axis.same_as(one) for one in self.channels)]
        spatial = {axis.var: self._axis(axis) for axis in kept}
        summed = {axis.var: self._axis(axis) for axis in self.total.reduction}
        known = {old: one for old, (one, _) in (*spatial.items(), *summed.items())}
        indices = [with_places(index, known) for index in self.load.indices]
        for window in self.windows:
            more = 0 if border is not None else window.start
            indices[window.place] = known[window.at.var] + known[window.tap.var] + more
        joined: Axis = (variable("phase", "int32"), self.joined)
        of_taps = self._with_phase([known[axis.var] for axis in (*self._shared(), *self.total.reduction)], joined[0])
        axes = self._with_phase([*spatial.values()], joined)
        source = self.load.source if border is None else border.out
        term = tirx.BufferLoad(source, indices) * tirx.BufferLoad(taps.out, of_taps)
        made = _stage(f"{self.total.name}_phases", axes, term)
        return replace(made, summed=tuple(summed.values()))

    def _interleaved(self, dense: ReductionStage) -> list[ReductionStage]:
        """The results in their places, from those of the phases.

        A row whose length the factor does not divide is cut from a longer one that it divides.
        """
        axes = [self._named(axis) for axis in self.total.spatial]
        along = self._window(self.total.spatial[-1])
        if self.in_lanes or along is None or axes[-1][1] % along.factor == 0:
            return [self._written(dense, written_by(self.total), axes, shifted=True)]
        whole = [*axes[:-1], (axes[-1][0], along.results * along.factor)]
        rows = self._written(dense, buffer_of(f"{self.total.name}_rows", whole, self.dtype), whole, shifted=False)
        *outer, last = (one for one, _ in axes)
        value = tirx.BufferLoad(rows.out, [*outer, last + along.shift if along.shift else last])
        at = (*outer, last)
        return [rows, ReductionStage(self.total.name, written_by(self.total), at, tuple(axes), (), value)]

    def _written(self, dense: ReductionStage, out: TvmBuffer, axes: Sequence[Axis], *, shifted: bool) -> ReductionStage:
        """The stage that writes the results of the phases to `out`, from the first result on if `shifted`."""
        spatial = self.total.spatial
        places: list[Expr] = [one for one, _ in axes]
        joined: Expr = tirx.IntImm("int32", 0)
        for window in self.windows:
            number = next(number for number, axis in enumerate(spatial) if axis.same_as(window.at))
            whole = number == len(spatial) - 1 and not shifted
            moved = places[number] if whole else places[number] + window.shift
            joined = joined * window.factor + tirx.floormod(moved, window.factor)
            places[number] = tirx.floordiv(moved, window.factor)
        kept = []
        for axis, place in zip(spatial, places, strict=True):
            if any(axis.same_as(one) for one in self.channels):
                joined = joined * extent_of(axis) + place
            else:
                kept.append(place)
        indices = self._with_phase(kept, joined)
        analyzer = Domain.of(axes).analyzer
        value = tirx.BufferLoad(dense.out, [analyzer.simplify(index) for index in indices])
        name = self.total.name if out.same_as(written_by(self.total)) else str(out.name)
        return ReductionStage(name, out, tuple(one for one, _ in axes), tuple(axes), (), value)


def _stage(name: str, axes: Sequence[Axis], term: Expr) -> ReductionStage:
    """A stage that writes `term` at each place of `axes`."""
    out = buffer_of(name, axes, type_of(term))
    return ReductionStage(name, out, tuple(one for one, _ in axes), tuple(axes), (), term)


def with_phases(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no sum is over a tensor with zeros between its elements, or phases are no gain. `constants` are known
    when the package is built, `needed` are the buffers that others read or the caller gets.
    """
    found = [stage for stage in stages if stage.reduction]
    if len(found) != 1 or found[0].work < core.least_terms or not found[0].spatial or not found[0].writes_its_axes():
        return []
    total, place = found[0], stages.index(found[0])
    before, after = list(stages[:place]), list(stages[place + 1 :])
    inside = [written_by(stage) for stage in before]
    later = [*needed, *(region.source for stage in after for region in stage.reads())]
    term = term_of_sum(total)
    if term is None or any(is_among(buffer, later) for buffer in inside) or not all(map(_is_plain, before)):
        return []
    for stage in reversed(before):
        term = _inlined(term, stage)
    phases = _phases(total, term, constants, core)
    if phases is None or not phases.pays():
        return []
    return phases.kernels(after)


def _is_plain(stage: BlockStage) -> bool:
    one = len(list(stores(stage.block.body))) == 1 and isinstance(stage.block.body, tirx.BufferStore)
    return not stage.reduction and one and stage.writes_its_axes()


def _inlined(value: Expr, stage: BlockStage) -> Expr:
    """A value with what `stage` computes instead of the loads of what it writes."""
    written = written_by(stage)

    def changed(load: BufferLoad) -> Expr:
        if not load.source.same_as(written):
            return load
        places = {axis.var: index for axis, index in zip(stage.spatial, load.indices, strict=True)}
        return with_places(stage.block.body.value, places)

    return tvm_ffi.structural_map(value, (ir.TensorLoad, changed))


def _phases(total: BlockStage, term: Expr, constants: Sequence[TvmBuffer], core: Core) -> _Phases | None:
    """What a sum of `term` is in phases; None where it is not over a tensor with zeros between its elements."""
    factors = list(factors_of(term))
    stuffed = [one for one in factors if is_choice(one)]
    if len(stuffed) != 1:
        return None
    conditions, load = _elements(stuffed[0])
    others = [one for one in factors if one is not stuffed[0]]
    loads = [load, *(node for one in others for node in expressions(one))]
    axes = [*total.spatial, *total.reduction]
    if not isinstance(load, ir.TensorLoad) or any(str(axis.var.ty.dtype) != "int32" for axis in axes):
        return None
    if not all(is_floating(one) for one in loads if isinstance(one, ir.TensorLoad)):
        return None
    analyzer = Domain.of_block(axes).analyzer
    conditions = [part for one in conditions for part in conjuncts(analyzer.simplify(one))]
    conditions = [one for one in conditions if not is_one(one)]
    windows = []
    for place, index in enumerate(load.indices):
        pair = [[axis for axis in group if mentions(index, axis.var)] for group in (total.spatial, total.reduction)]
        if not all(pair):
            continue
        if any(len(group) != 1 for group in pair):
            return None
        window = window_of(pair[0][0], pair[1][0], place, index, conditions)
        if window is None:
            return None
        windows.append(window)
    used = [axis for window in windows for axis in (window.at, window.tap)]
    if any(one.same_as(other) for number, one in enumerate(used) for other in used[:number]):
        return None
    straight = [load.indices[n] for n in range(len(load.indices)) if all(n != window.place for window in windows)]
    if any(mentions(one, window.at.var) for one in (*others, *straight) for window in windows):
        return None
    if any(mentions(one, window.tap.var) for one in straight for window in windows):
        return None
    ended = [with_ends(window, load, conditions) for window in windows]
    known = [window for window in ended if window is not None]
    if len(known) < len(ended) or not all(is_of_one(one, windows, axes) for one in conditions):
        return None
    read = [node.source for one in others for node in expressions(one) if isinstance(node, ir.TensorLoad)]
    return _Phases(total, load, tuple(others), tuple(known), all(is_among(one, constants) for one in read), core)


def _elements(value: Expr) -> tuple[list[Expr], Expr]:
    """The conditions of branches with zero as their other side, and the value where all of them hold."""
    conditions = []
    while is_choice(value):
        selects = isinstance(value, tirx.Select)
        condition, chosen, other = (value.condition, value.true_value, value.false_value) if selects else value.args
        if not isinstance(other, tirx.FloatImm) or float(other.value) != 0.0:
            break
        conditions.append(condition)
        value = chosen
    return conditions, value
