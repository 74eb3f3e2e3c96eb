"""A block of a transformer computes on each kind of board what ONNX Runtime computes, its tiles in registers."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks.loops import kernel_loops
from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.package.manifest import read_manifest
from tests.transformer_sample import EncoderBlock


@pytest.mark.long
@pytest.mark.parametrize(("board", "threads"), [("generic-aarch64", 1), ("generic-armv7", 2)])
def test_cross_built_blocks_pass_under_the_emulator(tmp_path: Path, board: str, threads: int) -> None:
    model, out = tmp_path / "block.onnx", tmp_path / "out"
    # The hidden axis outgrows the second cache of each board: the sum over it is computed in parts.
    onnx.save(EncoderBlock(positions=64, hidden=2048).model(), model)
    flags = CommandLineFlags(model=model, board=board, out=out, db=tmp_path / "none.db", threads=threads)
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    assert api.verify(out, None).passed
    kernels = {kernel["name"]: kernel for kernel in read_manifest(out)["kernels"]}
    # ARMv7 has 16 vector registers, of which GCC keeps some for the constants of exp throughout attention.
    tiled = ("matmul",) if "armv7" in board else ("matmul", "attention")
    products = [kernel for kernel in kernel_loops(out) if kernel.kernel.startswith(tiled)]
    assert kernels["attention"].get("threads", 1) == threads
    assert [f"{kernel.kernel}: {kernel.fault}" for kernel in products if kernel.fault] == []
    assert max(kernels[kernel.kernel].get("threads", 1) for kernel in products) == threads
    text = (out / "src/block_kernels.c").read_text()
    assert text.count("for (int32_t part = 0;") == 1
    assert [name for name in kernels if name.startswith("transpose")] == ["transpose"]  # keys alone are copied
