"""What a node makes of known operands: of padding, or of scores of attention that are excluded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.fixed_point import NAMES
from edgetune.frontend.onnx.reference_evaluator import LACKS, reference_evaluator

_QUANTISED_SINCE = 19
"""The first opset of which ONNX's reference evaluator has these operators; they compute the same as older ones."""


def results_of(
    node: onnx.NodeProto, feeds: Mapping[str, np.ndarray], proto: onnx.ModelProto
) -> list[np.ndarray | None]:
    """The results of a node of `proto`, None for an output without a name.

    Raises UnsupportedOperator where ONNX's reference evaluator does not have the operator, or not for these types.
    """
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in feeds.items()]  # fmt: skip
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", values, results)
    own = [function for function in proto.functions if (function.domain, function.name) in NAMES]
    opsets = [onnx.OperatorSetIdProto.FromString(opset.SerializeToString()) for opset in proto.opset_import]
    for opset in opsets:
        if node.op_type in {"DequantizeLinear", "QuantizeLinear"} and is_onnx(opset):
            opset.version = max(opset.version, _QUANTISED_SINCE)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=proto.ir_version, functions=own)
    try:
        with np.errstate(all="ignore"):
            found = iter(reference_evaluator(model).run(None, dict(feeds)))
    except LACKS as error:
        raise UnsupportedOperator(
            f"reads padding, or scores that a mask excludes, and what it makes of these cannot be computed ({error}); "
            "put the padding right before the layer that needs it, and the mask right before the softmax"
        ) from error
    return [np.asarray(next(found)) if name else None for name in node.output]
