"""Attention of ONNX Runtime: projections, masks, and keys and values of steps before, written out as products.

Shapes: (batch, heads, length, size of a head) for queries, keys and values inside this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised

_MASKED = -10000.0
"""What a masked score gets by default."""

_FAR = -1e9
"""What the score of a key gets at most that must have no weight at all: exp of it is 0, also after a cast to halves."""


def attention(b: Builder, node: onnx.NodeProto) -> None:
    """The projections to queries, keys and values are one matrix."""
    projected = b.op("MatMul", b.input(0), b.input(1))
    if b.input(2):
        projected = b.op("Add", projected, b.input(2))
    _refuse(b, "do_rotary", "past_present_share_buffer")
    heads, last = b.integer("num_heads"), b.shape(projected)[-1]
    sizes = [int(size) for size in b.attributes.get("qkv_hidden_sizes", [])] or [last // 3] * 3
    _self_attention(b, node, projected, sizes, heads, mask=b.input(3), past=b.input(4), bias=b.input(5))


def qattention(b: Builder, node: onnx.NodeProto) -> None:
    """Input and projections are integers; all that follows is of floats."""
    _refuse(b, "do_rotary", "past_present_share_buffer")
    data = dequantised(b, b.input(0), b.input(3), b.input(6))
    weights = dequantised(b, b.input(1), b.input(4), b.input(7), axis=1)
    projected = b.op("Add", b.op("MatMul", data, weights), b.input(2))
    sizes = [b.shape(projected)[-1] // 3] * 3
    _self_attention(b, node, projected, sizes, b.integer("num_heads"), mask=b.input(5), past=b.input(8), bias="")


def _refuse(b: Builder, *names: str) -> None:
    for name in names:
        if b.integer(name, 0):
            raise UnsupportedOperator(f"{b.shown} has {name}, which is not supported; export the model without it")


def _self_attention(
    b: Builder, node: onnx.NodeProto, projected: str, sizes: list[int], heads: int, *, mask: str, past: str, bias: str
) -> None:
    starts = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    parts = [b.part(projected, start, stop, 2) for start, stop in pairwise(starts)]
    query, key, value = (by_head(b, part, heads) for part in parts)
    earlier = 0
    if past:
        earlier = b.shape(past)[3]
        key = b.op("Concat", b.take(past, 0, 0), key, axis=2)
        value = b.op("Concat", b.take(past, 1, 0), value, axis=2)
    if len(node.output) > 1 and node.output[1]:
        b.output(1, b.stack([key, value], 0))
    b.output(0, merged(b, attended(b, Scores.of(b, query, key, mask, bias, earlier), value)))


def by_head(b: Builder, x: str, heads: int) -> str:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, hidden = b.shape(x)
    return b.moved(b.reshape(x, batch, length, heads, hidden // heads), 0, 2, 1, 3)


def merged(b: Builder, x: str) -> str:
    """The reverse of `by_head`."""
    batch, heads, length, size = b.shape(x)
    return b.reshape(b.moved(x, 0, 2, 1, 3), batch, length, heads * size)


@dataclass(frozen=True)
class Scores:
    """Queries, keys, and how their products become scores: a factor, then what is added, each "" where there is none.

    The products are limited to -`softcap` to `softcap` before the sum. `sink` is one more score of each head, which
    takes its share and has no value.
    """

    query: str
    key: str
    scale: float
    added: tuple[str, ...]
    softcap: float = 0.0
    sink: str = ""

    @classmethod
    def of(cls, b: Builder, query: str, key: str, mask: str, bias: str, past: int) -> Scores:
        """Those of an operator with the attributes `scale`, `unidirectional` and `mask_filter_value`.

        The first `past` keys are of earlier steps.
        """
        scale = b.number("scale", 0.0) or 1 / sqrt(b.shape(query)[-1])
        masked = _mask(b, mask, query, key, past) if mask or b.integer("unidirectional", 0) else ""
        return cls(query, key, scale, tuple(filter(None, (masked, bias))))


def attended(b: Builder, scores: Scores, value: str) -> str:
    """The weighted sums of values: (batch, heads, length of the queries, size of a value)."""
    batch, heads, length, size = b.shape(scores.query)
    shared, keys = b.shape(scores.key)[1:3]
    grouped = heads // shared * length  # queries that share a head of keys, concatenated
    query = scores.query if shared == heads else b.reshape(scores.query, batch, shared, grouped, size)
    product = b.scaled(b.op("MatMul", query, b.moved(scores.key, 0, 1, 3, 2)), scores.scale)
    product = product if shared == heads else b.reshape(product, batch, heads, length, keys)
    if scores.softcap:
        product = b.scaled(b.op("Tanh", b.scaled(product, 1 / scores.softcap)), scores.softcap)
    for added in scores.added:
        product = b.op("Add", product, added)
    if scores.sink:
        shape = b.constant([batch, heads, length, 1], "int64")
        product = b.op("Concat", product, b.op("Expand", b.reshape(scores.sink, 1, -1, 1, 1), shape), axis=3)
    weights = b.op("Softmax", product, axis=3)
    weights = b.part(weights, 0, keys, 3) if scores.sink else weights
    if shared == heads:
        return b.op("MatMul", weights, value)
    result = b.op("MatMul", b.reshape(weights, batch, shared, grouped, keys), value)
    return b.reshape(result, batch, heads, length, b.shape(value)[3])


def _mask(b: Builder, mask: str, query: str, key: str, past: int) -> str:
    """What a mask and the order of the keys add to scores: (batch or 1, 1, queries or 1, keys).

    A key that comes later than a query has no weight, also where the mask leaves out all others. The last query sees
    all keys, as in ONNX Runtime, also where there are more of them than `past` and the queries.
    """
    batch, _, queries, _ = b.shape(query)
    keys, dtype = b.shape(key)[2], b.dtype(query)
    value = b.number("mask_filter_value", _MASKED)
    added = b.constant(0, dtype)
    if mask:
        shape = b.shape(mask)
        kept = _kept(b, mask, batch, queries, keys)
        if kept == "":
            raise UnsupportedOperator(f"{b.shown} has a mask of the shape {shape}, which is not supported")
        added = b.op("Where", kept, added, b.constant(value, dtype))
    if b.integer("unidirectional", 0):
        later = np.arange(keys) > np.arange(queries).reshape(-1, 1) + past
        later[-1:] = False
        added = b.op("Where", b.constant(later.reshape(1, 1, queries, keys)), _far(b, dtype, value), added)
    return added


def _far(b: Builder, dtype: np.dtype[Any], masked: float = 0.0) -> str:
    """What is added to the score of a key that has no weight, where keys that a mask leaves out get `masked`."""
    return b.constant(max(min(_FAR, 2 * masked), float(ml_dtypes.finfo(dtype).min)), dtype)  # type: ignore[no-untyped-call]


def _kept(b: Builder, mask: str, batch: int, queries: int, keys: int) -> str:
    """Which keys a mask keeps, by its shape; "" for a shape that no kernel for CPUs takes."""
    shape = b.shape(mask)
    place = b.constant(np.arange(keys, dtype="int32").reshape(1, 1, 1, keys))
    if shape in {(batch,), (2 * batch,)}:  # the end of each row, then its start
        end = b.reshape(b.part(mask, 0, batch, 0), batch, 1, 1, 1)
        kept = b.op("Less", place, end)
        if shape == (batch,):
            return kept
        start = b.reshape(b.part(mask, batch, 2 * batch, 0), batch, 1, 1, 1)
        return b.op("And", kept, b.op("Not", b.op("Less", place, start)))
    if shape not in {(batch, keys), (batch, queries, keys)}:
        return ""
    positive = b.op("Greater", mask, b.constant(0, b.dtype(mask)))
    return b.reshape(positive, batch, 1, queries if len(shape) > 2 else 1, keys)


def multi_head_attention(b: Builder, _: onnx.NodeProto) -> None:
    """Queries, keys and values come projected, each from its own input."""
    _refuse_inputs(b, {8: "past_sequence_length", 9: "cache_indirection"})
    heads = b.integer("num_heads")
    if len(b.shape(b.input(0))) != 3 or not b.input(1) or not b.input(2):
        raise UnsupportedOperator(f"{b.shown} has packed queries, keys and values; give it three inputs")
    given = [b.input(index) for index in range(3)]
    if b.input(3):
        start, biases = 0, []
        for name in given:
            size = b.shape(name)[-1] * (heads if len(b.shape(name)) == 4 else 1)
            biases.append(b.part(b.input(3), start, start + size, 0))
            start += size
        given = [
            b.op("Add", name, bias) if len(b.shape(name)) == 3 else name
            for name, bias in zip(given, biases, strict=True)
        ]
    query, key, value = (by_head(b, x, heads) if len(b.shape(x)) == 3 else x for x in given)
    past = 0
    if b.input(6):
        past = b.shape(b.input(6))[2]
        key = b.op("Concat", b.input(6), key, axis=2)
        value = b.op("Concat", b.input(7), value, axis=2)
    b.output(0, merged(b, attended(b, Scores.of(b, query, key, b.input(4), b.input(5), past), value)))
    b.output(1, key)
    b.output(2, value)


def _refuse_inputs(b: Builder, named: dict[int, str]) -> None:
    for index, name in named.items():
        if b.input(index):
            raise UnsupportedOperator(
                f"{b.shown} has an input {name}, which is not supported; export the model without it"
            )


def rotary_embedding(b: Builder, _: onnx.NodeProto) -> None:
    """Pairs of elements turned by angles, whose cosines and sines are in a table by position."""
    _refuse(b, "is_packed_batching")
    x = b.input(0)
    flat = len(b.shape(x)) == 3
    cosines, sines = b.input(2), b.input(3)
    if flat:
        size = b.integer("rotary_embedding_dim", 0)
        heads = b.integer("num_heads", 0) if size else b.shape(x)[-1] // (2 * b.shape(cosines)[-1])
        x = by_head(b, x, heads)
    batch, _, length, _ = b.shape(x)
    places = b.input(1)
    if b.shape(places) == (1,) and (batch, length) != (1, 1):
        steps = b.constant(np.arange(length).reshape(1, length), b.dtype(places))
        places = b.op("Add", b.reshape(places, 1, 1), steps)
    result = turned(b, x, places, cosines, sines)
    b.output(0, merged(b, result) if flat else result)


def turned(b: Builder, x: str, places: str, cosines: str, sines: str) -> str:
    """`x` with the first elements of each head turned; `places` is (batch or 1, length)."""
    batch, heads, length, size = b.shape(x)
    half = b.shape(cosines)[-1]
    rows = b.shape(places)[0] if b.shape(places) != (1,) else 1
    cosine, sine = (
        b.reshape(b.op("Gather", table, b.cast(places, "int64"), axis=0), rows, 1, length, half)
        for table in (cosines, sines)
    )
    first = b.part(x, 0, 2 * half, 3)
    if b.integer("interleaved", b.integer("rotary_interleaved", 0)):
        pairs = b.reshape(first, batch, heads, length, half, 2)
        real, imaginary = b.take(pairs, 0, 4), b.take(pairs, 1, 4)
    else:
        real, imaginary = b.part(first, 0, half, 3), b.part(first, half, 2 * half, 3)
    new_real = b.op("Sub", b.op("Mul", real, cosine), b.op("Mul", imaginary, sine))
    new_imaginary = b.op("Add", b.op("Mul", real, sine), b.op("Mul", imaginary, cosine))
    if b.integer("interleaved", b.integer("rotary_interleaved", 0)):
        result = b.reshape(b.stack([new_real, new_imaginary], 4), batch, heads, length, 2 * half)
    else:
        result = b.op("Concat", new_real, new_imaginary, axis=3)
    return b.op("Concat", result, b.part(x, 2 * half, size, 3), axis=3) if size > 2 * half else result


def group_query_attention(b: Builder, _: onnx.NodeProto) -> None:
    """Several heads of queries share one of keys; keys and values of earlier steps lie before those of this one.

    An input says at run time how many keys each row of the batch has then, less one.
    """
    _refuse(b, "kv_cache_bit_width", "sliding_window_cache", "qk_output")
    _refuse_inputs(b, {12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight", 16: "query_seqlens"})
    query, key, value = _grouped(b)
    batch, heads, length, size = b.shape(query)
    total = int(b.needed(6, "total sequence length").reshape(-1)[0])
    counted = b.op("Add", b.reshape(b.cast(b.input(5), "int64"), batch, 1), b.constant(1, "int64"))
    before = b.op("Sub", counted, b.constant(length, "int64"))
    if length == total:  # the first step, whose rows may be padded
        before = b.constant(np.zeros((batch, 1)), "int64")
    own = b.op("Add", before, b.constant(np.arange(length).reshape(1, length), "int64"))
    if b.integer("do_rotary", 0):
        last = b.constant(b.shape(b.input(7))[0] - 1, "int64")
        places = b.input(9) or b.op("Where", b.op("Less", own, last), own, last)
        query, key = (turned(b, x, places, b.input(7), b.input(8)) for x in (query, key))
    past = b.shape(b.input(3))[2] if b.input(3) else 0
    if past:
        places = "" if batch == 1 and past + length == total else _places(b, before, past, length, max(past, total))
        pairs = ((b.input(3), key), (b.input(4), value))
        key, value = (_joined(b, old, new, places, counted) for old, new in pairs)
    b.output(1, key)
    b.output(2, value)
    sink = b.input(11)
    if not sink and b.integer("smooth_softmax", -1) == 1:
        sink = b.constant(np.zeros(heads), b.dtype(query))
    added = (_visible(b, own, counted, b.shape(key)[2], b.dtype(query)), *filter(None, [b.input(10)]))
    scale = b.number("scale", 0.0) or 1 / sqrt(size)
    b.output(0, merged(b, attended(b, Scores(query, key, scale, added, b.number("softcap", 0.0), sink), value)))


def _grouped(b: Builder) -> list[str]:
    """Queries, keys and values by head; they may be packed in one input."""
    heads, shared = b.integer("num_heads"), b.integer("kv_num_heads")
    given = [b.input(0), b.input(1), b.input(2)]
    if not given[1]:
        size = b.shape(given[0])[-1] // (heads + 2 * shared)
        ends = np.cumsum([0, heads * size, shared * size, shared * size]).tolist()
        given = [b.part(given[0], start, stop, 2) for start, stop in pairwise(ends)]
    return [by_head(b, x, count) for x, count in zip(given, (heads, shared, shared), strict=True)]


def _places(b: Builder, before: str, past: int, length: int, keys: int) -> str:
    """The place of each key in the concatenation of earlier keys and those of this step: (batch, keys)."""
    order = b.constant(np.arange(keys).reshape(1, keys), "int64")
    new = b.op("Add", b.op("Sub", order, before), b.constant(past, "int64"))
    new = b.op("Where", b.op("Less", new, b.constant(past + length, "int64")), new, _least(b, order, past - 1))
    return b.op("Where", b.op("Less", order, before), _least(b, order, past - 1), new)


def _least(b: Builder, order: str, most: int) -> str:
    return b.op("Where", b.op("Less", order, b.constant(most, "int64")), order, b.constant(most, "int64"))


def _joined(b: Builder, past: str, new: str, places: str, counted: str) -> str:
    """Earlier keys, or values, and those of this step, in the order of `places`, or concatenated.

    Behind those that are `counted` is 0.
    """
    whole = b.op("Concat", past, new, axis=2)
    if not places:
        return whole
    batch, shared, _, size = b.shape(whole)
    keys = b.shape(places)[1]
    rows = [b.op("Gather", b.take(whole, row, 0), b.take(places, row, 0), axis=1) for row in range(batch)]
    result = b.reshape(b.stack(rows, 0), batch, shared, keys, size)
    place = b.constant(np.arange(keys).reshape(1, 1, keys, 1), "int64")
    known = b.op("Less", place, b.reshape(counted, batch, 1, 1, 1))
    return b.op("Where", known, result, b.constant(0, b.dtype(result)))


def _visible(b: Builder, own: str, counted: str, keys: int, dtype: np.dtype[Any]) -> str:
    """What is added to scores: nothing for the keys up to the query's own, or of a window before it, and much less.

    `own` has the place of each query among the keys, `counted` the number of keys of each row.
    """
    batch, length = b.shape(own)
    place = b.constant(np.arange(keys).reshape(1, 1, 1, keys), "int64")
    own, counted = b.reshape(own, batch, 1, length, 1), b.reshape(counted, b.shape(counted)[0], 1, 1, 1)
    causal = b.integer("causal", 1)
    seen = b.op("Not", b.op("Less", own, place)) if causal else b.op("Less", place, counted)
    window = b.integer("local_window_size", -1)
    if window >= 0:
        start = b.op("Sub", own, b.constant(window, "int64"))
        seen = b.op("And", seen, b.op("Less", start, place))
    return b.op("Where", seen, b.constant(0, dtype), _far(b, dtype))
