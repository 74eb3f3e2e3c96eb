"""The mistakes of docs/mistakes.md, and the files that its commands name."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests import package_sample

DOC = Path(__file__).parents[1] / "docs" / "mistakes.md"
HERE = "~/project"
"""Stands for the folder in which a command runs, or above it for one that begins with `cd`."""


class Mistake(NamedTuple):
    """What is typed, the exit code, and the sentence that answers."""

    command: str
    code: int
    sentence: str


def prepare(folder: Path) -> None:
    """Fill `folder` with what the commands find there."""
    _model(folder / "good.onnx", 1, 4)
    _model(folder / "open.onnx", "batch", 3, None, None)
    _model(folder / "words.onnx", "batch", "words")
    _stream(folder / "stream.onnx")
    _window(folder / "window.onnx")
    (folder / "empty.onnx").touch()
    (folder / "cut.onnx").write_bytes((folder / "good.onnx").read_bytes()[:40])
    with zipfile.ZipFile(folder / "model.pt2", "w") as archive:
        archive.writestr("model/archive_format", "pt2")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("model/data.pkl", "")
    (folder / "model.pth").write_bytes(stream.getvalue())
    (folder / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    (folder / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    (folder / "notes.txt").write_text("mine\n", encoding="utf-8")
    for name, text in {
        "typo": "model: ../good.onnx\nbord: host\n",
        "octal": "model: ../good.onnx\nboards: [host]\nseed: 010\n",
        "tab": "model: ../good.onnx\nbudget:\n\ttime: 3m\n",
        "range": "model: ../good.onnx\nboards: [host]\nthreads: 0\n",
    }.items():
        (folder / name).mkdir()
        (folder / name / "edgetune.yaml").write_text(text, encoding="utf-8")
    np.save(folder / "x.npy", np.zeros((4, 8), np.float32))
    (folder / "text.npy").write_text("mine\n", encoding="utf-8")
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:150])
    package_sample.emit(folder / "package", reference="numpy", model_file="tiny.onnx")
    package_sample.emit(folder / "changed", reference="numpy", model_file="tiny.onnx")
    (folder / "changed" / "src" / "tiny_kernels.c").write_text("/* mine */\n", encoding="utf-8")
    package_sample.emit(folder / "damaged", reference="numpy", model_file="tiny.onnx")
    manifest = json.loads((folder / "damaged" / "MANIFEST.json").read_text(encoding="utf-8"))
    (folder / "damaged" / "MANIFEST.json").write_text(json.dumps(manifest | {"kernels": 3}), encoding="utf-8")


def _model(path: Path, *dims: int | str | None) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", "y")]
    scale = helper.make_tensor("two", TensorProto.FLOAT, [], np.ones(1, np.float32))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "g", ends[:1], ends[1:], [scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _stream(path: Path) -> None:
    shapes = {"x": (1, 4), "h0": (2,), "y": (1, 4), "hn": (2,)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Tanh", ["h0"], ["hn"])]
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _window(path: Path) -> None:
    """Eight frames of four features: a strided convolution, and a mean of frames that it pads."""
    shapes = {"x": (1, 4, 8), "y": (1, 4, 4), "m": (1, 4)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    weights = numpy_helper.from_array(np.ones((4, 4, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[2, 0], strides=[2]),
        helper.make_node("ReduceMean", ["y"], ["m"], name="mean", axes=[2], keepdims=0),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def mistakes() -> list[Mistake]:
    """Return the rows of docs/mistakes.md."""
    rows = re.findall(r"^\| `(.+?)` \| (\d+) \| (.+) \|$", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    texts = [sentence.replace("\\|", "|").replace("<br>", "\n") for *_, sentence in rows]
    return [Mistake(command, int(code), text) for (command, code, _), text in zip(rows, texts, strict=True)]
