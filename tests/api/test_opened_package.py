"""`edgetune.Package`: packages that run in Python, arrays that do not fit, crashes, and tables."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgetune
from edgetune.errors import NothingRunsIt, PackageInvalid, SelfTestFailed, UsageError
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.reader import read_content
from edgetune.package.manifest import MANIFEST, file_table
from edgetune.verify.layers import LayerError, LayerErrors
from edgetune.verify.verify import OutputReport, VerifyReport
from tests import package_sample
from tests.frontend.tflite.test_whole_models import written

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("opened") / "tiny"
    package_sample.emit(out, ends=("in:0", "out<b>"))
    return out


@pytest.fixture(scope="module")
def package(folder: Path) -> Iterator[edgetune.Package]:
    with edgetune.Package.open(str(folder)) as opened:
        yield opened


@pytest.mark.long
def test_a_package_computes_what_numpy_computes(package: edgetune.Package) -> None:
    model, half = package_sample.program(), np.float32(0.5)
    for x in (X, X[::-1]):  # the second is not contiguous
        outputs = package.run(**{"in:0": x})
        right = (x * model.constants[1] + half) * model.constants[3] + half + x
        assert list(outputs) == ["out<b>"]
        np.testing.assert_allclose(outputs["out<b>"], right, rtol=1e-6)
    (field,) = (tensor["field"] for tensor in json.loads((package.folder / MANIFEST).read_text())["inputs"])
    np.testing.assert_array_equal(package.run(**{field: X[::-1]})["out<b>"], outputs["out<b>"])


@pytest.mark.long
def test_a_closed_package_runs_again(package: edgetune.Package) -> None:
    before = package.run(**{"in:0": X})
    package.close()
    np.testing.assert_array_equal(package.run(**{"in:0": X})["out<b>"], before["out<b>"])


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({}, "input 'in:0' is missing: the inputs of this package are 'in:0' (float32 of shape (4, 8))"),
        ({"in:0": X.astype("f8")}, "input 'in:0' is float64, not float32"),
        ({"in:0": X.T}, "input 'in:0' has shape (8, 4), not (4, 8)"),
        ({"in:0": X, "z": X}, "there is no input 'z'"),
        ({"in:0": X, "in_0": X}, "input 'in:0' is given twice"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(folder: Path, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        edgetune.Package.open(folder).run(**arrays)


@pytest.mark.long
def test_a_crash_is_an_error_that_says_how_the_process_ended(tmp_path: Path) -> None:
    out = tmp_path / "tiny"
    package_sample.emit(out)
    manifest = json.loads((out / MANIFEST).read_text())
    loop, found = "for (int i = 0; i < 32; i++) {", 0
    for source in out.rglob("*.c"):
        text = source.read_text()
        found += loop in text
        source.write_text(text.replace(loop, f"{loop} __builtin_trap();"))
    assert found
    (out / MANIFEST).write_text(json.dumps(manifest | {"files": file_table(out)}))
    package = edgetune.Package.open(out)
    for _ in range(2):  # a later run is answered by a new process, in the same way
        with pytest.raises(SelfTestFailed, match=r"crashed while it ran \(killed by SIG(ILL|TRAP)"):
            package.run(x=X)


@pytest.mark.long
def test_a_process_that_was_killed_is_replaced(package: edgetune.Package) -> None:
    before = package.run(**{"in:0": X})
    process = package._process
    assert process is not None
    assert process._child is not None
    os.kill(process._child.pid, signal.SIGKILL)
    with pytest.raises(SelfTestFailed, match="killed by SIGKILL"):
        package.run(**{"in:0": X})
    np.testing.assert_array_equal(package.run(**{"in:0": X})["out<b>"], before["out<b>"])


@pytest.mark.long
def test_a_benchmark_is_a_table_of_its_layers(package: edgetune.Package) -> None:
    report = package.bench()
    assert len(report.layers) == len(json.loads((package.folder / MANIFEST).read_text())["layers"])
    assert report._repr_html_().count("<tr>") == 1 + len(report.layers)


def test_a_package_of_another_machine_does_not_run(tmp_path: Path) -> None:
    package_sample.emit(tmp_path / "arm", target=package_sample.arm("generic-aarch64"))
    with pytest.raises(NothingRunsIt, match="the package is for board 'generic-aarch64' "):
        edgetune.Package.open(tmp_path / "arm").run(x=X)


def test_what_is_no_package_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(PackageInvalid, match="it is not a package of edgetune"):
        edgetune.Package.open(tmp_path)


def test_tables_escape_the_names_of_tensors(package: edgetune.Package) -> None:
    assert "out&lt;b&gt;" in package._repr_html_()
    output = OutputReport("y<b>", "golden", 0.0, 0.0, 0.0, 0.0, 1.0, "")
    report = VerifyReport("tiny", "tiny", "host", "gcc", None, "here", "numpy", 3, 0, (output,))
    assert "3 golden and 0 fresh cases" in report._repr_html_()
    assert "y&lt;b&gt;" in report._repr_html_()
    layers = LayerErrors([LayerError(0, "a<b>", "k", 1e-9, 1e-9, 1e-7, departs=False)])
    assert layers._repr_html_().count("<tr>") == 2
    assert "a&lt;b&gt;" in layers._repr_html_()


@pytest.mark.long
def test_a_loaded_file_becomes_a_package_that_runs(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "relu.onnx")
    model = edgetune.load(tmp_path / "relu.onnx")
    model.build(out=tmp_path / "relu", db=tmp_path / "records.db")
    with edgetune.Package.open(tmp_path / "relu") as package:
        np.testing.assert_array_equal(package.run(x=X)["y"], np.maximum(X, 0))
        assert package.verify().passed
        (layer,) = package.layers()
        assert not layer.departs


@pytest.mark.long
def test_a_loaded_tflite_file_becomes_a_package_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    feeds = written("int8 per axis", path).feeds
    (right,) = litert.evaluate(read_content(path), [feeds])
    edgetune.load(path).build(out=tmp_path / "package", db=tmp_path / "records.db")
    with edgetune.Package.open(tmp_path / "package") as package:
        found = package.run(**feeds)
    for name, made in found.items():
        assert made.dtype == right[name].dtype
        assert np.abs(made.astype(int) - right[name].astype(int)).max() <= 1
