"""Evaluates an ONNX graph as far as its shapes and constants allow, before TVM sees it.

Operators that nobody converts are replaced by the function bodies that ONNX defines for them, or by our own. Shapes are
static here, so `Shape` and all that is computed from it become constants. If, Loop and Scan vanish where their control
is constant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from edgetune.models.control_flow import unrolled_if, unrolled_loop, unrolled_scan
from edgetune.models.decompositions import DECOMPOSITIONS
from edgetune.models.decompositions.builder import Builder
from edgetune.models.domains import is_onnx
from edgetune.models.freeze import captured
from edgetune.models.function_bodies import function_body, with_attributes, with_defaults
from edgetune.models.inferred_types import inferred_types
from edgetune.models.large_tensors import LARGE, Weights, is_stand_in, stand_in, value_of
from edgetune.models.narrow_types import storage, store_interface, written_out
from edgetune.models.node_values import constant_value

Scope = dict[str, str]
_CONTROL = {"If": unrolled_if, "Loop": unrolled_loop, "Scan": unrolled_scan}


def simplify(
    proto: onnx.ModelProto,
    has_converter: Callable[[onnx.NodeProto], bool],
    kept: Iterable[str] = (),
    weights: Weights | None = None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of the same inputs and outputs in which every operator that could be removed is gone.

    `has_converter` tells which operators may stay; `kept` are initializers that must not be folded into anything;
    `weights` are the arrays of the stand-ins among the initializers. Those of the new model's are returned with it.
    """
    if proto.functions:
        proto = inliner.inline_local_functions(with_defaults(proto))
    evaluator = Evaluator(proto, has_converter, frozenset(kept), weights or {})
    evaluator.run(proto.graph.node, {}, "")
    return evaluator.model()


