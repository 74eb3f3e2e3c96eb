"""OpenVINO on the CPU: one stream, one thread, latency hint, float32 arithmetic."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.side import Arrays, Call, Case, Loaded, version_of

_SETTINGS = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_NUM_THREADS": 1,
    "NUM_STREAMS": 1,
    # The process is pinned to its core already; left to OpenVINO, it would choose a core by itself.
    "ENABLE_CPU_PINNING": False,
    # On CPUs with AMX or AVX512_BF16 the default is bfloat16.
    "INFERENCE_PRECISION_HINT": "f32",
}


class OpenVinoCpu:
    """A compiled model with one request whose tensors are set once."""

    def load(self, case: Case) -> Loaded:
        """Compile the model."""
        version = version_of("openvino")
        import openvino

        core = openvino.Core()
        model = core.read_model(str(case.model))
        self._names = [spec.name for spec in case.inputs]
        self._outputs = case.outputs
        self._request: Any = core.compile_model(model, "CPU", _SETTINGS).create_infer_request()
        return Loaded(version, ", ".join(f"{name}={value}" for name, value in _SETTINGS.items()))

    def prepare(self, feed: Arrays) -> Call:
        """Set the input tensors, which share memory with the arrays kept here."""
        import openvino
        from openvino._pyopenvino import InferRequest

        self._arrays = {name: np.array(value, order="C") for name, value in feed.items()}
        for name, value in self._arrays.items():
            self._request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
        # The C++ request under the Python one, which would cost 5 us a call.
        return functools.partial(InferRequest.infer, self._request, {}, True, False)

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        return {name: np.array(self._request.get_tensor(name).data) for name in self._outputs}
