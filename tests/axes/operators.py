"""The operators whose attributes or inputs name axes: how each is put behind a value, for any axis."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.axes.graphs import Graph, Shape, UnfitError


@dataclass(frozen=True)
class Place:
    """The context of an operator under test: it reads the value `x` of `graph`; `turn` counts through the axes."""

    graph: Graph
    x: str
    turn: int

    @property
    def draw(self) -> random.Random:
        """What makes all other choices."""
        return self.graph.draw

    @property
    def shape(self) -> Shape:
        """Shape of `x`."""
        return self.graph.shape(self.x)

    def axis(self, rank: int | None = None) -> int:
        """An axis of `x`, or of `rank`; negative in half of all turns."""
        rank = rank or len(self.shape)
        if rank == 0:
            raise UnfitError("a scalar has no axis")
        return self.turn % (2 * rank) - rank

    def axes(self, rank: int | None = None) -> list[int]:
        """Some axes, of which the first is `axis()`."""
        rank = rank or len(self.shape)
        first = self.axis(rank)
        others = [axis for axis in range(rank) if axis != first % rank]
        more = self.draw.sample(others, self.draw.randrange(len(others) + 1))
        return [first, *(axis - self.draw.choice([0, rank]) for axis in more)]

    def coin(self) -> bool:
        """True in half of all draws."""
        return self.draw.random() < 0.5

    def put(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Append a node that reads `x` first; returns its outputs."""
        return self.graph.add_all(operator, self.x, *inputs, outputs=outputs, **attributes)

    def put_with(self, operator: str, lists: dict[str, list[int]], **attributes: Any) -> list[str]:
        """`put`, with each of `lists` as attribute or as input, as the opset has it."""
        kept = {name: value for name, value in lists.items() if self.graph.has(operator, name)}
        inputs = [self.graph.ints(*value) for name, value in lists.items() if name not in kept]
        return self.put(operator, *inputs, outputs=1, **kept, **attributes)

    def behind(self, value: str) -> Place:
        """The same turn behind another value."""
        return Place(self.graph, value, self.turn)


Operator = Callable[[Place], list[str]]


def _along(operator: str) -> Operator:
    return lambda place: place.put(operator, axis=place.axis())


def _reduce(operator: str, *, of_positive: bool = False) -> Operator:
    def reduce(place: Place) -> list[str]:
        place = place.behind(place.graph.add("Exp", place.x)) if of_positive else place
        return place.put_with(operator, {"axes": place.axes()}, keepdims=int(place.coin()))

    return reduce


def _arg(operator: str) -> Operator:
    def arg(place: Place) -> list[str]:
        last = {"select_last_index": int(place.coin())} if place.graph.has(operator, "select_last_index") else {}
        return place.put(operator, axis=place.axis(), keepdims=int(place.coin()), **last)

    return arg


def _squeeze(place: Place) -> list[str]:
    axes = [axis for axis in place.axes() if place.shape[axis] == 1]
    if place.shape[place.axis()] != 1:
        raise UnfitError("the axis to squeeze has more than one element")
    return place.put_with("Squeeze", {"axes": axes})


def _unsqueeze(place: Place) -> list[str]:
    added = place.draw.choice([1, 1, 2])
    rank = len(place.shape) + added
    others = [axis for axis in range(rank) if axis != place.axis(rank) % rank]
    more = [axis - place.draw.choice([0, rank]) for axis in place.draw.sample(others, added - 1)]
    return place.put_with("Unsqueeze", {"axes": [place.axis(rank), *more]})


def _concat(place: Place) -> list[str]:
    axis = place.axis()
    shape = list(place.shape)
    shape[axis] = place.draw.choice([1, 2])
    other = place.draw.choice([place.x, place.graph.floats(*shape), place.graph.add("Relu", place.x)])
    return place.put("Concat", other, axis=axis)


def _parts(draw: random.Random, extent: int) -> list[int]:
    cuts = sorted(draw.sample(range(1, extent), draw.randrange(1, extent)))
    return [after - before for before, after in pairwise([0, *cuts, extent])]


