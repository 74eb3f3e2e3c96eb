"""MNN: the model by way of its own converter, one thread, an interpreter session."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.side import Arrays, Call, CannotLoad, Case, Loaded, require_file, require_float32, version_of


class MnnSession:
    """A session that is given its input anew for every run: MNN lets it be overwritten by later layers."""

    def load(self, case: Case) -> Loaded:
        """Convert and load the model; raises CannotLoad when the converter writes nothing."""
        version = version_of("MNN")
        require_file(case, "MNN", ".onnx")
        require_float32(case, "MNN")
        import MNN

        # The module behind `mnnconvert`: the script around it runs pip by itself and reports each conversion.
        convert = importlib.import_module("_tools").mnnconvert
        model = case.work / "model.mnn"
        model.unlink(missing_ok=True)
        flags = ["--modelFile", str(case.model), "--MNNModel", str(model), "--bizCode", "benchmark"]
        convert(["mnnconvert", "-f", "ONNX", *flags])
        if not model.exists():
            raise CannotLoad("MNN's converter wrote no model")
        self._mnn: Any = MNN
        self._interpreter = MNN.Interpreter(str(model))
        self._session = self._interpreter.createSession({"numThread": 1, "backend": "CPU", "precision": "high"})
        self._outputs = case.outputs
        return Loaded(version, "numThread=1, backend=CPU, precision=high, interpreter session, input copied each run")

    def prepare(self, feed: Arrays) -> Call:
        """Make the input tensors in host memory."""
        self._arrays = {name: np.array(value, order="C") for name, value in feed.items()}
        pairs = []
        for name, value in self._arrays.items():
            tensor = self._interpreter.getSessionInput(self._session, name)
            pairs.append((tensor.copyFrom, self._host(value)))
        run, session = self._interpreter.runSession, self._session

        def infer() -> None:
            for copy, host in pairs:
                copy(host)
            run(session)

        return infer

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        found = {}
        for name in self._outputs:
            tensor = self._interpreter.getSessionOutput(self._session, name)
            host = self._host(np.zeros(tensor.getShape(), np.float32))
            tensor.copyToHostTensor(host)
            found[name] = np.array(host.getNumpyData())
        return found

    def _host(self, value: np.ndarray) -> Any:
        kind, layout = self._mnn.Halide_Type_Float, self._mnn.Tensor_DimensionType_Caffe
        return self._mnn.Tensor(value.shape, kind, value, layout)
