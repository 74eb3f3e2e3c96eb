"""What the library calls refuse before they start: nothing is dropped in silence."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import MemoryLimitExceeded

AD_AE = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"


def test_a_model_over_its_memory_limit_is_refused_by_the_tensors_that_need_most(tmp_path: Path) -> None:
    (tmp_path / "edgetune.yaml").write_text(f"model: {AD_AE}\nboards: [host]\nmemory:\n  ram: 512B\n")
    flags = CommandLineFlags(out=tmp_path / "out", db=tmp_path / "records.db")
    with pytest.raises(MemoryLimitExceeded, match=r"arena of 1024 bytes.*layer 0 \(/m/m\.0/Gemm\) 1x128 of 512 bytes"):
        api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_model_that_fits_where_a_sum_takes_its_operands_memory_is_built(tmp_path: Path) -> None:
    weights = [numpy_helper.from_array(np.eye(64, dtype=np.float32) * n, f"w{n}") for n in range(4)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("MatMul", ["x", "w1"], ["b"]),
        helper.make_node("MatMul", ["a", "w2"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("MatMul", ["d", "w3"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "sum", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    flags = CommandLineFlags(model=tmp_path / "m.onnx", board="host", out=tmp_path / "out", db=tmp_path / "records.db")
    two = {"EDGETUNE_RAM": f"{2 * 4 * 16 * 64}B"}  # without it three tensors are alive at once
    built = api.build(resolve_settings(flags, two, tmp_path), events=lambda _: None)
    assert built.package.size.arena_bytes == 2 * 4 * 16 * 64
    assert api.verify(tmp_path / "out", None).passed
    texts = [path.read_text() for path in (tmp_path / "out/src").glob("*.c")]
    plans = [text for text in texts if "__AT_" in text]
    assert [len(re.findall(r", written over \w*AT_", text)) for text in plans] == [1]
    assert sum(text.count("(may be the memory of input_2)") for text in texts) == 1
    less = {"EDGETUNE_RAM": f"{2 * 4 * 16 * 64 - 1}B"}
    with pytest.raises(MemoryLimitExceeded, match="an arena of 8192 bytes"):
        api.build(resolve_settings(flags, less, tmp_path), events=lambda _: None)


def test_the_memory_limit_counts_what_threads_need(tmp_path: Path) -> None:
    flags = CommandLineFlags(model=AD_AE, board="host", out=tmp_path / "out", db=tmp_path / "records.db", threads=2)
    with pytest.raises(
        MemoryLimitExceeded, match=r"needs \d+ bytes for its arena and 2 threads, and the limit is 1024"
    ):
        api.build(resolve_settings(flags, {"EDGETUNE_RAM": "1024B"}, tmp_path), events=lambda _: None)


@pytest.mark.parametrize("keys", [256, 4096])
def test_a_model_whose_scratch_alone_is_over_its_memory_limit_gets_kernels_with_less(keys: int, tmp_path: Path) -> None:
    """The scores of one query, the least that attention needs, are on the stack, or too large for the limit."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"]),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    shapes = {"q": [2, 64, 16], "k": [2, 16, keys], "v": [2, keys, 16], "y": [2, 64, 16]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "attention", ends[:3], ends[3:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    flags = CommandLineFlags(model=tmp_path / "m.onnx", board="host", out=tmp_path / "out", db=tmp_path / "records.db")
    told = (
        r"the limit is 512 bytes, \d+ too few; all of it is scratch memory of its kernels: "
        r"raise memory\.ram or use a smaller model"
    )
    settings = resolve_settings(flags, {"EDGETUNE_RAM": "512B"}, tmp_path)
    if keys > 256:
        with pytest.raises(MemoryLimitExceeded, match=told):
            api.build(settings, events=lambda _: None)
        return
    assert api.build(settings, events=lambda _: None).package.size.arena_bytes <= 512
