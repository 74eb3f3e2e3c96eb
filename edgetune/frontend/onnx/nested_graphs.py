"""Nested graphs, such as branches and bodies of loops: their nodes, what they read, and names that none has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx


def nested(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a node: branches and bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of its nested graphs."""
    for node in graph.node:
        yield node
        for inner in nested(node):
            yield from all_nodes(inner)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, its nested graphs included."""
    yield from filter(None, node.input)
    for inner in nested(node):
        for one in inner.node:
            yield from reads(one)
        yield from (output.name for output in inner.output)


def unused_prefix(graph: onnx.GraphProto, start: str) -> str:
    """A prefix that begins with `start` and that no name of a graph or its nested graphs has."""
    names = set(_names(graph))
    prefixes = (f"{start}{number}_" for number in itertools.count())
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names))


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in nested(node):
            yield from _names(inner)