def _split(place: Place) -> list[str]:
    axis, graph = place.axis(), place.graph
    extent = place.shape[axis]
    if extent == 1:
        raise UnfitError("the axis to split has one element")
    if graph.has("Split", "num_outputs") and place.coin():
        return place.put("Split", outputs=2, axis=axis, num_outputs=2)
    parts = _parts(place.draw, extent)
    if graph.has("Split", "split"):
        return place.put("Split", outputs=len(parts), axis=axis, split=parts)
    return place.put("Split", graph.ints(*parts), outputs=len(parts), axis=axis)


def _indices(place: Place, extent: int, shape: Shape) -> np.ndarray:
    low = -extent if place.coin() else 0
    count = prod(shape)
    return np.array([place.draw.randrange(low, extent) for _ in range(count)], "int64").reshape(shape)


def _gather(place: Place) -> list[str]:
    shape = place.draw.choice([(), (1,), (3,), (2, 2)])
    indices = _indices(place, place.shape[place.axis()], shape)
    return place.put("Gather", place.graph.constant(indices), axis=place.axis())


def _gather_elements(place: Place) -> list[str]:
    axis, shape = place.axis(), list(place.shape)
    shape[axis] = place.draw.choice([1, 2, 5])
    indices = _indices(place, place.shape[axis], tuple(shape))
    return place.put("GatherElements", place.graph.constant(indices), axis=axis)


def _scatter(operator: str) -> Operator:
    def scatter(place: Place) -> list[str]:
        axis, graph = place.axis(), place.graph
        extent = place.shape[axis]
        count = place.draw.randrange(1, extent + 1)
        shape = list(place.shape)
        shape[axis] = count
        order = np.array(place.draw.sample(range(extent), count)).reshape([-1] + [1] * ((-axis - 1) % len(shape)))
        indices = np.broadcast_to(order, shape).astype("int64")
        reductions = ["none", "add", "mul", "max", "min"][: 3 if graph.opset < 18 else 5]
        how = {"reduction": place.draw.choice(reductions)} if graph.has(operator, "reduction") else {}
        return place.put(operator, graph.constant(indices), graph.floats(*shape), outputs=1, axis=axis, **how)

    return scatter


def _top_k(place: Place) -> list[str]:
    count = place.draw.randrange(1, place.shape[place.axis()] + 1)
    return place.put("TopK", place.graph.ints(count), outputs=2, axis=place.axis(), largest=int(place.coin()))


def _cumulate(operator: str) -> Operator:
    def cumulate(place: Place) -> list[str]:
        axis = place.graph.constant(np.array(place.axis(), "int64"))
        return place.put(operator, axis, exclusive=int(place.coin()), reverse=int(place.coin()))

    return cumulate


def _slice(place: Place) -> list[str]:
    axes, graph = place.axes(), place.graph
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = place.shape[axis]
        first = place.draw.randrange(extent)
        after = place.draw.randrange(first + 1, extent + 1)
        if place.coin():
            starts.append(first - place.draw.choice([0, extent]))
            ends.append(after if after == extent else after - place.draw.choice([0, extent]))
            steps.append(place.draw.choice([1, 1, 2]))
        else:
            starts.append(after - 1)
            ends.append(first - 1 if first else -(1 << 31))
            steps.append(-place.draw.choice([1, 2]))
    return place.put("Slice", *(graph.ints(*values) for values in (starts, ends, axes, steps)))


def _flatten(place: Place) -> list[str]:
    rank = len(place.shape)
    return place.put("Flatten", axis=place.turn % (2 * rank + 1) - rank)


def _layer_normalisation(place: Place) -> list[str]:
    shape = place.shape[place.axis() % len(place.shape) :]
    return place.put("LayerNormalization", place.graph.positive(*shape), place.graph.floats(*shape), axis=place.axis())


def _rms_normalisation(place: Place) -> list[str]:
    shape = place.shape[place.axis() % len(place.shape) :]
    return place.put("RMSNormalization", place.graph.positive(*shape), axis=place.axis())


