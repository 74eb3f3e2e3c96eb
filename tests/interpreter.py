"""Runs a `Program` kernel by kernel through TVM's LLVM back end: what the graph passes mean, without the C printer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgetune.graph.evaluate import evaluate
from edgetune.graph.program import Program


def run_program(program: Program, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name for inputs by name."""
    values = dict(program.constants)
    for buffer, spec in zip(program.input_buffers(), program.inputs, strict=True):
        values[buffer.id] = feed[spec.name]
    for call in program.calls:
        kernel = program.kernels[call.kernel]
        reads = [
            values[a].reshape(p.shape) for a, p in zip(call.arguments, kernel.params, strict=True) if p.role != "output"
        ]
        writes = [(p.shape, p.dtype) for p in kernel.params if p.role == "output"]
        results = evaluate(kernel.function, reads, writes)
        values.update(zip(call.arguments[len(reads) :], results, strict=True))
    return {
        spec.name: values[buffer.id].reshape(spec.shape)
        for buffer, spec in zip(program.output_buffers(), program.outputs, strict=True)
    }
