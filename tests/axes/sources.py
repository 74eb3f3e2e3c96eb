"""Layers before the operator under test: edgetune converts them to channels last; a Transpose may follow them."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.axes.graphs import Graph, UnfitError

Layer = Callable[[Graph, str], str]


def convolution(graph: Graph, x: str) -> str:
    """A Conv of any number of spatial axes."""
    channels, *extents = graph.shape(x)[1:]
    made = graph.draw.choice([1, 2, 4, 5])
    kernel = [min(graph.draw.choice([1, 2, 3]), extent) for extent in extents]
    return graph.add("Conv", x, graph.floats(made, channels, *kernel))


def transposed_convolution(graph: Graph, x: str) -> str:
    """A ConvTranspose with any stride."""
    channels, *extents = graph.shape(x)[1:]
    strides = [graph.draw.choice([1, 2]) for _ in extents]
    kernel = [graph.draw.choice([1, 2, 3]) for _ in extents]
    weights = graph.floats(channels, graph.draw.choice([1, 3, 4]), *kernel)
    return graph.add("ConvTranspose", x, weights, strides=strides)


def normalisation(graph: Graph, x: str) -> str:
    """A BatchNormalization."""
    channels = graph.shape(x)[1]
    of_channels = [graph.positive(channels), graph.floats(channels), graph.floats(channels), graph.positive(channels)]
    return graph.add("BatchNormalization", x, *of_channels)


def _pooling(operator: str) -> Layer:
    def pool(graph: Graph, x: str) -> str:
        extents = graph.shape(x)[2:]
        return graph.add(operator, x, kernel_shape=[min(2, extent) for extent in extents])

    return pool


def global_average(graph: Graph, x: str) -> str:
    """A GlobalAveragePool."""
    return graph.add("GlobalAveragePool", x)


def _of_one_axis(graph: Graph, x: str) -> str:
    if len(graph.shape(x)) != 3:
        raise UnfitError("Conv1D has one spatial axis")
    return convolution(graph, x)


LAYERS: dict[str, Layer] = {
    "Conv": convolution,
    "Conv1D": _of_one_axis,
    "ConvTranspose": transposed_convolution,
    "MaxPool": _pooling("MaxPool"),
    "AveragePool": _pooling("AveragePool"),
    "GlobalAveragePool": global_average,
    "BatchNormalization": normalisation,
}


def source(draw: random.Random, opset: int) -> tuple[Graph, str, str]:
    """A graph, the value that the operator is to read, and how it is made, in words."""
    last = draw.choice(list(LAYERS))
    spatial = 1 if last == "Conv1D" else draw.choice([1, 2, 2, 2, 3])
    shape = (draw.choice([1, 1, 2]), draw.choice([1, 3, 4]), *(draw.choice([1, 3, 4, 6]) for _ in range(spatial)))
    graph = Graph(draw, opset, shape)
    # A layer without weights is turned to channels last where a convolution stands before it.
    names = ["Conv", last] if "Conv" not in last and draw.random() < 0.7 else [last]
    x = "x"
    for name in names:
        x = LAYERS[name](graph, x)
    if draw.random() < 0.4:
        names.append("Transpose")
        x = graph.add("Transpose", x, perm=draw.sample(range(spatial + 2), spatial + 2))
    return graph, x, " ".join(names)