class Evaluator:
    """Walks a graph in order; `constants` and `types` say what is known of every value so far."""

    def __init__(
        self,
        proto: onnx.ModelProto,
        has_converter: Callable[[onnx.NodeProto], bool],
        kept: frozenset[str],
        weights: Weights,
    ) -> None:
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(proto)
        self.narrow: dict[str, int] = {}
        store_interface(self, self.proto.graph)
        self.has_converter = has_converter
        self.kept = kept
        self.weights = weights
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
        self.nodes: list[onnx.NodeProto] = []
        self.types: dict[str, onnx.TypeProto] = {i.name: i.type for i in self.proto.graph.input}
        self.constants: dict[str, np.ndarray] = {}
        self.from_file = {i.name: i for i in proto.graph.initializer}
        self._fresh = 0
        for initializer in proto.graph.initializer:
            if initializer.name not in self.kept:
                self.set_constant(initializer.name, value_of(initializer, weights))
            else:
                self.types[initializer.name] = helper.make_tensor_type_proto(initializer.data_type, initializer.dims)

    def run(self, nodes: Iterable[onnx.NodeProto], scope: Scope, prefix: str) -> None:
        """Evaluates `nodes`, whose names `scope` translates; values they define are called `prefix` + name."""
        for original in nodes:
            node = onnx.NodeProto()
            node.CopyFrom(original)
            del node.input[:], node.output[:]
            node.input.extend(scope.get(i, i) for i in original.input)
            for output in original.output:
                if output:
                    scope.setdefault(output, prefix + output)
                node.output.append(scope.get(output, output))
            self._node(node, scope)

    def prefix(self) -> str:
        """A prefix that no value has had before."""
        self._fresh += 1
        return f"inlined{self._fresh}_"

    def plain(self, name: str) -> str:
        """A narrow value under a name by which it counts as numbers of its storage type."""
        alias = self.prefix() + "stored"
        self.nodes.append(helper.make_node("Identity", [name], [alias]))
        self.types[alias] = helper.make_tensor_type_proto(storage(self.narrow[name]), None)
        self.types[alias].tensor_type.shape.CopyFrom(self.types[name].tensor_type.shape)
        return alias

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Records the value of `name`."""
        self.constants[name] = value
        self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def emit(self, op_type: str, inputs: list[str], outputs: list[str], **attributes: object) -> None:
        """Evaluates one new node of the default domain."""
        self._node(helper.make_node(op_type, inputs, outputs, **attributes), {})

    def schema(self, node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        """The definition of the operator in the model's opset, None for one that ONNX does not define.

        A decomposition may write an operator that is newer than the model: it has its newest definition.
        """
        domain = "" if node.domain == "ai.onnx" else node.domain
        with contextlib.suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(node.op_type, self.opsets.get(domain, 1), domain)
        with contextlib.suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(node.op_type, domain)
        return None

    def _node(self, node: onnx.NodeProto, scope: Scope) -> None:
        if not is_onnx(node):
            # Everything below goes by the name of the operator; of another domain it is another operator.
            self.nodes.append(node)
            return
        if node.op_type == "CastLike" and node.input[1] in self.types:
            like = node.input[1]
            element = self.narrow.get(like, self.types[like].tensor_type.elem_type)
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            node = helper.make_node("Cast", node.input[:1], node.output, to=element, **attributes)
        values = constant_value(node, self.constants, self.types, self.proto)
        if values is not None:
            for name, value in zip(node.output, values, strict=False):
                if name:
                    self.set_constant(name, value)
            return
        if written_out(self, node):
            return
        if node.op_type in _CONTROL and _CONTROL[node.op_type](self, node, scope):
            return
        schema = self.schema(node)
        types = self._inferred(node, schema)
        if self._replaced(node, schema):
            # What the node is by its definition, where the operators in its place did not tell.
            for name, found in types.items():
                self.types.setdefault(name, found)
            return
        self.nodes.append(node)
        self.types.update(types)

    def _replaced(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> bool:
        """Evaluates simpler operators in place of `node`; False where it stays."""
        if node.op_type in DECOMPOSITIONS:
            builder = Builder(self, node)
            if builder.typed() and DECOMPOSITIONS[node.op_type](builder, node) is not False:
                return True
        body = None if self._stays(node) else function_body(node, schema, self.opsets, self.types)
        if body is None or schema is None:
            return False
        self._inline(node, schema, body)
        return True

    def _stays(self, node: onnx.NodeProto) -> bool:
        return node.domain in {"", "ai.onnx"} and self.has_converter(node)

    def _inline(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema, body: onnx.FunctionProto) -> None:
        scope: Scope = {}
        for index, formal in enumerate(body.input):
            scope[formal] = node.input[index] if index < len(node.input) else ""
        late = {}
        for formal, actual in zip(body.output, node.output, strict=False):
            if formal in scope:
                late[formal] = actual
            elif actual:
                scope[formal] = actual
        for formal, actual in late.items():
            self.emit("Identity", [scope[formal]], [actual])
        self.run(with_attributes(body, node, schema), scope, self.prefix())

    def _inferred(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> dict[str, onnx.TypeProto]:
        opsets, version = list(self.proto.opset_import), self.proto.ir_version
        return inferred_types(node, schema, self.types, self.constants, opsets, version)

    def model(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """What is left, as a model, and the arrays of its large initializers, which are stand-ins."""
        result = onnx.ModelProto()
        result.CopyFrom(self.proto)
        graph = result.graph
        del graph.node[:], graph.initializer[:], graph.value_info[:], result.functions[:]
        outputs = [o.name for o in graph.output]
        graph.node.extend(_needed(self.nodes, outputs))
        used = {i for n in graph.node for i in n.input} | set(outputs)
        large: dict[str, np.ndarray] = {}
        for name in sorted(used & (set(self.constants) | self.kept)):
            if name in self.from_file:
                graph.initializer.append(self.from_file[name])
                if is_stand_in(self.from_file[name], self.weights):
                    large[name] = self.weights[name]
            elif self.constants[name].nbytes >= LARGE:
                large[name] = self.constants[name]
                graph.initializer.append(stand_in(name, large[name]))
            else:
                graph.initializer.append(numpy_helper.from_array(self.constants[name], name))
        for name in sorted(used & set(self.types) - {i.name for i in graph.input} - set(outputs)):
            graph.value_info.append(helper.make_value_info(name, self.types[name]))
        return result, large


def _needed(nodes: list[onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
            for attribute in node.attribute:
                wanted.update(captured(attribute))
    return kept[::-1]
