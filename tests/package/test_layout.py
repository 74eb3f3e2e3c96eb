"""Packages whose images are channels last: compiled, run, compared, and described to their reader."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.package.manifest import read_manifest
from tests.graph.test_program import random

WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Werror"


def _save(path: Path, *, quantised: bool = False) -> None:
    """Write an image to a mask of its size, with (N, C, H, W) of 1x3x12x10 and 1x4x12x10."""
    generator = np.random.default_rng(11)
    constants = {"w": random(generator, 4, 3, 3, 3), "b": random(generator, 4)}
    data = "image"
    nodes = []
    if quantised:
        constants |= {"scale": np.array(0.05, np.float32), "zero": np.array(3, np.int8)}
        nodes = [
            helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        ]
        data = "d"
    nodes += [
        helper.make_node("Conv", [data, "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["mask"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, 12, 10])],
        [helper.make_tensor_value_info("mask", onnx.TensorProto.FLOAT, [1, 4, 12, 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _build(
    folder: Path, board: str = "host", flags: CommandLineFlags | None = None, *, quantised: bool = False
) -> Path:
    model, out = folder / "seg.onnx", folder / "out"
    _save(model, quantised=quantised)
    given = flags or CommandLineFlags(layout="channels_last")
    stated = CommandLineFlags(model, board, db=folder / "none.db", out=out, layout=given.layout, layouts=given.layouts)
    api.build(resolve_settings(stated, {}, folder), events=lambda _: None)
    return out


@pytest.mark.long
@pytest.mark.parametrize(("board", "quantised"), [("host", False), ("host", True), ("generic-aarch64", False)])
def test_it_computes_what_the_reference_computes(tmp_path: Path, board: str, quantised: bool) -> None:
    out = _build(tmp_path, board, quantised=quantised)
    report = api.verify(out, None)
    # The model lies beside the package: fresh inputs were transposed for it, and its outputs compared.
    assert (report.golden_cases, report.fresh_cases) == (3, 2)
    assert [kernel["name"] for kernel in read_manifest(out)["kernels"] if "transpose" in kernel["name"]] == []


def test_its_reader_is_told(tmp_path: Path) -> None:
    out = _build(tmp_path)
    told = "(N, H, W, C; in the model N, C, H, W)"
    assert f"/* image: 1x12x10x3 {told}, IEEE 754" in (out / "include/seg.h").read_text()
    assert f"/* mask: 1x12x10x4 {told}, IEEE 754" in (out / "include/seg.h").read_text()
    assert f"1x12x10x3 {told}: fill with your data" in (out / "examples/main.c").read_text()
    assert f"| image | `inputs.image` | 1x12x10x3 {told} |" in (out / "README.md").read_text()
    assert f"| image | 1x12x10x3 {told} | 1x3x12x10 |" in (out / "REPORT.md").read_text()
    tensors = [*read_manifest(out)["inputs"], *read_manifest(out)["outputs"]]
    assert [(t["shape"], t["layout"]) for t in tensors] == [
        ([1, 12, 10, 3], "channels_last"),
        ([1, 12, 10, 4], "channels_last"),
    ]
    make = ["make", "-s", f"WARNINGS={WARNINGS}", "selftest", "example"]
    done = subprocess.run(make, cwd=out, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_one_tensor_may_stay_as_it_is_and_the_other_not(tmp_path: Path) -> None:
    out = _build(tmp_path, flags=CommandLineFlags(layouts={"mask": "channels_last"}))
    assert [t["shape"] for t in read_manifest(out)["inputs"]] == [[1, 3, 12, 10]]
    assert [t["shape"] for t in read_manifest(out)["outputs"]] == [[1, 12, 10, 4]]
    assert "layout" not in read_manifest(out)["inputs"][0]
    assert api.verify(out, None).passed


@pytest.mark.long
def test_a_header_of_the_other_order_is_told_apart_where_the_shape_is_the_same(tmp_path: Path) -> None:
    constants = {"w": random(np.random.default_rng(1), 3, 3, 1, 1)}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 3, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3, 3, 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = tmp_path / "cube.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    prints = set()
    for layouts in ({}, {"x": "channels_last"}, {"y": "channels_last"}, {"x": "channels_last", "y": "channels_last"}):
        out = tmp_path / "-".join(["out", *layouts])
        flags = CommandLineFlags(model, "host", db=tmp_path / "none.db", out=out, layouts=layouts)  # type: ignore[arg-type]
        api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
        prints.add(read_manifest(out)["abi"])
    assert len(prints) == 4
