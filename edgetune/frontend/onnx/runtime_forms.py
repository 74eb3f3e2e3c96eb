"""Models of ONNX Runtime's operators as models of ONNX's: what its optimiser and quantisers write, before the import.

Only ONNX Runtime computes its own operators. So the model is written out once, as it is read: everything after that,
such as ONNX's evaluator, evaluation in double, perturbed copies and the import, sees operators of ONNX alone. ONNX
Runtime itself runs the model as it was read. A node whose input shapes are unknown here, as in the body of a loop,
stays: the import knows them once it has unrolled the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.onnx_runtime import rule_of
from edgetune.frontend.onnx.domains import ONNX_RUNTIME, is_onnx, opset_of
from edgetune.frontend.onnx.function_bodies import with_defaults
from edgetune.frontend.onnx.inferred_types import UnfitInputsError
from edgetune.frontend.onnx.inline import Evaluator, Scope
from edgetune.frontend.onnx.large_tensors import LARGE, Weights, stand_in, value_of
from edgetune.frontend.onnx.nested_graphs import all_nodes, nested, reads, set_nodes, unused_prefix
from edgetune.frontend.onnx.node_values import constant_value, static_shape
from edgetune.frontend.onnx.origins import keep_origin
from edgetune.frontend.onnx.refused_nodes import refused_where_unfit
from edgetune.frontend.onnx.scan_loop import LoopGraph, LoopSignature

_Known = TypeVar("_Known")


def with_operators_of_onnx(proto: onnx.ModelProto, weights: Weights) -> tuple[onnx.ModelProto, Weights]:
    """`proto`, whose input shapes are fixed, without operators of ONNX Runtime, and `weights` with those it now has.

    Both are returned as they are where it has no such operator. Functions of a model that has are inlined. A node that
    cannot be written out stays, for the import to refuse in its own words.
    """
    opset = opset_of(proto)
    if not any(rule_of(node, opset) for holder in (proto.graph, *proto.functions) for node in all_nodes(holder)):
        return proto, weights
    if proto.functions:
        proto = inliner.inline_local_functions(with_defaults(proto))
    return _Writer(proto, weights).written()


class _Writer(Evaluator):
    """Goes through a model in order and replaces nodes; unlike its base, it leaves all others as they are."""

    def __init__(self, proto: onnx.ModelProto, weights: Weights) -> None:
        super().__init__(proto, lambda _: True, frozenset(), weights)
        self._written = onnx.ModelProto()
        self._written.CopyFrom(proto)
        self._start = unused_prefix(proto, "written_")
        self._is_new = False

    def written(self) -> tuple[onnx.ModelProto, Weights]:
        """The model, and the arrays of its large initializers."""
        graph, large = self._written.graph, dict(self.weights)
        self._go_through(graph)
        read = {name for node in graph.node for name in reads(node)}
        made = {name for node in all_nodes(graph) for name in node.output}
        self._leave_out_unread(graph, read, large)
        for name, value in self.constants.items():
            if not name.startswith(self._start) or name not in read or name in made:
                continue
            if value.nbytes >= LARGE:
                large[name] = value
                graph.initializer.append(stand_in(name, value))
            else:
                graph.initializer.append(numpy_helper.from_array(value, name))
        for output in graph.output:  # exporters could not infer the shapes behind operators of ONNX Runtime
            if static_shape(output.name, self.types) is not None:
                output.type.CopyFrom(self.types[output.name])
        told = {value.name for value in (*graph.value_info, *graph.output)}
        for name in (name for node in graph.node for name in node.output):
            if name in self.types and name not in told:
                graph.value_info.append(helper.make_value_info(name, self.types[name]))
        if not any(node.domain == ONNX_RUNTIME for node in all_nodes(graph)):
            domains = [entry for entry in self._written.opset_import if entry.domain != ONNX_RUNTIME]
            del self._written.opset_import[:]
            self._written.opset_import.extend(domains)
        return self._written, large

    def _leave_out_unread(self, graph: onnx.GraphProto, read: set[str], large: dict[str, np.ndarray]) -> None:
        """Removes what only the nodes that are gone read, such as packed weights."""
        kept = read | {value.name for value in (*graph.input, *graph.output)}
        for initializer in [one for one in graph.initializer if one.name not in kept]:
            graph.initializer.remove(initializer)
            large.pop(initializer.name, None)

    def prefix(self) -> str:
        """A prefix that neither the model nor an earlier value has, nor the import will use."""
        self._fresh += 1
        return f"{self._start}{self._fresh}_"

    def _go_through(self, graph: onnx.GraphProto) -> None:
        outer, self.nodes = self.nodes, []
        for node in list(graph.node):
            for inner in nested(node):
                self._within(inner)
            self.origin = node
            self._node(node, {})
        set_nodes(graph, self.nodes)
        self.nodes = outer

    def _within(self, graph: onnx.GraphProto) -> None:
        """A branch or a body. Names in it may be those of another branch, so what is known of them is forgotten."""
        types, constants = dict(self.types), dict(self.constants)
        self.types |= {value.name: value.type for value in (*graph.input, *graph.value_info)}
        for initializer in graph.initializer:
            self.set_constant(initializer.name, value_of(initializer, self.weights))
        self._go_through(graph)
        self.types = types | self._of_new(self.types)
        self.constants = constants | self._of_new(self.constants)

    def _of_new(self, known: Mapping[str, _Known]) -> dict[str, _Known]:
        return {name: value for name, value in known.items() if name.startswith(self._start)}

    def _node(self, node: onnx.NodeProto, scope: Scope, original: onnx.NodeProto | None = None) -> None:
        del scope, original
        if self._is_new or not self._replaced_by_rule(node):
            self._keep(node)
            self._learn(node)

    def _replaced_by_rule(self, node: onnx.NodeProto) -> bool:
        before = len(self.nodes)
        self._is_new = True
        try:
            with refused_where_unfit(node):
                if self._of_onnx_runtime(node):
                    return True
        except UnsupportedOperator:
            pass  # the import meets the same node, and names it
        finally:
            self._is_new = False
        del self.nodes[before:]
        return False

    def _keep(self, node: onnx.NodeProto) -> None:
        if self._is_new:
            node.name = self.origin.name  # layers of a report go by it
            keep_origin(node, self.origin)
        self.nodes.append(node)

    def emit_loop(self, loop: LoopSignature, read: Sequence[str], made: Sequence[str], body: LoopGraph) -> None:
        """Keeps a loop as an operator of ONNX."""
        self._keep(loop.scan(read, made, body))
        for name, (shape, dtype) in zip(made, loop.results, strict=True):
            self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def _learn(self, node: onnx.NodeProto) -> None:
        """Takes in what is known of the outputs of a node that stays."""
        if not is_onnx(node):
            return
        values = constant_value(node, self.constants, self.types, self.proto)
        for name, value in zip(node.output, values or (), strict=False):
            if name:
                self.set_constant(name, value)
        if values is None:
            with contextlib.suppress(UnfitInputsError):
                self.types.update(self._inferred(node, self.schema(node)))
