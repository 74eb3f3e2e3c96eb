"""ONNX import: converts a model to Relax with TVM's importer, where our own converters take precedence.

Also finds the integer weights of a quantised (QDQ) graph, which must reach the package as integers.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import tvm
from tvm import relax, tirx
from tvm.relax.frontend.onnx import onnx_frontend

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.onnx.converters import FEWER_OUTPUTS, OWN_CONVERTERS
from edgetune.frontend.onnx.custom import ExpressionMisfitError, is_registered
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.external_data import element_bits
from edgetune.frontend.onnx.fixed_point import is_fixed_point
from edgetune.frontend.onnx.inline import simplify
from edgetune.frontend.onnx.large_tensors import Weights, is_stand_in, value_of
from edgetune.frontend.onnx.node_values import WIDENING, real_inputs, widens
from edgetune.frontend.onnx.origins import described, name_of_written, shown_node
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.refused_nodes import RefusedNode, one_each, sentence_of, without_nodes
from edgetune.frontend.onnx.scan_loop import is_scan_loop, scan_loop_of
from edgetune.frontend.onnx.selected_rows import selections_of
from edgetune.graph.imported import Imported, ImportedLoop
from edgetune.graph.layer_names import mark_nodes, place_of
from edgetune.graph.program import TensorSpec
from edgetune.graph.tvm_errors import reason_of


def kept_weights(proto: onnx.ModelProto, weights: Weights) -> dict[str, np.ndarray]:
    """Initializers of integers that nodes of the main graph widen (see `widens`), by name.

    Constant folding would turn them into numbers four times as large. `weights` are the arrays of stand-ins.
    """
    initializers = {i.name: i for i in proto.graph.initializer}
    kept: dict[str, np.ndarray] = {}
    for node in proto.graph.node:
        if node.op_type in WIDENING and node.input and node.input[0] in initializers:
            array = value_of(initializers[node.input[0]], weights)
            if widens(node, array):
                kept[node.input[0]] = array
    return kept


BORDER = "edgetune.border."
"""Name prefix of nodes between the model and its interface, which are not nodes of the model."""

_UPGRADED = 13
_MOST_REFUSED = 100
_LINEAR = ("Conv", "Gemm", "MatMul")


def import_onnx(model: OnnxModel) -> Imported:
    """Converts a model with static shapes.

    Raises UnsupportedOperator, which names all nodes that cannot be imported, their operators and what to do, and
    ModelError when TVM's importer rejects the graph for another reason.
    """
    imported, refused = import_supported(model)
    if imported is None or refused:
        raise UnsupportedOperator(sentence_of(refused))
    return imported


def import_supported(model: OnnxModel) -> tuple[Imported | None, list[RefusedNode]]:
    """What can be imported of a model with static shapes, and the nodes that cannot.

    The results of refused nodes are parameters of the module, behind inputs and weights; there is no module where their
    shapes are unknown. Many of TVM's converters support the attributes of old opsets only in part, so a model before
    opset 13 with refused nodes is converted to opset 13 and tried again. Raises ModelError when TVM's importer rejects
    the graph for another reason.
    """
    imported, refused = _import(model)
    newer = _upgraded(model) if refused else None
    if newer is not None:
        again = _import(newer)
        if not again[1]:
            return again
    places = {shown_node(node): number for number, node in enumerate(model.proto.graph.node)}
    return imported, sorted(refused, key=lambda one: places.get(one.name, len(places)))


def _upgraded(model: OnnxModel) -> OnnxModel | None:
    # ONNX's converter does not remove the batch axis that Scan had before opset 9.
    batched_scan = model.opset < 9 and any(n.op_type == "Scan" for n in model.proto.graph.node)
    if model.opset >= _UPGRADED or batched_scan:
        return None
    try:
        proto = onnx.version_converter.convert_version(model.proto, _UPGRADED)
        proto = onnx.shape_inference.infer_shapes(proto)
    except (onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError, RuntimeError):
        return None
    return replace(model, proto=proto, opset=_UPGRADED)


def _import(model: OnnxModel) -> tuple[Imported | None, list[RefusedNode]]:
    kept = kept_weights(model.proto, model.weights)
    refused: list[RefusedNode] = []
    proto, large = simplify(model.proto, _has_converter, kept, model.weights, refused)
    refused = one_each([*refused, *_without_converter(proto, model)])
    while True:
        rest = without_nodes(proto, refused)
        if rest is None or (refused and any(map(_is_text, rest.graph.input))):
            return None, refused
        conversion = _Conversion(model.name)
        try:
            cut = [name for one in refused for name in one.outputs]
            return _import_rest(rest, model, large, conversion, cut), refused
        except UnsupportedOperator as error:
            if conversion.current is None:
                more = [RefusedNode("", "", error.message, ())]
            else:
                more = [RefusedNode.of(conversion.current, error.message)]
            known = len(refused)
            refused = one_each([*refused, *more])
            if len(refused) == known or conversion.current is None or len(refused) > _MOST_REFUSED:
                return None, refused


def _import_rest(
    proto: onnx.ModelProto, model: OnnxModel, large: Weights, conversion: _Conversion, cut: Sequence[str]
) -> Imported:
    """The module of `proto`; of its inputs, those in `cut` are no inputs of the model, but results of refused nodes."""
    weights = kept_weights(proto, large)  # without unused ones, and with those that the model computes of constants
    selections = selections_of(proto.graph, model.name)
    # An unused initializer that is also listed as an input is gone by now, but its entry among the inputs remains.
    real = {value.name for value in real_inputs(model.proto.graph)}
    inputs = tuple(_spec(value) for value in proto.graph.input if value.name in real)
    others = [_spec(value) for value in proto.graph.input if value.name in cut]
    _put_inputs_first(proto.graph, [*(i.name for i in inputs), *weights, *(i.name for i in others)])
    shapes = {i.name: list(i.shape) for i in (*inputs, *others)}
    loops = dict(_loops(proto, model, large, conversion))
    module, nodes, places = _convert(proto, model, shapes, large, conversion)
    _check_static(module, model, places)
    outputs = tuple(o.name for o in proto.graph.output)
    selected = selections.intersection(outputs)
    return Imported(
        model.name,
        model.sha256,
        module,
        inputs,
        outputs,
        weights,
        nodes,
        places,
        selections=frozenset(selected),
        loops=loops,
    )


def _loops(
    proto: onnx.ModelProto, model: OnnxModel, large: Weights, conversion: _Conversion
) -> Iterator[tuple[str, ImportedLoop]]:
    """The loops that nodes of `proto` are, by name; where one is refused, `conversion` is at its node."""
    for node in filter(is_scan_loop, proto.graph.node):
        conversion.current = node
        loop, body = scan_loop_of(node)
        whole = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, graph=body)
        imported = import_onnx(OnnxModel(whole, model.opset, model.sha256, model.name, large))
        yield (
            loop.name,
            ImportedLoop(imported, loop.steps, loop.state_outputs, loop.scanned_backwards, loop.emitted, loop.label),
        )
    conversion.current = None


def _convert(
    proto: onnx.ModelProto,
    model: OnnxModel,
    shapes: dict[str, list[int]],
    large: Weights,
    conversion: _Conversion,
) -> tuple[tvm.IRModule, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The module with marked variables; name and operator of each node; and where it is, in words."""
    try:
        with (
            own_converters(),
            _arrays_for_stand_ins(large),
            _watched(conversion),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            module = onnx_frontend.from_onnx(proto, shape_dict=shapes, opset=model.opset, keep_params_in_input=False)
    except ExpressionMisfitError as error:
        raise UnsupportedOperator(f"{conversion.where} {error}") from error
    except UnsupportedOperator as error:  # of a converter of our own, which says what to do
        raise UnsupportedOperator(f"{conversion.where} cannot be imported: {error.message}") from error
    # TVM's importer passes on all exceptions of its converters: each of them means "cannot be imported".
    except Exception as error:
        raise UnsupportedOperator(
            f"{conversion.where} cannot be imported ({reason_of(error)}); "
            "replace the operator, or simplify the model before export"
        ) from error
    known_by = _folded(proto.graph)
    names = tuple((known_by.get(name, name), operator) for name, operator in conversion.names)
    return mark_nodes(module, conversion.results), names, tuple(conversion.places)


def _folded(graph: onnx.GraphProto) -> dict[str, str]:
    """Maps each BatchNormalization that will be folded to the linear operator before it, by names."""
    producers = {output: node for node in graph.node for output in node.output}
    before = ((node, producers.get(node.input[0])) for node in graph.node if node.op_type == "BatchNormalization")
    return {node.name: p.name for node, p in before if p is not None and p.op_type in _LINEAR and p.name}


def _check_static(module: tvm.IRModule, model: OnnxModel, places: Sequence[str]) -> None:
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    for binding in bindings:
        if not all(map(_is_static, _tensors(binding.var.ty))):
            name = str(getattr(getattr(binding.value, "op", None), "name", "an operator")).removeprefix("relax.")
            raise UnsupportedOperator(
                f"{place_of(binding.var, places) or f'{name} in model {model.name}'} has a result whose shape depends "
                "on data, which cannot be built; make it constant in the model"
            )


def _tensors(ty: tvm.ir.Type) -> list[relax.TensorType]:
    """The types of the tensors in a type, which may be a tuple."""
    if isinstance(ty, relax.TupleType):
        return [tensor for field in ty.fields for tensor in _tensors(field)]
    return [ty] if isinstance(ty, relax.TensorType) else []


def _is_static(tensor: relax.TensorType) -> bool:
    return tensor.shape is not None and all(isinstance(extent, tirx.IntImm) for extent in tensor.shape)


@contextlib.contextmanager
def own_converters() -> Iterator[None]:
    """Gives `OWN_CONVERTERS` precedence over TVM's within the block."""
    original = onnx_frontend._get_convert_map
    onnx_frontend._get_convert_map = lambda: original() | OWN_CONVERTERS
    try:
        yield
    finally:
        onnx_frontend._get_convert_map = original


@contextlib.contextmanager
def _arrays_for_stand_ins(large: Weights) -> Iterator[None]:
    """Makes TVM's importer use the arrays of `large` instead of their stand-ins."""
    original = onnx_frontend.get_numpy
    onnx_frontend.get_numpy = lambda tensor: large[tensor.name] if is_stand_in(tensor, large) else original(tensor)
    try:
        yield
    finally:
        onnx_frontend.get_numpy = original


@dataclass
class _Conversion:
    """What TVM's importer has converted: name, operator and place of each node, and its number by its expressions."""

    model: str
    names: list[tuple[str, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    results: dict[relax.Expr, int] = field(default_factory=dict)
    current: onnx.NodeProto | None = None

    @property
    def where(self) -> str:
        """The node that is converted now, in words."""
        return f"model {self.model}" if self.current is None else described(self.current, self.model)

    def add(self, name: str, operator: str, result: Any) -> None:
        """A node is converted."""
        parts = result.fields if isinstance(result, relax.Tuple) else [result]
        for part in (result, *parts):
            if isinstance(part, relax.Call | relax.Var):
                self.results.setdefault(part, len(self.names))
        self.names.append((name, operator))
        self.places.append(self.where)


@contextlib.contextmanager
def _watched(conversion: _Conversion) -> Iterator[None]:
    """Records in `conversion` each node that TVM's importer converts.

    Nodes of the border are skipped, so that the model's nodes have the same numbers with and without them.
    """
    importer = onnx_frontend.ONNXGraphImporter
    convert_operator, parse_value = importer._convert_operator, importer._parse_value_proto

    def convert(self: Any, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        result = convert_operator(self, op_name, inputs, attrs, opset)
        name = str(attrs["tvm_custom"]["name"])
        if not name and conversion.current is not None:  # a rule wrote the node in place of one of the model
            name = name_of_written(conversion.current)
        if not name.startswith(BORDER):
            conversion.add(name, op_name, result)
        return result

    def parse(self: Any, value: Any) -> Any:
        # The importer reads the name of a node before it converts it, and those of the outputs at the end.
        conversion.current = value if isinstance(value, onnx.NodeProto) else None
        return parse_value(self, value)

    importer._convert_operator, importer._parse_value_proto = convert, parse
    try:
        yield
    finally:
        importer._convert_operator, importer._parse_value_proto = convert_operator, parse_value


def _has_converter(node: onnx.NodeProto) -> bool:
    if is_registered(node.op_type):
        return True
    if not is_onnx(node) and not is_fixed_point(node) and not is_scan_loop(node):
        return False
    if node.op_type in OWN_CONVERTERS:
        return True
    outputs = sum(bool(o) for o in node.output)
    return node.op_type in onnx_frontend._get_convert_map() and outputs <= FEWER_OUTPUTS.get(node.op_type, outputs)


def _without_converter(proto: onnx.ModelProto, model: OnnxModel) -> list[RefusedNode]:
    return [
        RefusedNode.without_converter(node, model.name)
        for node in proto.graph.node
        if not _has_converter(node) and not (node.op_type == "If" and is_onnx(node))
    ]


def _is_text(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == onnx.TensorProto.STRING)


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    tensor = value.type.tensor_type
    if _is_text(value):
        raise ModelError(f"input {value.name!r} holds strings; only numbers and bool can be built")
    if element_bits(tensor.elem_type) is None:
        raise ModelError(
            f"input {value.name!r} has element type {tensor.elem_type}, which ONNX does not define; export it again"
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return TensorSpec(value.name, tuple(d.dim_value for d in tensor.shape.dim), dtype)


def _put_inputs_first(graph: onnx.GraphProto, order: list[str]) -> None:
    """Sorts graph inputs as `order`; names not in it (initializers listed as inputs) are dropped."""
    by_name = {i.name: i for i in graph.input}
    for name in order:
        if name not in by_name:
            initializer = next(i for i in graph.initializer if i.name == name)
            by_name[name] = onnx.helper.make_tensor_value_info(name, initializer.data_type, initializer.dims)
    kept = [by_name[name] for name in order]
    del graph.input[:]
    graph.input.extend(kept)
    for initializer in [i for i in graph.initializer if i.name in set(order)]:
        graph.initializer.remove(initializer)
