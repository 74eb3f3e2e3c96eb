"""``edgetune init`` writes a project that ``tune`` accepts as it is; schemas and names."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from edgetune.config.naming import is_package_name, package_name
from edgetune.config.project_template import init_project
from edgetune.config.schema import schemas
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.config.stack import check_stack
from edgetune.errors import ConfigError, ModelError, OutputRefused, StackMismatch
from edgetune.pipeline.model_formats import read_signature
from edgetune.yaml_reader.quantities import format_bytes, format_seconds, parse_seconds

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"


def model_with(path: Path, name: str, dims: list[int | str | None]) -> Path:
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "g", [value], [out])
    onnx.save(helper.make_model(graph), path)
    return path


def init(model: Path, out: Path | None = None) -> Path:
    return init_project(model, read_signature(model), out)


@pytest.mark.parametrize("model", ["ds_cnn", "vww", "resnet8", "ad_ae"])
def test_init_then_tune_needs_only_the_board(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = init(MODELS / f"{model}.onnx")
    assert written == tmp_path / "edgetune.yaml"
    settings = resolve_settings(CommandLineFlags(board="rpi4"), {}, tmp_path)
    assert (settings.model, settings.name) == (MODELS / f"{model}.onnx", model)
    assert settings.budget_seconds == 1800.0
    before = written.read_text(encoding="utf-8")
    with pytest.raises(OutputRefused, match="exists already"):
        init(MODELS / "vww.onnx")
    assert written.read_text(encoding="utf-8") == before


def test_open_shapes_are_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model_with(tmp_path / "batch.onnx", "x", ["N", 3])
    init(tmp_path / "batch.onnx", tmp_path / "edgetune.yaml")
    assert resolve_settings(CommandLineFlags(), {}, tmp_path).shapes == {"x": (1, 3)}
    assert 'model: "batch.onnx"' in (tmp_path / "edgetune.yaml").read_text(encoding="utf-8")
    (tmp_path / "edgetune.yaml").unlink()
    model_with(tmp_path / "free.onnx", "x", ["N", "length"])
    init(tmp_path / "free.onnx")
    with pytest.raises(ConfigError, match=r"line \d+: 'shapes.x.1' must be a fixed size"):
        resolve_settings(CommandLineFlags(), {}, tmp_path)
    assert '\n#   "length": 128\n' in (tmp_path / "edgetune.yaml").read_text(encoding="utf-8")


@given(st.text(min_size=1, max_size=20).filter(lambda text: text < "\ud800" or text > "\udfff"))
def test_hostile_input_names_stay_inside_their_quotes(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    try:
        model = model_with(folder / "net.onnx", name, ["N", 3])
    except UnicodeEncodeError:
        return
    init(model, folder / "edgetune.yaml")
    settings = resolve_settings(CommandLineFlags(), {}, folder)
    assert settings.shapes == {name: (1, 3)}
    assert read_signature(model) == {name: ("N", 3)}


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"no model", bytes(range(256)) * 4])
def test_what_is_no_model_is_refused_and_nothing_is_written(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=re.escape(str(path))):
        init(path, tmp_path / "edgetune.yaml")
    assert not (tmp_path / "edgetune.yaml").exists()


def test_truncated_missing_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes((MODELS / "ds_cnn.onnx").read_bytes()[:5000])
    for model in (path, tmp_path / "gone.onnx", tmp_path):
        with pytest.raises(ModelError):
            init(model, tmp_path / "edgetune.yaml")


def test_the_name_of_the_package_is_that_which_is_given_or_fits(tmp_path: Path) -> None:
    model = model_with(tmp_path / f"{'very_' * 9}long.onnx", "x", [1, 3])
    init_project(model, {"x": (1, 3)}, tmp_path / "edgetune.yaml")
    assert resolve_settings(CommandLineFlags(), {}, tmp_path).name == ("very_" * 7)[:32].rstrip("_")
    (tmp_path / "edgetune.yaml").unlink()
    init_project(model, {"x": (1, 3)}, tmp_path / "edgetune.yaml", "kws")
    assert resolve_settings(CommandLineFlags(), {}, tmp_path).name == "kws"


@given(st.text(max_size=80))
def test_package_names_are_c_identifiers(stem: str) -> None:
    name = package_name(stem)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert package_name(name) == name
    assert is_package_name(name)


def test_package_names_do_not_shadow_headers() -> None:
    assert package_name("string") == "model_string"
    assert package_name("m") == "model_m"
    assert package_name("MobileNet V2-1.0") == "mobilenet_v2_1_0"
    assert package_name("2net") == "model_2net"
    assert package_name("---") == "model"


def test_schemas_are_current() -> None:
    for name, text in schemas().items():
        written = (ROOT / "schemas" / name).read_text(encoding="utf-8")
        assert written == text, f"schemas/{name} is stale: run `python -m edgetune.config.schema schemas`"


def test_the_stack_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    check_stack()
    installed = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.15.post2"}
    monkeypatch.setattr("edgetune.config.stack.installed_version", installed.get)
    with pytest.raises(StackMismatch, match=r"0\.1\.15\.post2, which crashes .* run pip install"):
        check_stack()
    installed["apache-tvm-ffi"] = "0.1.13"
    with pytest.raises(StackMismatch):
        check_stack()
    del installed["apache-tvm"]
    with pytest.raises(StackMismatch, match="apache-tvm is not installed"):
        check_stack()


def test_quantities_for_people() -> None:
    assert [format_bytes(size) for size in (12, 65536, 3 * 1024**2)] == ["12 B", "64.0 KiB", "3.0 MiB"]
    assert [format_seconds(seconds) for seconds in (5400, 42, 0.25)] == ["1h30m", "42s", "0.2s"]
    assert [parse_seconds(text) for text in ("1h30m", "90s", "5m", "2.5m", "45", 7)] == [5400, 90, 300, 150, 45, 7]
