"""The surest format reads a model, two that are equally sure are refused, and only its own folder knows a format."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import edgetune
from edgetune.errors import ConfigError, ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import ModelFormat
from edgetune.frontend.tensor_expression.format import TensorExpression
from edgetune.pipeline.model_formats import MODEL_FORMATS, format_of, read_model
from edgetune.registry import Registry
from tests.distribution_sample import install

CODE = Path(__file__).parents[2] / "edgetune"


def test_the_formats_are_those_of_files_modules_and_tensor_expressions() -> None:
    assert MODEL_FORMATS.names() == ("onnx", "pytorch", "tensor-expression", "tflite")
    expression = TensorExpression(lambda x: x, {}, {}, "nothing")
    assert format_of(expression) is MODEL_FORMATS.get("tensor-expression")
    for path in (Path("model.onnx"), Path("gone"), Path("/")):
        assert format_of(path) is MODEL_FORMATS.get("onnx")


def test_an_object_that_no_format_knows_is_refused() -> None:
    sentence = r"no model format knows an object of class int \(installed: onnx, pytorch, tensor-expression, tflite\)"
    with pytest.raises(ConfigError, match=sentence):
        format_of(5)
    with pytest.raises(ConfigError, match=sentence):
        edgetune.load(5)


def test_without_any_format_edgetune_is_to_be_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Registry[ModelFormat] = Registry("model format", "edgetune.test_no_formats")
    monkeypatch.setattr("edgetune.pipeline.model_formats.MODEL_FORMATS", nothing)
    with pytest.raises(ConfigError, match=r"no model format is installed, .*: install edgetune again"):
        format_of(Path("model.onnx"))


@pytest.mark.long
def test_a_file_that_two_formats_claim_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both say that it may be theirs, as ONNX says of every file."""
    code = (
        "from edgetune.frontend.model_format import ModelFormat, Recognition\n"
        "class Greedy(ModelFormat):\n"
        "    def recognises(self, source): return Recognition.POSSIBLE\n"
        "    def signature(self, source): return {}\n"
        "    def read(self, source): return None\n"
        "FORMAT = Greedy()\n"
    )
    site = install(tmp_path, "edgetune.model_formats", "greedy", "greedy_format:FORMAT", code)
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match=r"m\.onnx may be a model of the formats greedy and onnx: uninstall"):
        format_of(Path("m.onnx"))
    sys.modules.pop("greedy_format")


def test_an_expression_takes_no_shapes_and_no_layouts() -> None:
    from tvm import te

    twice = TensorExpression(lambda x: te.compute(x.shape, lambda i: x[i] * 2.0), {"x": ([4], "float32")}, {}, "twice")
    with pytest.raises(ModelError, match="a shape is given for 'x', but an expression has its shapes already"):
        read_model(twice, {"x": (4,)})
    with pytest.raises(ModelError, match="--dim names 'n', but models of this format name no axes: give --shape"):
        read_model(twice, sizes={"n": 4})
    with pytest.raises(ModelError, match="a layout is given for 'x', but models of this format keep their axes"):
        read_model(twice).channels_last("model", {"x": "channels_last"})


@pytest.mark.parametrize(("flags", "shape", "told"), [([], [1, 3], 1), (["--dim", "batch=2"], [2, 3], 0)])
def test_an_axis_that_becomes_1_is_told_once(
    flags: list[str], shape: list[int], told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetune.cli.build import command
    from edgetune.cli.options import settings_of
    from edgetune.pipeline.compile_input import load

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    given = command.make_context("build", ["m.onnx", "--board", "host", *flags]).params
    settings, model = settings_of(**{name: given[name] for name in given.keys() - {"as_json", "verbose", "quiet"}})
    events: list[Event] = []
    for read in (model, None):
        events.clear()
        assert load(settings, events.append, read).program.inputs[0].shape == tuple(shape)
        said = [str(event.data["message"]) for event in events if event.kind == "warning"]
        assert sum("axis 0 (batch) of input 'x' becomes 1" in sentence for sentence in said) == told


def test_to_ask_for_a_format_loads_nothing_large() -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom edgetune.pipeline.model_formats import format_of\n"
        "format_of(Path('model.onnx'))\n"
        "print(sorted({'tvm', 'tvm_ffi', 'onnx', 'numpy', 'edgetune.api'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.long
def test_only_the_folder_of_onnx_and_a_format_that_becomes_onnx_know_its_code() -> None:
    """A TensorFlow Lite file becomes an ONNX model in memory, of which everything but the reference is asked."""
    members = {CODE / "frontend" / "onnx", CODE / "frontend" / "tflite"}
    found = [
        f"{path.relative_to(CODE)}: {module}"
        for path in CODE.rglob("*.py")
        if members.isdisjoint(path.parents)
        for module in imports(path)
        if re.match(r"edgetune\.frontend\.onnx\b", module)
    ]
    assert found == []


def test_no_other_folder_knows_the_code_of_a_door() -> None:
    doors = ("pytorch", "tflite")
    found = [
        f"{path.relative_to(CODE)}: {module}"
        for path in CODE.rglob("*.py")
        for module in imports(path)
        if (known := re.match(rf"edgetune\.frontend\.({'|'.join(doors)})\b", module))
        if CODE / "frontend" / known[1] not in path.parents
    ]
    assert found == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["onnx", "pytorch", "tensor-expression", "tflite"])
def test_no_name_of_a_format_is_compared_with(name: str) -> None:
    found = [
        f"{path.relative_to(CODE)}:{node.lineno}"
        for path in CODE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if name in {part.value for part in ast.walk(side) if isinstance(part, ast.Constant)}
    ]
    assert found == []


def imports(path: Path) -> list[str]:
    """The modules, and the names in them, that a file imports wherever the import stands."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found
