"""ONNX Runtime: one thread, all graph optimisations, inputs and outputs bound once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.side import Arrays, Call, Case, Loaded, require_file, version_of


class OnnxRuntime:
    """A session with an IO binding."""

    def load(self, case: Case) -> Loaded:
        """Open the session."""
        version = version_of("onnxruntime")
        require_file(case, "ONNX Runtime", ".onnx")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self._session: Any = onnxruntime.InferenceSession(str(case.model), options, providers=["CPUExecutionProvider"])
        self._outputs = case.outputs
        return Loaded(version, "intra-op and inter-op threads 1, sequential, all optimisations, IO binding")

    def prepare(self, feed: Arrays) -> Call:
        """Bind the inputs; the outputs of the first run are bound as those of all the others."""
        import onnxruntime

        binding = self._session.io_binding()
        for name, value in feed.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
        for name, value in zip(self._outputs, self._session.run(list(self._outputs), dict(feed)), strict=True):
            binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
        self._binding: Any = binding
        # The C++ session under the Python one: what is between them costs 1 us a call.
        return functools.partial(self._session._sess.run_with_iobinding, binding._iobinding, None)  # noqa: SLF001

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        return dict(zip(self._outputs, self._binding.copy_outputs_to_cpu(), strict=True))
