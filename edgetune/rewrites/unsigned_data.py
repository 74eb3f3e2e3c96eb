"""Unsigned data: products of bytes with their sign bits flipped, where an instruction wants one factor without a sign.

VPDPBUSD of x86 multiplies unsigned by signed bytes. sum(x w) is sum((x + 128) w) - 128 sum(w), and x + 128 is x with
another sign bit. The second sum is a constant of each channel, which is computed when a package is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tvm import s_tir, tirx

from edgetune.affine.expressions import is_among, mentions
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage, buffer_of, reduction_of, variable
from edgetune.schedule.algorithms.integer_products.product import Product, product_in
from edgetune.schedule.sketches.block_analysis import BlockStage
from edgetune.target.core import Core
from edgetune.tvm_types import Stmt, TvmBuffer

_SIGN = 128
_MOST = (1 << 31) - 1


def with_unsigned_data(
    stages: list[BlockStage], constants: Sequence[TvmBuffer], core: Core
) -> list[list[Stmt | BlockStage]]:
    """The kernels of `stages` with one sum of products of signed bytes, whose data becomes unsigned; else empty.

    The first kernel sums the weights; it reads constants alone.
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
    weights = _sums_of_weights(found)
    place = stages.index(sums[0])
    own = [one.statement() for one in _stages(found, weights)]
    return [[weights.statement()], [*stages[:place], *own, *stages[place + 1 :]]]


def _largest(found: Product) -> int:
    """No sum of the unsigned products, nor that of the weights, is greater."""
    return 2 * _SIGN * _SIGN * prod(extent for _, extent in found.whole.summed)


def _sums_of_weights(found: Product) -> ReductionStage:
    """128 times the sum of the weights of each channel."""
    own = [axis for axis in found.whole.spatial if any(mentions(one, axis[0]) for one in found.weights.indices)]
    buffer = buffer_of("sums_of_weights", own, "int32")
    term = tirx.Cast("int32", found.weights) * tirx.const(_SIGN, "int32")
    return ReductionStage(buffer.name, buffer, tuple(axis for axis, _ in own), tuple(own), found.whole.summed, term)


def _stages(found: Product, weights: ReductionStage) -> list[ReductionStage]:
    """The unsigned data, the sum of its products, and that sum less what the sign bits added."""
    whole, source = found.whole, found.data.source
    axes = [(variable(f"i{place}", whole.index_type), int(extent)) for place, extent in enumerate(source.shape)]
    places = tuple(axis for axis, _ in axes)
    unsigned = buffer_of("unsigned", axes, "uint8")
    load = tirx.Cast("uint8", tirx.BufferLoad(source, list(places)))
    flipped = tirx.bitwise_xor(load, tirx.const(_SIGN, "uint8"))
    data = tirx.BufferLoad(unsigned, found.data.indices)
    total = buffer_of(f"{whole.out.name}_unsigned", whole.spatial, "int32")
    at = tuple(axis for axis, _ in whole.spatial)
    term = tirx.Cast("int32", data) * tirx.Cast("int32", found.weights)
    less = tirx.BufferLoad(total, list(at)) - tirx.BufferLoad(weights.out, list(weights.at))
    return [
        ReductionStage("unsigned", unsigned, places, tuple(axes), (), flipped),
        replace(whole, out=total, at=at, term=term),
        ReductionStage(f"{whole.name}_signed", whole.out, whole.at, whole.spatial, (), less),
    ]
