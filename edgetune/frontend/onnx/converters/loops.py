"""Loops: `edgetune::ScanLoop` as a call that the partition takes apart."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.scan_loop import LoopSignature


class ScanLoop(tvm_onnx.OnnxOpConverter):
    """A call of the loop by its name."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        loop = LoopSignature.of_json(attr["loop"])
        types = [relax.TensorType(shape, dtype) for shape, dtype in loop.results]
        result = bb.emit(relax.op.call_dps_packed(loop.name, relax.Tuple(list(inputs)), types))
        if len(types) == 1:
            return result
        return relax.Tuple([bb.emit(relax.TupleGetItem(result, number)) for number in range(len(types))])
