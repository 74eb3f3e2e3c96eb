"""LiteRT with XNNPACK: one thread, the model in its own layout (channels last), or a file of its own format."""

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
        from ai_edge_litert.interpreter import Interpreter

        path = case.model
        self._own = path.suffix == ".tflite"
        if not self._own:
            from benchmarks.sides.litert_model import to_flatbuffer

            require_float32(case, "LiteRT")
            path = case.work / "model.tflite"
            path.write_bytes(to_flatbuffer(onnx.load(case.model)))
        self._interpreter: Any = Interpreter(model_path=str(path), num_threads=1)
        self._interpreter.allocate_tensors()
        self._inputs = {d["name"]: d["index"] for d in self._interpreter.get_input_details()}
        self._outputs = {d["name"]: d["index"] for d in self._interpreter.get_output_details()}
        rest = "" if self._own else ", channels-last input, BatchNorm folded"
        return Loaded(version, f"num_threads=1, XNNPACK (default delegate){rest}")

    def prepare(self, feed: Arrays) -> Call:
        """Set the inputs."""
        for name, value in feed.items():
            self._interpreter.set_tensor(self._inputs[name], value if self._own else _channels_last(value))
        # The C++ interpreter under the Python one.
        call: Call = self._interpreter._interpreter.Invoke  # noqa: SLF001
        return call

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        found = {name: self._interpreter.get_tensor(i) for name, i in self._outputs.items()}
        return found if self._own else {name: _channels_first(value) for name, value in found.items()}


def _channels_last(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(0, 2, 3, 1) if value.ndim == 4 else value)


def _channels_first(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(0, 3, 1, 2) if value.ndim == 4 else value)