def _norm(place: Place) -> list[str]:
    return place.put("LpNormalization", axis=place.axis(), p=place.draw.choice([1, 2]))


def _mean_variance(place: Place) -> list[str]:
    axes = place.axes()
    if prod(place.shape[axis] for axis in axes) < 4:
        raise UnfitError("the variance of few values is mostly rounding")
    return place.put("MeanVarianceNormalization", axes=axes)


def _transpose(place: Place) -> list[str]:
    return place.put("Transpose", perm=place.draw.sample(range(len(place.shape)), len(place.shape)))


def _pad(place: Place) -> list[str]:
    graph, rank, axes = place.graph, len(place.shape), place.axes()
    mode = place.draw.choice(["constant", "constant", "reflect", "edge"])
    before, after = [0] * rank, [0] * rank
    for axis in axes:
        extent = place.shape[axis]
        most = extent - 1 if mode == "reflect" else 2
        least = 0 if mode == "reflect" else -((extent - 1) // 2)
        before[axis], after[axis] = (place.draw.randint(min(least, most), most) for _ in range(2))
    value = [graph.constant(np.array(0.5, "float32"))] if mode == "constant" else [""]
    if graph.opset < 18:
        return place.put("Pad", graph.ints(*before, *after), *value, mode=mode)
    pads = graph.ints(*(before[axis] for axis in axes), *(after[axis] for axis in axes))
    return place.put("Pad", pads, *value, graph.ints(*axes), mode=mode)


def _one_hot(place: Place) -> list[str]:
    graph, rank = place.graph, len(place.shape)
    place = place.behind(graph.add("ArgMax", place.x, axis=place.draw.randrange(rank), keepdims=0))
    depth, values = graph.ints(5), graph.constant(np.array([0.25, 2], "float32"))
    return place.put("OneHot", depth, values, axis=place.axis(rank))


def _reverse_sequence(place: Place) -> list[str]:
    if len(place.shape) < 2:
        raise UnfitError("a sequence in a batch has two axes")
    batch, time = place.draw.sample([0, 1], 2)
    lengths = [place.draw.randint(1, place.shape[time]) for _ in range(place.shape[batch])]
    return place.put("ReverseSequence", place.graph.ints(*lengths), batch_axis=batch, time_axis=time)


def _compress(place: Place) -> list[str]:
    extent = place.shape[place.axis()]
    kept = np.array([place.coin() for _ in range(extent - 1)] + [True])
    return place.put("Compress", place.graph.constant(kept), axis=place.axis())


def _quantised(place: Place) -> list[str]:
    extent = place.shape[place.axis()]
    operands = [place.graph.positive(extent), place.graph.constant(np.zeros(extent, "int8"))]
    if not place.graph.has("QuantizeLinear", "axis"):
        raise UnfitError("QuantizeLinear has no axis in this opset")
    stored = place.put("QuantizeLinear", *operands, axis=place.axis())[0]
    return place.behind(stored).put("DequantizeLinear", *operands, axis=place.axis())


def _fourier(place: Place) -> list[str]:
    graph, rank = place.graph, len(place.shape)
    place = place.behind(place.put_with("Unsqueeze", {"axes": [rank]})[0])
    inverse = {"inverse": int(place.coin())}
    axis = place.turn % (2 * rank) - rank  # the last axis, of real and imaginary parts, is none of them
    axis = axis - 1 if axis < 0 else axis
    if graph.has("DFT", "axis"):
        return place.put("DFT", axis=axis, **inverse)
    return place.put("DFT", "", graph.constant(np.array(axis, "int64")), **inverse)


def _crop(place: Place) -> list[str]:
    axes = place.axes()
    extents = [place.draw.randint(1, place.shape[axis] + 2) for axis in axes]
    return place.put("CenterCropPad", place.graph.ints(*extents), axes=axes)


def _resize(place: Place) -> list[str]:
    axis = place.axis()
    scales = place.graph.constant(np.array([place.draw.choice([0.5, 2, 3])], "float32"))
    if place.shape[axis] == 1:
        raise UnfitError("half of one element is none")
    attributes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    if not place.graph.has("Resize", "axes"):
        raise UnfitError("Resize has no axes in this opset")
    return place.put("Resize", "", scales, outputs=1, axes=[axis], **attributes)


def _scan(place: Place) -> list[str]:
    axis, shape = place.axis(), list(place.shape)
    del shape[axis]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("state", "slice")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("after", "seen")]
    nodes = [
        helper.make_node("Add", ["state", "slice"], ["after"], name="add"),
        helper.make_node("Identity", ["after"], ["seen"], name="identity"),
    ]
    body = helper.make_graph(nodes, "body", values, results)
    start = place.graph.floats(*shape)
    axes = {"scan_input_axes": [axis], "scan_output_axes": [place.draw.choice([axis, 0, -1])]}
    return place.graph.add_all("Scan", start, place.x, outputs=2, body=body, num_scan_inputs=1, **axes)


