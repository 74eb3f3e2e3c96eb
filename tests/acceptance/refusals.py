"""What every refusal of the command line has in common: one sentence, its exit code, and nothing half-written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.acceptance.case import edgetune

HEAD = "edgetune: error: "


def refused(code: int, *words: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Runs a command that must fail with `code`; returns its sentence.

    Nothing under `cwd` may change.
    """
    before = tree(cwd)
    done = edgetune(*words, cwd=cwd, environment=environment)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, f"exit status {done.returncode}: {done.stderr[-3000:]}"
    assert [line.startswith(HEAD) for line in lines] == [*(False for _ in lines[1:]), True], done.stderr
    assert all(line.startswith("warning: ") for line in lines[:-1]), done.stderr
    assert done.stdout == ""
    assert tree(cwd) == before
    return lines[-1].removeprefix(HEAD)


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and SHA-256 of everything below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in folder.rglob("*")
    }


def dense(
    path: Path, *, given: str = "x", answer: str = "y", batch: int | str = 1, middle: tuple[str, str] = ("h", "r")
) -> Path:
    """Writes a model of two dense layers, with those names of its tensors; returns `path`."""
    generator = np.random.default_rng(5)
    weights = [generator.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 4))]
    hidden, kept = middle
    nodes = [
        helper.make_node("MatMul", [given, "w 0"], [hidden], name=hidden),
        helper.make_node("Relu", [hidden], [kept], name=hidden),
        helper.make_node("MatMul", [kept, "w-0"], [answer], name=answer),
    ]
    return save(
        path,
        nodes,
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info(answer, TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(w, name) for w, name in zip(weights, ("w 0", "w-0"), strict=True)],
    )


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto],
    domain: str = "",
) -> Path:
    """Writes a model of opset 17, and `domain` beside it; returns `path`."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
