"""A chain of operators as a test like those of ONNX: what must come out is what another evaluator computes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from tests.conformance.case import Case
from tests.conformance.chain import Chain, Values
from tests.conformance.chains_decomposed import CONTROL, DECOMPOSED, FUNCTIONS
from tests.conformance.chains_quantised import MIXED, QUANTISED

RTOL, ATOL = 1e-3, 1e-5
_DOMAINS = {"ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
_IR_VERSION = 10
CHAINS = (*DECOMPOSED, *FUNCTIONS, *CONTROL, *QUANTISED, *MIXED)
BY_KEY = {chain.key: chain for chain in CHAINS}


def load_chain(key: str) -> Case:
    """The chain whose key is `key`, its data drawn from a seed of its own."""
    chain = BY_KEY[key]
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    inputs = _drawn(chain.data, rng)
    constants = _drawn(chain.constants, rng)
    nodes = [onnx.parser.parse_node(text) for text in chain.nodes]
    read = {i for node in nodes for i in node.input}
    outputs = [o for node in nodes for o in node.output if o and o not in read]
    untyped = _model(chain, nodes, inputs, constants, [helper.make_empty_tensor_value_info(o) for o in outputs])
    declared = {o.name: o.type.tensor_type.elem_type for o in shape_inference.infer_shapes(untyped).graph.output}
    with np.errstate(all="ignore"):
        found = [np.asarray(value) for value in _evaluated(untyped, chain, inputs)]
    expected = [
        value.astype(helper.tensor_dtype_to_np_dtype(declared[name])) if declared[name] else value
        for name, value in zip(outputs, found, strict=True)
    ]
    infos = [_info(name, value) for name, value in zip(outputs, expected, strict=True)]
    return Case(key, _model(chain, nodes, inputs, constants, infos), {}, inputs, expected, RTOL, ATOL)


def _evaluated(model: onnx.ModelProto, chain: Chain, inputs: dict[str, np.ndarray]) -> Sequence[Any]:
    """The reference evaluator lacks some forms of operators, and gives some results in another type than ONNX says."""
    if chain.by == "onnx.reference":
        results: Sequence[Any] = ReferenceEvaluator(model).run(None, inputs)
        return results
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answered: Sequence[Any] = session.run(None, inputs)
    return answered


def _model(
    chain: Chain,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: list[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, chain.key, [_info(*one) for one in inputs.items()], outputs, weights)
    domains = {"": chain.opset} | {n.domain: _DOMAINS[n.domain] for n in nodes if n.domain}
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*one) for one in domains.items()], ir_version=_IR_VERSION
    )


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _drawn(values: Values, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: _random(value, rng) if isinstance(value, str) else value for name, value in values.items()}


def _random(wanted: str, rng: np.random.Generator) -> np.ndarray:
    """Values of `type[extents]`: the whole range of an 8-bit type, else a normal distribution."""
    name, extents = re.fullmatch(r"(\w+)\[([\d,]+)\]", wanted).groups()  # type: ignore[union-attr]
    shape = [int(extent) for extent in extents.split(",")]
    dtype = np.dtype(name)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)
