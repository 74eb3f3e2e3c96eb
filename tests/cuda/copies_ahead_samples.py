"""Kernels whose copies into shared memory run ahead of the sums: with two and three stages, of float and 16 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.block_tile import BlockTile
from edgetune.schedule.gpu.design import Design, Sizes, propose
from edgetune.schedule.gpu.spaces import gpu_designs, scheduled
from edgetune.schedule.gpu.tensor_tile import TensorTile
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import load_board_kind
from tests.cuda.cpu_check import Checked, checked
from tests.cuda.tensor_core_samples import layer

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
STAGES = (2, 3)
NAMES = ("10x4 of one channel", "1x1 of 64 channels", "3x3 on tensor cores", "product on tensor cores")
_HALVES = {"3x3 on tensor cores": "3x3 of 14x14 images", "product on tensor cores": "product"}


@cache
def h200() -> GpuTarget:
    """The target h200, which copies asynchronously."""
    found = load_board_kind("h200")
    assert isinstance(found, GpuTarget)
    return found


@cache
def kernel_called(name: str) -> Kernel:
    """A kernel of NAMES: two convolutions of ds_cnn, the first with padding, and two layers for tensor cores."""
    if name in _HALVES:
        return layer(_HALVES[name])
    return read_model(MODEL).program().kernels[2 * NAMES.index(name)]


def designs_of(name: str) -> list[BlockTile | TensorTile]:
    """The designs of a kernel whose copies can run ahead."""
    kernel = kernel_called(name)
    kind = TensorTile if name in _HALVES else BlockTile
    found = [design for design in gpu_designs(kernel.function, h200()) if isinstance(design, kind)]
    return [design for design in found if any(choice.name == "stages" for choice in design.choices)]


def drawn(design: Design, stages: int, seed: int = 0) -> Sizes:
    """Random decisions of a design with so many stages, and with more steps than that."""
    random = np.random.default_rng(seed)
    for _ in range(500):
        sizes = propose(design, random)
        assert sizes is not None
        steps = int(np.prod([size[0] for name, size in sizes.items() if name.startswith("sum")]))
        changed: Mapping[str, tuple[int, ...]] = {**sizes, "stages": (stages,)}
        if steps > stages and design.fault(changed) is None:
            return changed
    raise AssertionError(f"{design.name} has no decisions with {stages} stages")


@cache
def samples() -> Mapping[tuple[str, str, int], Checked]:
    """By name of a kernel, name of a design and stages: the first design of each kernel has all numbers of stages."""
    return dict(_samples())


def _samples() -> Iterator[tuple[tuple[str, str, int], Checked]]:
    for name in NAMES:
        kernel = kernel_called(name)
        for number, design in enumerate(designs_of(name)):
            for stages in STAGES if number == 0 else STAGES[number % 2 :][:1]:
                sch = scheduled(kernel.function, design, drawn(design, stages))
                assert sch is not None
                yield (name, design.name, stages), checked(kernel, trace=trace_text(sch.trace), target=h200())
