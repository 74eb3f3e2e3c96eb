"""External tensors through the verbs: right or refused, never other data of the working folder; a retrained model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from edgetune import api
from edgetune.cli.main import run
from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import PackageInvalid
from edgetune.events import Event
from edgetune.frontend.onnx.reader import read_stored
from edgetune.package.manifest import read_manifest
from tests import external_sample as sample
from tests import package_sample

SIZE = 8


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of any model."""
    folder = tmp_path_factory.mktemp("external") / "package"
    package_sample.emit(folder, reference="numpy", model_file="models/tiny.onnx")
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: it holds other data under the name of the model's."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    sample.decoy(folder, SIZE)
    monkeypatch.chdir(folder)
    return folder


def settings(model: Path, out: Path) -> Settings:
    flags = CommandLineFlags(model=model, board="host", out=out, db=out.parent / "records.db", trials=1)
    return resolve_settings(flags, {}, out.parent)


def quiet(_: Event) -> None:
    pass


def model_with_tensors_everywhere(folder: Path) -> Path:
    return sample.write(folder / "model", sample.everywhere(SIZE), sample.values(SIZE))


@pytest.mark.long
def test_build_tune_and_verify_take_the_tensors_of_the_model(tmp_path: Path) -> None:
    path, out = model_with_tensors_everywhere(tmp_path), tmp_path / "out"
    api.build(settings(path, out), events=quiet)
    built = api.verify(out, None, path)
    assert api.tune(settings(path, out), events=quiet).search.records == 1
    for report in (built, api.verify(out, None, path)):
        assert report.passed
        assert (report.golden_cases, report.fresh_cases, report.reference) == (3, 2, "onnxruntime")
    weights = next((out / "src").glob("*_weights.c")).read_text(encoding="ascii")
    assert "1000" not in weights
    assert read_manifest(out)["model"]["sha256"] == read_stored(path).sha256


@pytest.mark.parametrize("verb", ["build", "tune", "verify"])
@pytest.mark.parametrize("place", sample.PLACES)
def test_every_verb_refuses_a_model_whose_data_is_elsewhere(
    place: str, verb: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sample.PLACES[place](sample.external(SIZE))
    path = sample.write(tmp_path / "model", model, sample.values(SIZE))
    (tmp_path / "model" / sample.DATA_FILE).unlink()
    more = [str(package), "--model", str(path)] if verb == "verify" else [str(path), "--board", "host"]
    assert run([verb, *more]) == 4
    assert "'w.bin', which is not in the model's folder" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("place", sample.REFUSED)
def test_build_refuses_what_it_cannot_build_in_one_sentence(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sample.REFUSED[place](sample.external(SIZE))
    path = sample.write(tmp_path / "model", model, sample.values(SIZE))
    assert run(["build", str(path), "--board", "host"]) in {4, 5}
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("entries", [{"offset": 10**19}, {"offset": "text"}, {"length": 10**15}, {"location": ""}])
def test_a_wrong_entry_has_the_exit_code_of_a_wrong_model(
    entries: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sample.RIGHT["initializer"](sample.external(SIZE, **entries))
    path = sample.write(tmp_path / "model", model, sample.values(SIZE))
    assert run(["build", str(path), "--board", "host"]) == 4
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "Traceback" not in said[0]


@pytest.mark.long
def test_verify_notices_a_retrained_model(tmp_path: Path) -> None:
    path, out = model_with_tensors_everywhere(tmp_path), tmp_path / "out"
    api.build(settings(path, out), events=quiet)
    before = read_manifest(out)["model"]["sha256"]
    trained = sample.values(SIZE)
    trained[3] += 0.5
    sample.write(path.parent, sample.everywhere(SIZE), trained)
    with pytest.raises(PackageInvalid, match="their hashes differ"):
        api.verify(out, None, path)
    api.build(settings(path, out), events=quiet)
    assert read_manifest(out)["model"]["sha256"] != before
    assert before not in "".join(file.read_text(encoding="utf-8") for file in out.rglob("*") if file.is_file())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["same", "retrained", "no data"])
def test_verify_finds_a_model_by_its_name_and_all_of_its_data(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = model_with_tensors_everywhere(tmp_path), tmp_path / "out"
    api.build(settings(path, out), events=quiet)
    if kind == "retrained":
        sample.decoy(path.parent, SIZE)
    elif kind == "no data":
        (path.parent / sample.DATA_FILE).unlink()
    monkeypatch.chdir(path.parent)
    said: list[Event] = []
    report = api.verify(out, None, events=said.append)
    assert report.passed
    assert report.fresh_cases == (2 if kind == "same" else 0)
    warned = [str(event.data.get("message")) for event in said if event.kind == "warning"]
    assert any("from which the package was made" in message for message in warned) == (kind != "same")


@pytest.mark.long
def test_a_model_over_2_gb_is_built_and_verified(tmp_path: Path) -> None:
    """Its tensors share the bytes of one file, so that it needs little memory: serialised it would have 2.25 GiB.

    A few of them are read: ONNX Runtime copies what a node reads.
    """
    rows, columns, tables, used = 2048, 4096, 72, 3
    file = tmp_path / "model" / sample.DATA_FILE
    file.parent.mkdir()
    row = np.linspace(-1, 1, columns, dtype="float32")
    with file.open("wb") as stream:
        stream.seek((rows - 1) * columns * row.itemsize)
        stream.write(row.tobytes())
    initializers = [numpy_helper.from_array(np.array(rows - 1, "int64"), "last")]
    for number in range(tables):
        table = sample.external(columns)
        table.name, table.dims[:] = f"table{number}", [rows, columns]
        initializers.append(table)
    nodes = [helper.make_node("Gather", [f"table{number}", "last"], [f"row{number}"]) for number in range(used)]
    nodes.append(helper.make_node("Sum", ["x", *(f"row{number}" for number in range(used))], ["y"]))
    path = file.parent / "model.onnx"
    path.write_bytes(sample.model_of(sample.graph_of(nodes, columns, initializers)).SerializeToString())
    out = tmp_path / "out"
    api.build(settings(path, out), events=quiet)
    report = api.verify(out, None, path)
    assert (report.passed, report.fresh_cases) == (True, 2)
