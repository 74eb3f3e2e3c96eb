"""Settings of a cell: a night keeps those that it began with, and one missing model is that of its cells alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import ModelError
from edgetune.farm.cell_settings import CellSettings
from edgetune.farm.farm_file import Farm, load_farm

HASH = hashlib.sha256(b"one").hexdigest()


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"one")
    return edited(tmp_path)


def edited(folder: Path, entry: str = "m.onnx", trials: int = 8) -> Farm:
    """The farm file with another entry of its model, or another budget."""
    text = f"models: {{ad: {entry}}}\nboards: [qemu-aarch64]\nbudget: {{trials: {trials}}}\n"
    (folder / "farm.yaml").write_text(text)
    return load_farm(folder / "farm.yaml")


def model_of(began: CellSettings, farm: Farm) -> Path:
    return Path(str(began.to_settings(farm, "ad", "qemu-aarch64", "", farm.folder).model))


def test_they_are_those_of_the_farm_file_and_survive_the_database(farm: Farm, tmp_path: Path) -> None:
    entry = (
        "{file: m.onnx, threads: 2, shapes: {x: [1, 3]}, dims: {t: 7}, layout: channels_last, io: arena, state: {h: g}}"
    )
    began = CellSettings.stated(edited(tmp_path, entry), "ad")
    assert began == CellSettings(
        file=str(tmp_path / "m.onnx"),
        sha256=HASH,
        trials=8,
        threads=2,
        layout="channels_last",
        io="arena",
        shapes={"x": (1, 3)},
        dims={"t": 7},
        state={"h": "g"},
    )
    assert CellSettings.model_validate_json(began.model_dump_json()) == began
    settings = began.to_settings(farm, "ad", "qemu-aarch64", "", tmp_path)
    assert (settings.name, settings.budget_trials, settings.threads, settings.out) == ("ad", 8, 2, tmp_path / "package")
    assert (settings.shapes, settings.dims, settings.states) == ({"x": (1, 3)}, {"t": 7}, {"h": "g"})
    assert (settings.layout, settings.io) == ("channels_last", "arena")
    assert began.to_settings(farm, "ad", "qemu-aarch64", "accepted", tmp_path).name == "accepted"


def test_what_was_edited_is_said(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m2.onnx").write_bytes(b"two")
    now = CellSettings.stated(
        edited(tmp_path, "{file: m2.onnx, threads: 2, dims: {t: 7}, state: {h: g}}", trials=3), "ad"
    )
    assert began.changes(now) == [
        f"the model has other content: {tmp_path / 'm.onnx'} became {tmp_path / 'm2.onnx'}",
        "trials 8 became 3",
        "threads 1 became 2",
        "dims {} became {'t': 7}",
        "state {} became {'h': 'g'}",
    ]
    (tmp_path / "m.onnx").write_bytes(b"two")
    assert began.changes(CellSettings.stated(farm, "ad")) == [f"the model has other content in {tmp_path / 'm.onnx'}"]


def test_a_model_that_is_back_is_no_change_and_one_that_left_is_said(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m.onnx").unlink()
    missing = CellSettings.stated(farm, "ad")
    assert began.changes(missing) == [f"{tmp_path / 'm.onnx'} is not a file that can be read"]
    assert missing.changes(began) == []


def test_a_file_with_external_tensors_is_part_of_the_model(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    farm = edited(tmp_path)
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m.data").write_bytes(np.full((64, 64), 2.0, np.float32).tobytes())
    assert began.changes(CellSettings.stated(farm, "ad")) == [f"the model has other content in {tmp_path / 'm.onnx'}"]


def test_another_name_of_an_equal_model_is_no_change(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m.onnx").rename(tmp_path / "m2.onnx")
    renamed = edited(tmp_path, "m2.onnx")
    assert began.changes(CellSettings.stated(renamed, "ad")) == []
    assert model_of(began, renamed) == tmp_path / "m2.onnx"


def test_a_night_goes_on_with_its_own_model_after_an_edit(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m2.onnx").write_bytes(b"two")
    assert model_of(began, edited(tmp_path, "m2.onnx", trials=3)) == tmp_path / "m.onnx"
    (tmp_path / "m.onnx").unlink()
    with pytest.raises(ModelError, match=r"m2\.onnx on host .* is another model than when the night began"):
        model_of(began, edited(tmp_path, "m2.onnx"))


def test_a_missing_model_is_named_with_its_line(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "m.onnx").unlink()
    missing = CellSettings.stated(farm, "ad")
    assert missing.sha256 == ""
    for settings in (began, missing):
        with pytest.raises(
            ModelError, match=r"farm\.yaml, line 1: 'models\.ad' names .*m\.onnx, which is not a file that"
        ):
            model_of(settings, farm)
    (tmp_path / "m.onnx").write_bytes(b"three")
    assert model_of(missing, farm) == tmp_path / "m.onnx", "a model that was missing when the night began has come"


def test_a_model_that_left_the_farm_file_is_measured_where_it_lay(farm: Farm, tmp_path: Path) -> None:
    began = CellSettings.stated(farm, "ad")
    (tmp_path / "farm.yaml").write_text("models: {kws: k.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 8}\n")
    without = load_farm(tmp_path / "farm.yaml")
    assert model_of(began, without) == tmp_path / "m.onnx"
    (tmp_path / "m.onnx").unlink()
    with pytest.raises(ModelError, match=r"m\.onnx is not a file any more, and .* has no model 'ad'"):
        model_of(began, without)
