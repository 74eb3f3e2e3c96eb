"""Partial evaluation of an ONNX graph: computes all that shapes and constants determine, before TVM imports it.

Operators without a converter are replaced by the function bodies that ONNX defines for them, or by our decompositions.
Shapes are static here, so `Shape` and all that is computed from it become constants. If disappears where its control
is constant; Loop and Scan become loops of a known number of iterations, or disappear too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.onnx import control_loops
from edgetune.frontend.onnx.control_flow import unrolled_if
from edgetune.frontend.onnx.decompositions import DECOMPOSITIONS
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.onnx_runtime import rule_of
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.fixed_point import NAMES, is_fixed_point
from edgetune.frontend.onnx.function_bodies import function_body, with_attributes, with_defaults
from edgetune.frontend.onnx.inferred_types import UnfitInputsError, inferred_types
from edgetune.frontend.onnx.large_tensors import LARGE, Weights, is_stand_in, stand_in, value_of
from edgetune.frontend.onnx.nested_graphs import all_nodes, nested, reads
from edgetune.frontend.onnx.node_values import constant_value, real_inputs, static_shape
from edgetune.frontend.onnx.origins import keep_origin, shown_node
from edgetune.frontend.onnx.refused_nodes import RefusedNode, refused_where_unfit, sentence_of
from edgetune.frontend.onnx.scan_loop import LoopGraph, LoopSignature
from edgetune.frontend.onnx.sub_byte_types import storage, store_interface, written_out

Scope = dict[str, str]
_CONTROL = {"If": unrolled_if, "Loop": control_loops.loop, "Scan": control_loops.scan}


def simplify(
    proto: onnx.ModelProto,
    has_converter: Callable[[onnx.NodeProto], bool],
    kept: Iterable[str] = (),
    weights: Weights | None = None,
    refused: list[RefusedNode] | None = None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of the same inputs and outputs from which every removable operator is removed.

    `has_converter` says which operators may stay; `kept` are initializers that must not be folded;
    `weights` are the arrays of the stand-ins among the initializers. Those of the new model are returned with it.
    Nodes with a form that no rule can write out stay, and are added to `refused`. Raises ModelError for a node that
    would be decomposed, but cannot have inputs of these shapes, and UnsupportedOperator for refused nodes where
    `refused` is not given.
    """
    if proto.functions:
        proto = inliner.inline_selected_functions(with_defaults(proto), list(NAMES), exclude=True)
    evaluator = Evaluator(proto, has_converter, frozenset(kept), weights or {})
    evaluator.run(proto.graph.node, {}, "")
    for operator, misfit in evaluator.misfits:
        if operator in DECOMPOSITIONS:  # TVM's importer judges the others
            raise ModelError(f"{misfit}; give inputs of other sizes, or export the model again")
    if refused is None and evaluator.refused:
        raise UnsupportedOperator(sentence_of(evaluator.refused))
    if refused is not None:
        refused += evaluator.refused
    return evaluator.model()


