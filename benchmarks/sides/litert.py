"""LiteRT with XNNPACK: one thread, the model in its own layout (channels last)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from benchmarks.side import Arrays, Call, Case, Loaded, require_float32, version_of


class LiteRt:
    """An interpreter; inputs are given channels last, which costs it nothing in the timed part."""

    def load(self, case: Case) -> Loaded:
        """Write the model as a flatbuffer and load it; raises CannotLoad for operators that the writer lacks."""
        version = version_of("ai-edge-litert")
        require_float32(case, "LiteRT")
        from ai_edge_litert.interpreter import Interpreter

        from benchmarks.sides.litert_model import to_flatbuffer

        path = case.work / "model.tflite"
        path.write_bytes(to_flatbuffer(onnx.load(case.model)))
        self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
        self._interpreter.allocate_tensors()
        self._inputs = {d["name"]: d["index"] for d in self._interpreter.get_input_details()}
        self._outputs = {d["name"]: d["index"] for d in self._interpreter.get_output_details()}
        return Loaded(version, "num_threads=1, XNNPACK (default delegate), channels-last input, BatchNorm folded")

    def prepare(self, feed: Arrays) -> Call:
        """Set the inputs."""
        for name, value in feed.items():
            self._interpreter.set_tensor(self._inputs[name], _channels_last(value))
        # The C++ interpreter under the Python one.
        call: Call = self._interpreter._interpreter.Invoke  # noqa: SLF001
        return call

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        return {name: _channels_first(self._interpreter.get_tensor(i)) for name, i in self._outputs.items()}


def _channels_last(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(0, 2, 3, 1) if value.ndim == 4 else value)


def _channels_first(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(0, 3, 1, 2) if value.ndim == 4 else value)
