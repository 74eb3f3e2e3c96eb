"""Paths that Python code gives: text, `Path`, or any other object that names a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import te

import edgetune
from edgetune import api
from edgetune.config.database_location import DatabaseUrl
from edgetune.config.settings import CommandLineFlags, Settings, resolve_db, resolve_settings
from edgetune.errors import OutputRefused, PackageInvalid, UsageError
from edgetune.pipeline import model_formats
from edgetune.records import RecordStore

AD_AE = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"


class Named:
    """A path of another kind, as `os.DirEntry` is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


KINDS: list[Callable[[Path], Any]] = [str, Named, Path]


def of_module(module: Any) -> list[Any]:
    """The public functions that a module defines."""
    functions = (one for name, one in inspect.getmembers(module, inspect.isfunction) if not name.startswith("_"))
    return [one for one in functions if one.__module__ == module.__name__]


PUBLIC = [
    *(getattr(edgetune, name) for name in edgetune.__all__ if callable(getattr(edgetune, name))),
    *of_module(api),
    *of_module(model_formats),
    *(one for name, one in inspect.getmembers(RecordStore, callable) if not name.startswith("_")),
    resolve_settings,
    resolve_db,
]


@pytest.mark.parametrize("function", PUBLIC, ids=lambda one: one.__qualname__)
def test_a_parameter_that_is_a_path_may_be_text(function: Callable[..., Any]) -> None:
    """Conversion is where a call enters: what is below has a `Path`."""
    stated = {name: str(one.annotation) for name, one in inspect.signature(function).parameters.items()}
    paths = {name: text for name, text in stated.items() if "Path" in text and "Callable" not in text}
    assert all("StrPath" in text for text in paths.values()), paths


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "call",
    [
        lambda package: api.verify(package, None),
        lambda package: api.bench(package, None),
        lambda package: api.explain(package, "main"),
    ],
)
def test_a_package_may_be_named_by_text(
    kind: Callable[[Path], Any], call: Callable[[Any], Any], tmp_path: Path
) -> None:
    with pytest.raises(PackageInvalid, match="nowhere"):
        call(kind(tmp_path / "nowhere"))


def doubled(x: te.Tensor) -> te.Tensor:
    return te.compute((8,), lambda i: x[i] + x[i], name="doubled")


@pytest.mark.parametrize("kind", KINDS)
def test_an_expression_is_tuned_into_a_folder_named_by_text(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("not a package")
    with pytest.raises(OutputRefused):
        edgetune.tune(doubled, {"x": ((8,), "float32")}, db=kind(tmp_path / "records.db"), out=kind(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_settings_have_paths_whatever_they_are_given(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    flags = CommandLineFlags(model=kind(AD_AE), board="host", out=kind(tmp_path / "out"), db=kind(tmp_path / "r.db"))
    settings = resolve_settings(flags, {}, kind(tmp_path))
    paths = (AD_AE, tmp_path / "out", tmp_path / "r.db")
    assert (settings.model, settings.out, settings.db) == paths
    again: Settings = replace(settings, model=kind(AD_AE), out=kind(tmp_path / "out"), db=kind(tmp_path / "r.db"))
    assert (again.model, again.out, again.db) == paths
    assert resolve_db(None, {}, kind(tmp_path)) == tmp_path / ".edgetune/records.db"


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_found_by_text(kind: Callable[[Path], Any]) -> None:
    assert model_formats.read_signature(kind(AD_AE)) == model_formats.read_signature(AD_AE)


def test_a_database_named_by_text_may_be_a_url(tmp_path: Path) -> None:
    url = "postgresql://user@host/records"
    assert CommandLineFlags(db=url).db == DatabaseUrl(url)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not mysql://"):
        edgetune.tune(doubled, {"x": ((8,), "float32")}, db="mysql://host/records", out=tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_kept_carried_and_read_by_text(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    with RecordStore.open(kind(tmp_path / "records.db")) as store:
        assert store.export_jsonl(kind(tmp_path / "records.jsonl")) == 0
        store.import_jsonl(kind(tmp_path / "records.jsonl"))
    assert (tmp_path / "records.db").exists()


@pytest.mark.long
@pytest.mark.parametrize("kind", [str, Named])
def test_a_package_is_built_and_verified_by_text(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    flags = CommandLineFlags(model=kind(AD_AE), board="host", out=kind(tmp_path / "out"), db=kind(tmp_path / "r.db"))
    api.build(resolve_settings(flags, {}, kind(tmp_path)), events=lambda _: None)
    assert api.verify(kind(tmp_path / "out"), None, model=kind(AD_AE)).passed
