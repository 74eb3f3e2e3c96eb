"""Nested graphs, such as branches and bodies of loops: their nodes, what they read, and names that none has."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx


def nested(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a node: branches and bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(holder: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph or function, and of its nested graphs."""
    for node in holder.node:
        yield node
        for inner in nested(node):
            yield from all_nodes(inner)


def set_nodes(holder: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Gives a graph or function `nodes`, some of which may be its own, in place of those that it has."""
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del holder.node[:]
    holder.node.extend(kept)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, and all that its nested graphs do, their own tensors included."""
    yield from filter(None, node.input)
    for inner in nested(node):
        yield from reads_within(inner)


def reads_within(graph: onnx.GraphProto) -> Iterator[str]:
    """What the nodes of a graph and its nested graphs read, and what these graphs return."""
    for node in graph.node:
        yield from reads(node)
    yield from (output.name for output in graph.output)


def reads_from_outside(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads of the graph that it is in, and of those around that."""
    yield from filter(None, node.input)
    for inner in nested(node):
        yield from reads_of_body(inner)


def reads_of_body(graph: onnx.GraphProto) -> Iterator[str]:
    """What a nested graph reads of the graphs around it."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(name for one in graph.node for name in one.output)
    yield from (name for one in graph.node for name in reads_from_outside(one) if name not in own)
    yield from (output.name for output in graph.output if output.name not in own)


def unused_prefix(proto: onnx.ModelProto, start: str) -> str:
    """A prefix that begins with `start` and that no name of a model has, in its nested graphs and functions either."""
    names = {*_names(proto.graph), *itertools.chain.from_iterable(map(_names_of_function, proto.functions))}
    prefixes = (f"{start}{number}_" for number in itertools.count())
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names))


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from _names_of_nodes(graph.node)


def _names_of_function(function: onnx.FunctionProto) -> Iterator[str]:
    yield from (*function.input, *function.output)
    yield from _names_of_nodes(function.node)


def _names_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield from (*node.input, *node.output)
        for inner in nested(node):
            yield from _names(inner)