class Evaluator:
    """Evaluates a graph in order; `constants` and `types` hold what is known of every value so far.

    `sequences` has the names of the elements of each sequence of tensors. `misfits` are nodes that cannot have inputs
    of the shapes they get: the operator, and a sentence. `settled` holds, by its first output, which branch an If takes
    because the other one has such a node, and why. `refused` are nodes of the model that no rule can write out.
    `origin` is the node of the model that it is at.
    """

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
        self.inputs = {i.name for i in real_inputs(self.proto.graph)}
        self.constants: dict[str, np.ndarray] = {}
        self.from_file = {i.name: i for i in proto.graph.initializer}
        self.sequences: dict[str, list[str]] = {}
        self.misfits: list[tuple[str, str]] = []
        self.settled: dict[str, tuple[bool, str]] = {}
        self.refused: list[RefusedNode] = []
        self._fresh = 0
        self._start = "inlined"
        self._of_bodies: dict[str, np.ndarray] = {}
        self.origin = onnx.NodeProto()
        for initializer in proto.graph.initializer:
            if initializer.name not in self.kept:
                self.set_constant(initializer.name, value_of(initializer, weights))
            else:
                self.types[initializer.name] = helper.make_tensor_type_proto(initializer.data_type, initializer.dims)
        for name in sorted(self.inputs - self.narrow.keys()):
            if 0 in (static_shape(name, self.types) or ()):
                self._set_empty(name, self.types[name])

    def run(self, nodes: Iterable[onnx.NodeProto], scope: Scope, prefix: str) -> None:
        """Evaluates `nodes`, whose names `scope` translates; values they define are called `prefix` + name."""
        for original in nodes:
            if not prefix:  # a node of the model itself
                self.origin = original
            node = onnx.NodeProto()
            node.CopyFrom(original)
            del node.input[:], node.output[:]
            node.input.extend(scope.get(i, i) for i in original.input)
            for output in original.output:
                if output:
                    scope.setdefault(output, prefix + output)
                node.output.append(scope.get(output, output))
            if prefix:
                self._node(node, scope, original)
            else:
                self._node_of_model(node, scope, original)

    def _node_of_model(self, node: onnx.NodeProto, scope: Scope, original: onnx.NodeProto) -> None:
        """Evaluates a node of the model itself: where a rule refuses it, the nodes behind it are still looked at."""
        try:
            with refused_where_unfit(node):
                self._node(node, scope, original)
        except UnsupportedOperator as error:
            self._keep(node)
            self.refused.append(RefusedNode.of(node, f"node {shown_node(original)!r}: {error.message}"))
            with contextlib.suppress(UnfitInputsError):
                self.types.update(self._inferred(node, self.schema(node)))

    def prefix(self) -> str:
        """A prefix that no value has used before."""
        self._fresh += 1
        return f"{self._start}{self._fresh}_"

    def inner(self) -> Evaluator:
        """An evaluator for the body of a loop, which has no inputs yet (see `declare`)."""
        proto = onnx.ModelProto(ir_version=self.proto.ir_version, opset_import=self.proto.opset_import)
        proto.graph.name = "body"
        found = Evaluator(proto, self.has_converter, frozenset(), {})
        found._start = self.prefix() + "in"
        found.origin = self.origin
        return found

    def declare(self, value: onnx.ValueInfoProto) -> None:
        """Adds an input."""
        self.proto.graph.input.append(value)
        self.types[value.name] = value.type
        self.inputs.add(value.name)

    def emit_loop(self, loop: LoopSignature, read: Sequence[str], made: Sequence[str], body: LoopGraph) -> None:
        """Keeps a loop that reads `read` and makes `made`."""
        self._of_bodies |= body.large
        self._keep(loop.node(read, made, body.graph))
        for name, (shape, dtype) in zip(made, loop.results, strict=True):
            self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def plain(self, name: str) -> str:
        """An alias of a narrow value, which counts as numbers of its storage type."""
        alias = self.prefix() + "stored"
        self._keep(helper.make_node("Identity", [name], [alias]))
        self.types[alias] = helper.make_tensor_type_proto(storage(self.narrow[name]), None)
        self.types[alias].tensor_type.shape.CopyFrom(self.types[name].tensor_type.shape)
        return alias

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Records the value of `name`."""
        self.constants[name] = value
        self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def stored(self, name: str) -> np.ndarray | None:
        """The value of `name` where it is constant, also one that is kept (see `kept_weights`)."""
        if name in self.kept:
            return value_of(self.from_file[name], self.weights)
        return self.constants.get(name)

    def emit(self, op_type: str, inputs: list[str], outputs: list[str], **attributes: object) -> None:
        """Evaluates one new node of the default domain."""
        self._node(helper.make_node(op_type, inputs, outputs, **attributes), {})

    def schema(self, node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        """The definition of the operator in the model's opset, None for one that ONNX does not define.

        An operator of a decomposition that is newer than the model's opset has its newest definition.
        """
        domain = "" if node.domain == "ai.onnx" else node.domain
        with contextlib.suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(node.op_type, self.opsets.get(domain, 1), domain)
        with contextlib.suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(node.op_type, domain)
        return None

    def _node(self, node: onnx.NodeProto, scope: Scope, original: onnx.NodeProto | None = None) -> None:
        """Evaluates `node`; `original` is the one of the model, or of a definition, where no rule of ours wrote it."""
        if not is_onnx(node) or rule_of(node, self.opsets.get("", 1)) is not None:
            # All rules below use only the operator's name, which has another meaning in another domain.
            if not self._of_onnx_runtime(node):
                self._keep(node)
            if is_fixed_point(node) and node.input[0] in self.types:
                self.types[node.output[0]] = self.types[node.input[0]]
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
        try:
            types = self._inferred(node, schema)
        except UnfitInputsError as error:
            if original is not None and (node.op_type in DECOMPOSITIONS or self._stays(node)):
                sentence = f"operator {node.op_type} (node {shown_node(original)!r}) does not fit its inputs ({error})"
                self.misfits.append((node.op_type, sentence))
                self._keep(node)
                return
            types = {}
        if node.op_type not in DECOMPOSITIONS and self._is_empty(node, types):  # those judge their inputs themselves
            return
        if self._replaced(node, schema):
            # Types from the node's definition, where its replacement gave none.
            for name, found in types.items():
                self.types.setdefault(name, found)
            return
        self._keep(node)
        self.types.update(types)

    def _of_onnx_runtime(self, node: onnx.NodeProto) -> bool:
        """Evaluates operators of ONNX instead of one of ONNX Runtime; False where there is no rule, or no shape."""
        rule = rule_of(node, self.opsets.get("", 1))
        builder = Builder(self, node)
        if rule is None or not builder.typed() or rule(builder, node) is False:
            return False
        builder.require_outputs()
        return True

    def _is_empty(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> bool:
        """Whether all that `node` makes has no elements; then it is constant, whatever its inputs hold."""
        made = [name for name in node.output if name]
        shapes = {name: static_shape(name, types) for name in made}
        if not made or any(shape is None or 0 not in shape or name in self.narrow for name, shape in shapes.items()):
            return False
        for name in made:
            self._set_empty(name, types[name])
        return True

    def _set_empty(self, name: str, type_: onnx.TypeProto) -> None:
        shape, element = static_shape(name, {name: type_}), type_.tensor_type.elem_type
        self.set_constant(name, np.zeros(shape or (), helper.tensor_dtype_to_np_dtype(element)))

    def _keep(self, node: onnx.NodeProto) -> None:
        keep_origin(node, self.origin)
        self.nodes.append(node)

    def _replaced(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> bool:
        """Evaluates simpler operators instead of `node`; False where it stays."""
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
        """The remaining graph as a model, and the arrays of its large initializers, which are stand-ins."""
        result = onnx.ModelProto()
        result.CopyFrom(self.proto)
        graph = result.graph
        del graph.node[:], graph.initializer[:], graph.value_info[:], result.functions[:]
        outputs = [o.name for o in graph.output]
        graph.node.extend(_needed(self.nodes, outputs))
        used = {i for n in graph.node for i in n.input} | set(outputs)
        large = self._of_bodies | {name: self.weights[name] for name in _stand_ins_in_bodies(graph, self.weights)}
        for name in sorted(used & (set(self.constants) - self.inputs | self.kept)):
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


def _stand_ins_in_bodies(graph: onnx.GraphProto, weights: Weights) -> Iterator[str]:
    """Names of the stand-ins in the bodies of loops."""
    for node in all_nodes(graph):
        for inner in nested(node):
            yield from (one.name for one in inner.initializer if is_stand_in(one, weights))


def _needed(nodes: list[onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(reads(node))
    return kept[::-1]
