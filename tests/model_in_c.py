"""Runs models of a few ONNX nodes as C: each kernel alone, in the default schedule, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from edgetune.graph.program import Call, Kernel, Program
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target
from tests.codegen_run import run_kernel

_SCRATCH = 1 << 20


def program_of(proto: onnx.ModelProto) -> Program:
    """The kernels of a model and their calls."""
    return to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))


def values_of(program: Program, feeds: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Constants and inputs by the number of their buffer."""
    inputs = zip(program.input_buffers(), program.inputs, strict=True)
    return {**program.constants, **{buffer.id: feeds[spec.name] for buffer, spec in inputs}}


def arguments(call: Call, kernel: Kernel, values: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """The arrays of a call; its outputs are zeros."""
    return [
        np.zeros(param.shape, param.dtype) if param.role == "output" else values[buffer].reshape(param.shape)
        for buffer, param in zip(call.arguments, kernel.params, strict=True)
    ]


def source_of(kernel: Kernel, target: Target, symbol: str = "kernel") -> KernelSource:
    """The C of a kernel."""
    text, _ = default_schedule(kernel.function, target, _SCRATCH, FORMS)
    return emit_kernel(apply_schedule(kernel.function, text).module, target, symbol)


def outputs_in_c(
    program: Program, feeds: Mapping[str, np.ndarray], target: Target, folder: Path
) -> dict[str, np.ndarray]:
    """The outputs of the C of the kernels, by name."""
    values = values_of(program, feeds)
    for number, call in enumerate(program.calls):
        kernel = program.kernels[call.kernel]
        source = source_of(kernel, target, f"kernel_{number}")
        found = run_kernel(source, target, arguments(call, kernel, values), folder)
        values |= dict(zip(call.arguments, found, strict=True))
    outputs = zip(program.output_buffers(), program.outputs, strict=True)
    return {spec.name: values[buffer.id].reshape(spec.shape) for buffer, spec in outputs}
