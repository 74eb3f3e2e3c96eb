"""Fixed-point convolutions on the emulated boards of their cores: exact, by the instructions that each core is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import load_target
from tests.boards.image.image_bench import ImageBench
from tests.dsp_core import printed
from tests.fixed_point_samples import FixedPoint
from tests.schedule.helium_samples import BYTES, PRODUCTS, WINDOWS

EXACT = Tolerance(absolute=0.0)
KINDS = {
    "windows": ("mps3-an547", {kind: (sample, "lanes_8_int8") for kind, sample in WINDOWS.items()}),
    "products": ("mps3-an547", PRODUCTS),
    "bytes": ("cortex-m0plus", BYTES),
}


@pytest.mark.parametrize("group", KINDS)
def test_kernels_are_exact_on_their_boards(group: str, tmp_path: Path) -> None:
    board, kinds = KINDS[group]
    _all_exact(board, kinds, tmp_path)


def _all_exact(board: str, kinds: Mapping[str, tuple[FixedPoint, str]], folder: Path) -> None:
    bench = ImageBench.of(load_target(board), folder, folder)
    try:
        for kind, (sample, name) in kinds.items():
            arrays = sample.arrays()
            source, given = printed(sample, bench.target, name, arrays)
            others = ["constant"] * (len(given) - 2)
            if sample.residual:
                others[-1] = "input"
            whole = [*given[:-1], sample.expected(*arrays[:-1])]
            result = bench.run_kernel(source, whole, ("input", *others, "output"), EXACT)
            assert (kind, result.status, result.reason) == (kind, "ok", "")
    finally:
        bench.board.close()
