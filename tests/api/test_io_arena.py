"""Models whose inputs and outputs lie in the arena: built, self-tested and run, here and under real QEMU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgetune
from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.package.golden import Golden
from edgetune.package.manifest import read_manifest
from edgetune.target.preferences import Io
from edgetune.verify.layers import run_layers
from tests.backends.test_c_bare_metal import model as convolution
from tests.distribution_sample import edgetune as command

_SHAPE = (4, 33)
_WEIGHTS = np.random.default_rng(0).standard_normal((33, 33)).astype(np.float32)


class Sample(NamedTuple):
    """Nodes between the inputs and the outputs, by name, all of one shape."""

    nodes: tuple[tuple[str, tuple[str, ...], str], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


SAMPLES = {
    "the output is the input": Sample((("Identity", ("x",), "y"),), ("x",), ("y",)),
    "an input is an output and is read as well": Sample(
        (("Identity", ("x",), "y"), ("Softmax", ("x",), "z")), ("x",), ("y", "z")
    ),
    "inputs are the outputs in another order": Sample(
        (("Identity", ("b",), "y"), ("Identity", ("a",), "z")), ("a", "b"), ("y", "z")
    ),
    "an output is read by later layers": Sample(
        (("Exp", ("x",), "y"), ("MatMul", ("y", "w"), "t"), ("Relu", ("t",), "z")), ("x",), ("y", "z")
    ),
    "one tensor is two outputs": Sample((("Exp", ("x",), "y"), ("Identity", ("y",), "z")), ("x",), ("y", "z")),
    "an output is constant": Sample((("Exp", ("x",), "y"), ("Identity", ("w",), "z")), ("x",), ("y", "z")),
    "an input is read last": Sample(
        (("Exp", ("a",), "s"), ("MatMul", ("s", "w"), "t"), ("Add", ("t", "b"), "y")), ("a", "b"), ("y",)
    ),
    "an input is not read": Sample((("Exp", ("a",), "y"),), ("a", "b"), ("y",)),
}


def saved(sample: Sample, path: Path) -> Path:
    nodes = [helper.make_node(operator, list(reads), [made]) for operator, reads, made in sample.nodes]
    ends = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, _WEIGHTS.shape if made_of_weights else _SHAPE)
        for name in (*sample.inputs, *sample.outputs)
        for made_of_weights in [("Identity", ("w",), name) in sample.nodes]
    }
    inputs, outputs = ([ends[name] for name in side] for side in (sample.inputs, sample.outputs))
    graph = helper.make_graph(nodes, "sample", inputs, outputs, [numpy_helper.from_array(_WEIGHTS, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def built(model: Path, out: Path, io: Io = "arena", **flags: Any) -> Path:
    given = CommandLineFlags(model=model, board="host", out=out, db=out.with_suffix(".db"), io=io, **flags)
    api.build(resolve_settings(given, {}, out.parent), events=lambda _: None)
    return out


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES)
def test_packages_compute_what_the_reference_does(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    path = saved(sample, tmp_path / "model.onnx")
    package = built(path, tmp_path / "package")
    assert api.verify(package, None, model=path).passed
    random = np.random.default_rng(5)
    with edgetune.Package.open(package) as opened:
        for _ in range(2):
            feed = {one: random.standard_normal(_SHAPE).astype(np.float32) for one in sample.inputs}
            (wanted,) = evaluate_model(read_onnx(path, {}), [feed], "onnxruntime")
            found = opened.run(**feed)
            for output in sample.outputs:
                np.testing.assert_allclose(found[output], wanted[output], rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.long
def test_what_layers_write_is_read_in_the_workspace(tmp_path: Path) -> None:
    """So the layer that departs is found in such a package, too; the first tensor is an output."""
    path = saved(SAMPLES["an output is read by later layers"], tmp_path / "model.onnx")
    package = tmp_path / "package"
    edgetune.load(path).build(board="host", io="arena", out=package, db=tmp_path / "none.db")
    assert read_manifest(package)["memory"]["io"] == "arena"
    x = np.random.default_rng(1).standard_normal(_SHAPE).astype(np.float32)
    written = [np.frombuffer(outputs[0], np.float32) for outputs in run_layers(package, Golden({"x": x}, {})).written]
    np.testing.assert_allclose(written[0], np.exp(x).ravel(), rtol=1e-5)
    np.testing.assert_allclose(written[-1], np.maximum(np.exp(x) @ _WEIGHTS, 0).ravel(), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_a_limit_of_ram_counts_inputs_and_outputs(tmp_path: Path) -> None:
    path = saved(SAMPLES["one tensor is two outputs"], tmp_path / "model.onnx")
    needed = {io: read_manifest(built(path, tmp_path / io, io))["memory"] for io in ("caller", "arena")}
    assert needed["caller"]["workspace_bytes"] < needed["arena"]["workspace_bytes"]
    assert needed["arena"]["workspace_bytes"] < needed["caller"]["io_bytes"], "one output lies over the input"
    limit = needed["arena"]["workspace_bytes"]
    built(path, tmp_path / "fits", ram=limit)
    with pytest.raises(edgetune.errors.MemoryLimitExceeded, match="1 too few; the largest tensors are"):
        built(path, tmp_path / "larger", ram=limit - 1)


@pytest.mark.long
def test_a_microcontroller_under_qemu(tmp_path: Path) -> None:
    """The self-test, new inputs and the benchmark of a package for a Cortex-M4, of floats and of two outputs."""
    convolution(tmp_path / "small.onnx")
    words = ["build", "small.onnx", "--board", "mps2-an386"]
    sizes = {}
    for io in ("caller", "arena"):
        done = command([*words, "--io", io, "-o", io], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "self-test" in done.stderr
        memory = read_manifest(tmp_path / io)["memory"]
        sizes[io] = memory["workspace_bytes"] + (memory["io_bytes"] if io == "caller" else 0)
    assert sizes["arena"] < sizes["caller"]
    done = command(["verify", "arena", "--model", "small.onnx", "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fresh_cases"] > 0
    done = command(["bench", "arena", "--json"], cwd=tmp_path)
    assert json.loads(done.stdout)["median_us"] > 0
    done = command(["compare", "caller", "arena"], cwd=tmp_path)
    assert "those of A in memory of the caller, those of B in the workspace" in done.stdout
