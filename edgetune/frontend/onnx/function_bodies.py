"""Function bodies: those by which ONNX defines many operators, and those of the model itself, with their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import helper


def function_body(
    node: onnx.NodeProto,
    schema: onnx.defs.OpSchema | None,
    opsets: Mapping[str, int],
    types: Mapping[str, onnx.TypeProto],
) -> onnx.FunctionProto | None:
    """The body of `node` for the newest opset not above the model's, None where ONNX defines none for its types."""
    if schema is None:
        return None
    model_opset = opsets.get("", 1)
    body = None
    if schema.has_context_dependent_function:
        version = _version(schema.context_dependent_function_opset_versions, model_opset)
        inputs = [types[i].SerializeToString() if i in types else b"" for i in node.input]
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        data = schema.get_context_dependent_function_with_opset_version(version, plain.SerializeToString(), inputs)
        body = onnx.FunctionProto.FromString(data) if data else None
    if body is None and schema.has_function:
        data = schema.get_function_with_opset_version(_version(schema.function_opset_versions, model_opset))
        body = onnx.FunctionProto.FromString(data) if data else None
    return body if body is not None and body.node else None


def _version(versions: list[int], wanted: int) -> int:
    return max((v for v in versions if v <= wanted), default=min(versions))


def with_attributes(
    body: onnx.FunctionProto, node: onnx.NodeProto, schema: onnx.defs.OpSchema
) -> Iterator[onnx.NodeProto]:
    """Nodes of `body` with attributes of `node`, or their defaults, instead of references to function attributes."""
    given = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.type}
    given |= {a.name: a for a in body.attribute_proto}
    given |= {a.name: a for a in node.attribute}
    for inner in body.node:
        yield _resolved(inner, given)


def _resolved(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    result = onnx.NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in given:
                value = onnx.AttributeProto()
                value.CopyFrom(given[attribute.ref_attr_name])
                value.name = attribute.name
                result.attribute.append(value)
        elif attribute.type == onnx.AttributeProto.GRAPH:
            graph = onnx.GraphProto()
            graph.CopyFrom(attribute.g)
            del graph.node[:]
            graph.node.extend(_resolved(n, given) for n in attribute.g.node)
            result.attribute.append(helper.make_attribute(attribute.name, graph))
        else:
            result.attribute.append(attribute)
    return result


def with_defaults(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` with default attributes added to calls of its functions, because ONNX's inliner omits them."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in proto.functions if f.attribute_proto}
    if not defaults:
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for nodes in (result.graph.node, *(function.node for function in result.functions)):
        _give_defaults(nodes, defaults)
    return result


def _give_defaults(
    nodes: Iterable[onnx.NodeProto], defaults: Mapping[tuple[str, str], Iterable[onnx.AttributeProto]]
) -> None:
    for node in nodes:
        given = {attribute.name for attribute in node.attribute}
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _give_defaults(graph.node, defaults)
        node.attribute.extend(a for a in defaults.get((node.domain, node.op_type), ()) if a.name not in given)
