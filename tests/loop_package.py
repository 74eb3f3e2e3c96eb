"""Packages of models with loops, under the schedules that kernels without records get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.loops import without_loops
from edgetune.graph.partition import to_program
from edgetune.graph.ways import Ways
from edgetune.package.flavours.make import MAKE
from edgetune.package.golden import Golden, GoldenCases
from edgetune.package.inputs import Device, PackageOptions
from edgetune.pipeline.backends import backend_of
from edgetune.pipeline.link import assemble
from edgetune.pipeline.select import choose, default_choice
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import Target
from tests.package_sample import generic_x86


def emit(
    folder: Path,
    model: OnnxModel,
    *,
    target: BoardKind | None = None,
    threads: int = 1,
    measured_us: float | None = None,
    **options: Any,
) -> Path:
    """Write the package of a model; `options` are those of `PackageOptions`.

    With `measured_us`, each kernel counts as measured to take so many microseconds.
    """
    device = Device(target or generic_x86(), threads)
    backend = backend_of(device.target)
    program = to_program(import_onnx(model), ways=Ways(joins_attention=backend.joins_attention))
    program = program if backend.loops else without_loops(program)
    feeds = sample_inputs(model, program.inputs, 2, seed=3)
    cases = [Golden(*each) for each in zip(feeds, evaluate_model(model, feeds), strict=True)]
    if isinstance(device.target, Target):
        choices = choose(program, device.target, None, lambda _: None, threads=threads)
    else:
        texts = backend.default_schedules(program, device.target)
        choices = [default_choice(*each) for each in zip(program.kernels, *zip(*texts, strict=True), strict=True)]
    if measured_us is not None:
        told: dict[str, Any] = {"origin": "record", "board": "bench-1", "record": "17", "median_us": measured_us}
        choices = [replace(choice, provenance=replace(choice.provenance, **told)) for choice in choices]
    written = PackageOptions((MAKE,), **{"measure": False, **options})
    assemble(program, choices, GoldenCases(cases, "onnxruntime"), device, written, folder, lambda _: None)
    return folder
