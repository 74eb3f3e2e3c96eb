"""Unsigned data: products of bytes with their sign bits flipped, where an instruction wants one factor without a sign.

VPDPBUSD of x86 multiplies unsigned by signed bytes. sum(x w) is sum((x + 128) w) - 128 sum(w), and x + 128 is x with
another sign bit. The second sum is a constant of each channel, which is computed when a package is built, with what is
subtracted of the sum already.
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


def with_unsigned_data(
    stages: list[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core
) -> list[list[Stmt | BlockStage]]:
    """The kernels of `stages` with one sum of products of signed bytes, whose data becomes unsigned; else empty.

    The first kernel sums the weights; it reads constants alone. Tensors that are `needed` elsewhere stay.
    """
    sums = [stage for stage in stages if stage.reduction]
    if core.dot is None or core.dot.data != "uint8" or len(sums) != 1:
        return []
    block = sums[0].block
    whole = reduction_of(s_tir.SBlockRealize([axis.var for axis in block.iter_vars], True, block))
    found = None if whole is None else product_in(whole, constants)
    if found is None or type_of(found.data.source) != "int8" or not found.shares_data:
        return []
    if is_among(found.data.source, constants) or _largest(found) > _MOST:
        return []
    place = stages.index(sums[0])
    less = None if is_among(found.whole.out, needed) else _subtraction(found, stages[place + 1 :], constants)
    own, result = _stages(found), found.whole.out if less is None else less.stage.block.writes[0].source
    weights = _sums_of_weights(found, less)
    own.append(_difference(found, own[-1].out, weights[-1], result))
    after = [stage for stage in stages[place + 1 :] if less is None or stage is not less.stage]
    return [
        [one.statement() for one in weights],
        [*stages[:place], *(one.statement() for one in own), *after],
    ]


@dataclass(frozen=True)
class _Subtraction:
    """A stage that subtracts a constant of each channel from a sum: the constant, at a place of the sum."""

    stage: BlockStage
    constant: BufferLoad


def _subtraction(found: Product, after: Sequence[BlockStage], constants: Sequence[TvmBuffer]) -> _Subtraction | None:
    """What alone reads the sum and subtracts a constant, such as the share of the data's zero point."""
    whole = found.whole
    readers = [stage for stage in after if any(region.source.same_as(whole.out) for region in stage.reads())]
    store = readers[0].block.body if len(readers) == 1 else None
    value = store.value if isinstance(store, tirx.BufferStore) else None
    if not isinstance(value, tirx.Sub) or not all(isinstance(one, ir.TensorLoad) for one in (value.a, value.b)):
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
    return _Subtraction(readers[0], constant)


def _are(indices: Sequence[Expr], variables: Sequence[Var]) -> bool:
    return len(indices) == len(variables) and all(
        index.same_as(one) for index, one in zip(indices, variables, strict=True)
    )


def _largest(found: Product) -> int:
    """No sum of the unsigned products, nor that of the weights, is greater."""
    return 2 * _SIGN * _SIGN * prod(extent for _, extent in found.whole.summed)


def _sums_of_weights(found: Product, less: _Subtraction | None) -> list[ReductionStage]:
    """128 times the sum of the weights of each channel, and what is subtracted of its sums already."""
    own = [axis for axis in found.whole.spatial if any(mentions(one, axis[0]) for one in found.weights.indices)]
    at = tuple(axis for axis, _ in own)
    sums = buffer_of("sums_of_weights", own, "int32")
    term = tirx.Cast("int32", found.weights) * tirx.const(_SIGN, "int32")
    summed = ReductionStage(sums.name, sums, at, tuple(own), found.whole.summed, term)
    if less is None:
        return [summed]
    offsets = buffer_of("offsets", own, "int32")
    return [
        summed,
        ReductionStage(offsets.name, offsets, at, tuple(own), (), tirx.BufferLoad(sums, at) + less.constant),
    ]


def _stages(found: Product) -> list[ReductionStage]:
    """The unsigned data, and the sum of its products."""
    whole, source = found.whole, found.data.source
    axes = [(variable(f"i{place}", whole.index_type), int(extent)) for place, extent in enumerate(source.shape)]
    places = tuple(axis for axis, _ in axes)
    unsigned = buffer_of("unsigned", axes, "uint8")
    load = tirx.Cast("uint8", tirx.BufferLoad(source, list(places)))
    flipped = tirx.bitwise_xor(load, tirx.const(_SIGN, "uint8"))
    data = tirx.BufferLoad(unsigned, found.data.indices)
    total = buffer_of(f"{whole.out.name}_unsigned", whole.spatial, "int32")
    term = tirx.Cast("int32", data) * tirx.Cast("int32", found.weights)
    return [
        ReductionStage("unsigned", unsigned, places, tuple(axes), (), flipped),
        replace(whole, out=total, at=tuple(axis for axis, _ in whole.spatial), term=term),
    ]


def _difference(found: Product, total: TvmBuffer, weights: ReductionStage, result: TvmBuffer) -> ReductionStage:
    """The sums less what belongs to their channels."""
    whole = found.whole
    value = tirx.BufferLoad(total, [axis for axis, _ in whole.spatial]) - tirx.BufferLoad(weights.out, weights.at)
    return ReductionStage(f"{whole.name}_signed", result, whole.at, whole.spatial, (), value)
