"""The sides of the comparison, one module each: every class in `SIDES` is a `benchmarks.side.Side`.

Their modules import the runtimes inside `load`, in a process of that side's own, so none of them sees another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.side import Side
from benchmarks.sides.edgetune_package import EdgetunePackage
from benchmarks.sides.litert import LiteRt
from benchmarks.sides.meta_schedule_expression import MetaScheduleExpression
from benchmarks.sides.mnn_session import MnnSession
from benchmarks.sides.ncnn_net import NcnnNet
from benchmarks.sides.onnx_runtime import OnnxRuntime
from benchmarks.sides.openvino_cpu import OpenVinoCpu
from benchmarks.sides.pytorch_expression import PyTorchExpression

OURS = "edgetune"
_RUNTIMES: Mapping[str, Callable[[], Side]] = {
    OURS: EdgetunePackage,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVinoCpu,
    "ncnn": NcnnNet,
    "mnn": MnnSession,
    "litert": LiteRt,
}
PEERS = tuple(name for name in _RUNTIMES if name != OURS)
SIDES: Mapping[str, Callable[[], Side]] = {
    **_RUNTIMES,
    "pytorch": PyTorchExpression,
    "meta_schedule": MetaScheduleExpression,
}
TITLES: Mapping[str, str] = {
    OURS: "edgetune",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "ncnn": "ncnn",
    "mnn": "MNN",
    "litert": "LiteRT",
    "pytorch": "PyTorch",
    "meta_schedule": "TVM meta_schedule",
}