def _window(place: Place) -> list[int]:
    extents = place.shape[2:]
    if not extents:
        raise UnfitError("a window needs a spatial axis")
    return [min(place.draw.choice([1, 2, 3]), extent) for extent in extents]


def _pads(place: Place, window: list[int]) -> list[int]:
    return [place.draw.randrange(size) for _ in range(2) for size in window]


def _pooled(operator: str) -> Operator:
    def pool(place: Place) -> list[str]:
        window = _window(place)
        return place.put(operator, kernel_shape=window, pads=_pads(place, window))

    return pool


def _convolved(place: Place) -> list[str]:
    window = _window(place)
    weights = place.graph.floats(3, place.shape[1], *window)
    return place.put("Conv", weights, pads=_pads(place, window))


def _transposed(place: Place) -> list[str]:
    window = _window(place)
    weights = place.graph.floats(place.shape[1], 3, *window)
    if any(place.shape[2 + axis] + size - 1 < 2 * size - 1 for axis, size in enumerate(window)):
        raise UnfitError("pads may leave nothing")
    return place.put("ConvTranspose", weights, pads=_pads(place, window))


OPERATORS: dict[str, Operator] = {
    **{name: _along(name) for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{name: _reduce(name) for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")},
    **{name: _reduce(name) for name in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")},
    "ReduceLogSum": _reduce("ReduceLogSum", of_positive=True),
    **{name: _arg(name) for name in ("ArgMax", "ArgMin")},
    **{name: _cumulate(name) for name in ("CumSum", "CumProd")},
    **{name: _scatter(name) for name in ("Scatter", "ScatterElements")},
    **{name: _pooled(name) for name in ("MaxPool", "AveragePool", "LpPool")},
    "CenterCropPad": _crop,
    "Compress": _compress,
    "Concat": _concat,
    "Conv": _convolved,
    "ConvTranspose": _transposed,
    "DFT": _fourier,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "LayerNormalization": _layer_normalisation,
    "LpNormalization": _norm,
    "MeanVarianceNormalization": _mean_variance,
    "OneHot": _one_hot,
    "Pad": _pad,
    "QuantizeLinear": _quantised,
    "RMSNormalization": _rms_normalisation,
    "Resize": _resize,
    "ReverseSequence": _reverse_sequence,
    "Scan": _scan,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unique": _along("Unique"),
    "Unsqueeze": _unsqueeze,
}

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("ConcatFromSequence", "SplitToSequence"), "sequences are out of scope"),
    **dict.fromkeys(("ConvInteger", "QLinearConv", "DeformConv", "Col2Im", "MaxUnpool"), "no axis: pads of windows"),
    "DequantizeLinear": "follows QuantizeLinear",
    "TensorScatter": "ONNX Runtime does not have it",
}
"""Operators with axes that are not put behind others, and why."""


def with_axes() -> set[str]:
    """ONNX's operators that have an attribute or an input which names axes, their order, or what is added to them."""
    words = ("axis", "axes", "perm", "pads", "starts")
    return {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if not schema.domain
        and any(word in name for name in [*schema.attributes, *(i.name for i in schema.inputs)] for word in words)
    }
