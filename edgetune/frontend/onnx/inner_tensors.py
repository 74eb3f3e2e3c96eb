"""Inner tensors: where the imported model first departs from the reference, node by node.

A copy of the model in which every tensor between nodes is an output is imported, and evaluated by both. Differences add
up from node to node, so a tensor that differs shows nothing yet: the reference also computes its node alone, from the
very inputs that the imported model has there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import get_args

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import EdgetuneError, ModelError
from edgetune.frontend.model_format import Feed, ImportDeparture
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.nested_graphs import reads_from_outside
from edgetune.frontend.onnx.origins import described
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import Evaluator, choose_evaluator, evaluate_model
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program

Judge = Callable[[np.ndarray], Tolerance]


def first_departure(model: OnnxModel, feed: Feed, allowed: Judge) -> ImportDeparture | None:
    """The first node whose result in the imported model is off by more than `allowed` says of the reference's.

    None where there is none, also where a tensor between nodes cannot be an output: the model is whole without them.
    """
    opened = _opened(model)
    try:
        program = to_program(import_onnx(opened))
        imported = evaluate_program(program, [{spec.name: feed[spec.name] for spec in program.inputs}])[0]
    except EdgetuneError:
        return None
    reference = next(iter(_by_all(opened, feed).values()), None)
    if reference is None:
        return None
    known = {**feed, **imported}
    for node in model.proto.graph.node:
        for name in node.output:
            if name not in imported or compare_as(imported[name], reference[name], allowed):
                continue
            alone = _alone(model, node, known)
            if not alone or any(compare_as(imported[name], one[name], allowed) for one in alone.values()):
                continue
            evaluator, right = next((key, one[name]) for key, one in alone.items())
            found = compare(imported[name], right.reshape(imported[name].shape), allowed(right))
            share = found.bound * found.relative / found.absolute if found.absolute else 0.0
            return ImportDeparture(described(node, model.name), name, found.relative, share, evaluator)
    return None


def _by_all(model: OnnxModel, feed: Feed) -> dict[str, dict[str, np.ndarray]]:
    """The outputs by each evaluator that runs the model, first the one that it is compared with."""
    first = choose_evaluator(model)
    found = {}
    for evaluator in (first, *(one for one in get_args(Evaluator) if one != first)):
        with contextlib.suppress(ModelError):
            found[evaluator] = evaluate_model(model, [feed], evaluator)[0]
    return found


def compare_as(found: np.ndarray, wanted: np.ndarray, allowed: Judge) -> bool:
    """Whether `found` is what `allowed` lets it be."""
    same = found.size == wanted.size and found.dtype == wanted.dtype
    return same and compare(found, wanted.reshape(found.shape), allowed(wanted)).allowed


def _opened(model: OnnxModel) -> OnnxModel:
    """`model` with every tensor that nodes of the main graph compute as an output, where its shape is known."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    outputs = {value.name for value in proto.graph.output}
    types = {value.name: value for value in proto.graph.value_info if _is_static(value)}
    for node in proto.graph.node:
        for name in node.output:
            if name in types and name not in outputs:
                proto.graph.output.append(types[name])
    return model.with_proto(proto)


def _is_static(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    whole = tensor.HasField("shape") and all(
        d.WhichOneof("value") == "dim_value" and d.dim_value for d in tensor.shape.dim
    )
    return whole and tensor.elem_type != onnx.TensorProto.STRING


def _alone(model: OnnxModel, node: onnx.NodeProto, known: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """What each evaluator that can computes of `node` from the values `known`, where these are enough."""
    graph = model.proto.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    types = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    read = list(dict.fromkeys(reads_from_outside(node)))
    constants = [initializers[name] for name in read if name in initializers]
    given = [name for name in read if name not in initializers]
    if not all(name in known for name in given):
        return {}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(known[name].dtype), known[name].shape)
        for name in given
    ]
    outputs = [types[name] for name in node.output if name in types]
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.graph.CopyFrom(helper.make_graph([node], graph.name, inputs, outputs, constants))
    weights = {name: array for name, array in model.weights.items() if name in read}
    return _by_all(replace(model.with_proto(proto), weights=weights), {name: known[name] for name in given})
