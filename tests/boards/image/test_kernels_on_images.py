"""Kernels for microcontrollers on the emulated boards of their cores: exact at the ends of the range."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import load_target
from tests.boards.image.image_bench import ImageBench
from tests.dsp_core import KINDS, extreme, printed

ROUNDED = Tolerance(absolute=1.0, share=0.01)  # behind exact sums in float32, which may round another way


@pytest.mark.parametrize(("board", "form"), [("mps2-an386", ""), ("mps3-an547", "dot_int8_16")])
def test_kernels_are_exact_on_their_boards(board: str, form: str, tmp_path: Path) -> None:
    bench = ImageBench.of(load_target(board), tmp_path, tmp_path)
    try:
        for kind, (sample, name) in KINDS.items():
            arrays = extreme(sample)
            chosen = form if form and sample.groups == 1 else name
            source, given = printed(sample, bench.target, chosen, arrays)
            roles = ("input", *["constant"] * (len(given) - 2), "output")
            result = bench.run_kernel(source, [*given[:-1], sample.expected(*arrays[:-1])], roles, ROUNDED)
            assert (kind, result.status, result.reason) == (kind, "ok", "")
    finally:
        bench.board.close()
