"""Flipped signs: products of bytes whose sign bits are flipped, as an instruction wants data with a sign, or without.

VPDPBUSD of x86 multiplies unsigned by signed bytes, SDOT and SMULL of ARM multiply signed ones. sum(x w) is
sum((x + 128) w) - 128 sum(w), or sum((x - 128) w) + 128 sum(w), and x with another sign bit is x + 128 or x - 128. The
second sum is a constant of each channel, which is computed when a package is built, with what is added to the sum
already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_among, mentions, with_places
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage, buffer_of, reduction_of, variable
from edgetune.schedule.algorithms.integer_products.product import Product, product_in
from edgetune.schedule.sketches.block_analysis import BlockStage
from edgetune.target.core import Core
from edgetune.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer, Var

_SIGN = 128
_MOST = (1 << 31) - 1


def with_flipped_signs(
    stages: list[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core
) -> list[list[Stmt | BlockStage]]:
    """The kernels of `stages` with one sum of products of bytes, whose data gets the sign that `core` wants; or none.

    The first kernel sums the weights; it reads constants alone. Tensors that are `needed` elsewhere stay.
    """
    sums = [stage for stage in stages if stage.reduction]
    if core.dot is None or core.dot.data not in _OTHER or len(sums) != 1:
        return []
    block = sums[0].block
    whole = reduction_of(s_tir.SBlockRealize([axis.var for axis in block.iter_vars], True, block))
    found = None if whole is None else product_in(whole, constants)
    if found is None or type_of(found.data.source) != _OTHER[core.dot.data] or not found.shares_data:
        return []
    if is_among(found.data.source, constants) or _largest(found) > _MOST:
        return []
    place = stages.index(sums[0])
    more = None if is_among(found.whole.out, needed) else _addition(found, stages[place + 1 :], constants)
    own = _stages(found, core.dot.data)
    result = found.whole.out if more is None else more.stage.block.writes[0].source
    weights = _sums_of_weights(found, more, _SIGN if core.dot.data == "int8" else -_SIGN)
    own.append(_total(found, own[-1].out, weights[-1], result))
    after = [stage for stage in stages[place + 1 :] if more is None or stage is not more.stage]
    return [
        [one.statement() for one in weights],
        [*stages[:place], *(one.statement() for one in own), *after],
    ]


_OTHER = {"uint8": "int8", "int8": "uint8"}


@dataclass(frozen=True)
class _Addition:
    """A stage that adds a constant of each channel to a sum, or subtracts it: the constant, at a place of the sum."""

    stage: BlockStage
    constant: BufferLoad
    subtracts: bool


def _addition(found: Product, after: Sequence[BlockStage], constants: Sequence[TvmBuffer]) -> _Addition | None:
    """What alone reads the sum and adds a constant, such as a bias or the share of the data's zero point."""
    whole = found.whole
    readers = [stage for stage in after if any(region.source.same_as(whole.out) for region in stage.reads())]
    store = readers[0].block.body if len(readers) == 1 else None
    value = store.value if isinstance(store, tirx.BufferStore) else None
    if not isinstance(value, tirx.Add | tirx.Sub) or not all(
        isinstance(one, ir.TensorLoad) for one in (value.a, value.b)
    ):
        return None
    variables = [axis.var for axis in readers[0].spatial]
    places = [axis for axis, _ in whole.spatial]
    same = readers[0].writes_its_axes() and len(variables) == len(places) and _are(value.a.indices, variables)
    if not same or not value.a.source.same_as(whole.out) or not is_among(value.b.source, constants):
        return None
    first = [tirx.IntImm(str(axis.ty.dtype), 0) if extent == 1 else axis for axis, extent in whole.spatial]
    constant = with_places(value.b, dict(zip(variables, first, strict=True)))
    others = [axis for axis, _ in whole.spatial if not any(mentions(one, axis) for one in found.weights.indices)]
    if not _are(whole.at, places) or any(mentions(index, axis) for index in constant.indices for axis in others):
        return None
    return _Addition(readers[0], constant, isinstance(value, tirx.Sub))


def _are(indices: Sequence[Expr], variables: Sequence[Var]) -> bool:
    return len(indices) == len(variables) and all(
        index.same_as(one) for index, one in zip(indices, variables, strict=True)
    )


def _largest(found: Product) -> int:
    """No sum of the products of flipped data, nor that of the weights, is greater."""
    return 2 * _SIGN * _SIGN * prod(extent for _, extent in found.whole.summed)


def _sums_of_weights(found: Product, more: _Addition | None, factor: int) -> list[ReductionStage]:
    """The sum of the weights of each channel times `factor`, and what is added to its sums already."""
    own = [axis for axis in found.whole.spatial if any(mentions(one, axis[0]) for one in found.weights.indices)]
    at = tuple(axis for axis, _ in own)
    sums = buffer_of("sums_of_weights", own, "int32")
    term = tirx.Cast("int32", found.weights) * tirx.const(factor, "int32")
    summed = ReductionStage(sums.name, sums, at, tuple(own), found.whole.summed, term)
    if more is None:
        return [summed]
    offsets, load = buffer_of("offsets", own, "int32"), tirx.BufferLoad(sums, at)
    value = load - more.constant if more.subtracts else load + more.constant
    return [summed, ReductionStage(offsets.name, offsets, at, tuple(own), (), value)]


def _stages(found: Product, dtype: str) -> list[ReductionStage]:
    """The data as `dtype`, and the sum of its products."""
    whole, source = found.whole, found.data.source
    axes = [(variable(f"i{place}", whole.index_type), int(extent)) for place, extent in enumerate(source.shape)]
    places = tuple(axis for axis, _ in axes)
    made = buffer_of("flipped", axes, dtype)
    load = tirx.BufferLoad(source, list(places))
    load = load if type_of(source) == "uint8" else tirx.Cast("uint8", load)
    flipped = tirx.bitwise_xor(load, tirx.const(_SIGN, "uint8"))
    flipped = flipped if dtype == "uint8" else tirx.Cast(dtype, flipped)
    data = tirx.BufferLoad(made, found.data.indices)
    total = buffer_of(f"{whole.out.name}_flipped", whole.spatial, "int32")
    term = tirx.Cast("int32", data) * tirx.Cast("int32", found.weights)
    return [
        ReductionStage("flipped", made, places, tuple(axes), (), flipped),
        replace(whole, out=total, at=tuple(axis for axis, _ in whole.spatial), term=term),
    ]


def _total(found: Product, sums: TvmBuffer, weights: ReductionStage, result: TvmBuffer) -> ReductionStage:
    """The sums and what belongs to their channels."""
    whole = found.whole
    value = tirx.BufferLoad(sums, [axis for axis, _ in whole.spatial]) + tirx.BufferLoad(weights.out, weights.at)
    return ReductionStage(f"{whole.name}_total", result, whole.at, whole.spatial, (), value)
