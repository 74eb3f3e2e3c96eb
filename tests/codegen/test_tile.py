"""The register tile: accumulators in named vector variables, none of them in memory, right on every ISA."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from edgetune.codegen import emit_kernel, split_packing
from edgetune.target.target import Target, load_target
from tests import codegen_samples as samples
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target


def _arrays(packings: dict[int, object]) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 6, 10, 8)).astype(np.float32)
    w = rng.standard_normal((32, 3, 3, 8)).astype(np.float32)
    b = rng.standard_normal(32).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (0, 1))
    expected = np.maximum(np.einsum("hvckl,oklc->hvo", windows, w) + b, 0)[None]
    packed = [packings[i].apply(a) if i in packings else a for i, a in enumerate((x, w, b))]  # type: ignore[attr-defined]
    return [*packed, np.zeros((1, 4, 8, 32), np.float32)], expected


def _tile(target: Target) -> tuple[list[np.ndarray], np.ndarray, object]:
    module, packings = split_packing(
        samples.register_tile(samples.convolution(), lanes=min(16, target.vector_bits // 32))
    )
    arrays, expected = _arrays(dict(packings))
    return arrays, expected, emit_kernel(module, target, "tile")


def _innermost_loops(assembly: str) -> list[list[str]]:
    """Bodies of loops without another loop inside: from a label to a jump back to it, with no label between."""
    lines = [line.partition("#")[0].strip() for line in assembly.splitlines()]
    loops = []
    labels = {line[:-1]: number for number, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    for number, line in enumerate(lines):
        jump = re.match(r"(?:j\w+|b\.?\w+|cbn?z \w+,)\s+.*?(\.L\w+)$", line)
        if jump and labels.get(jump[1], number) < number:
            body = lines[labels[jump[1]] + 1 : number]
            if not any(inner.endswith(":") for inner in body):
                loops.append(body)
    return loops


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_the_innermost_loop_keeps_its_accumulators_in_registers(cc: str, tmp_path: Path) -> None:
    target = load_target("host")
    _, _, source = _tile(target)
    for row, column in product(range(4), range(2)):
        assert f" acc_{row}_{column} += x[" in source.definition  # type: ignore[attr-defined]
    assembly = compile_strictly(source, target, tmp_path, cc)  # type: ignore[arg-type]
    hot = [loop for loop in _innermost_loops(assembly) if sum("fmadd" in line for line in loop) >= 8]
    assert hot, assembly
    for loop in hot:
        assert not [line for line in loop if re.search(r"\(%r[sb]p", line)], loop
        assert not [line for line in loop if re.match(r"v?mov[au]ps\s+%[xyz]mm\d+, .*\(", line)], loop


@pytest.mark.parametrize("name", ["host", "generic-aarch64", "generic-armv7"])
def test_the_tile_computes_the_convolution(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    arrays, expected, source = _tile(target)
    results = run_kernel(source, target, arrays, tmp_path)  # type: ignore[arg-type]
    np.testing.assert_allclose(results[-1], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_the_tile_is_clean_under_sanitizers(cc: str, tmp_path: Path) -> None:
    target = wide_target(128)
    arrays, expected, source = _tile(target)
    results = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)  # type: ignore[arg-type]
    np.testing.assert_allclose(results[-1], expected, 1e-4, 1e-4)


def test_armv7_uses_its_vector_unit(tmp_path: Path) -> None:
    target = load_target("generic-armv7")
    _, _, source = _tile(target)
    assembly = compile_strictly(source, target, tmp_path, target.compiler.cc)  # type: ignore[arg-type]
    assert len(re.findall(r"vfma\.f32\s+q", assembly)) >= 8, assembly
    assert not re.findall(r"vfma\.f32\s+s", assembly)


def test_vectors_wider_than_the_target_are_split(tmp_path: Path) -> None:
    target = load_target("generic-aarch64")
    module, packings = split_packing(samples.register_tile(samples.convolution(), 2, 2, 16))
    source = emit_kernel(module, target, "tile")
    assert "f32x16" not in source.definition
    assert "acc_1_7" in source.definition
    arrays, expected = _arrays(dict(packings))
    np.testing.assert_allclose(run_kernel(source, target, arrays, tmp_path)[-1], expected, 1e-4, 1e-4)
