"""`edgetune run`: arrays go in and out by name, ranges are shown, and what does not fit is one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.cli.main import run
from edgetune.package.manifest import MANIFEST, file_table
from edgetune.verify.array_files import write_outputs
from tests import package_sample

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with an input and an output whose names no keyword and no path can be."""
    folder = tmp_path_factory.mktemp("run") / "tiny"
    package_sample.emit(folder, ends=("in/0=", "file"), measure=False)
    return folder


@pytest.fixture
def package(emitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    shutil.copytree(emitted, "tiny")
    return "tiny"


def right() -> np.ndarray:
    model, half = package_sample.program(), np.float32(0.5)
    return np.asarray((X * model.constants[1] + half) * model.constants[3] + half + X)


@pytest.mark.long
def test_outputs_are_what_numpy_computes(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_outputs(Path("all.npz"), {"in/0=": X})
    for word, out in (("in/0==x.npy", "named.npz"), ("all.npz", "all_out.npz"), ("x.npy", "out.npy")):
        assert run(["run", package, "-i", word, "-o", out, "-q"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"wrote {out}"
        found = np.load(out, allow_pickle=False)
        np.testing.assert_allclose(found if out.endswith(".npy") else found["file"], right(), rtol=1e-6)


@pytest.mark.long
def test_without_a_place_the_range_of_each_output_is_shown(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = X.copy()
    damaged[0, 0], damaged[1, 0] = np.nan, np.inf
    np.save("nan.npy", damaged)
    expected = right()
    expected[0, 0] = expected[1, 0] = np.nan
    assert run(["run", package, "-i", "nan.npy", "--json", "-q"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["outputs"]
    assert (row["name"], row["shape"], row["type"], row["not_finite"]) == ("file", [4, 8], "float32", 2)
    found = (row["min"], row["max"], row["mean"])
    assert found == pytest.approx((np.nanmin(expected), np.nanmax(expected), np.nanmean(expected)), rel=1e-5)
    assert run(["run", package, "-i", "x.npy"]) == 0
    out = capsys.readouterr().out
    assert f"file  4 x 8  float32  {right().min():.6g}" in out
    assert "not finite" not in out


@pytest.mark.long
def test_integers_of_a_quantised_output_have_a_range_of_real_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, made, goldens = package_sample.copies([("int8", (2, 3)), ("bool", ())])
    package_sample.emit_copies(tmp_path / "copies", model, made, goldens, measure=False)
    manifest: dict[str, Any] = json.loads((tmp_path / "copies" / MANIFEST).read_text())
    manifest["outputs"][0] |= {"scale": 0.5, "zero_point": -8}
    (tmp_path / "copies" / MANIFEST).write_text(json.dumps(manifest))
    given = {"in int8": np.array([[-128, 0, 127], [5, -9, 1]], np.int8), "in bool": np.array(True)}
    write_outputs(tmp_path / "all.npz", given)
    assert run(["run", str(tmp_path / "copies"), "-i", str(tmp_path / "all.npz"), "--json", "-q"]) == 0
    quantised, other = json.loads(capsys.readouterr().out)["outputs"]
    assert (quantised["min"], quantised["max"], quantised["mean"]) == (-128, 127, pytest.approx(-4 / 6))
    assert (quantised["real_min"], quantised["real_max"]) == (-60.0, 67.5)
    assert (other["shape"], other["min"], other["mean"]) == ([], 1, 1.0)
    assert "real_min" not in other


@pytest.mark.long
def test_a_crash_writes_nothing(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(package) / "src" / "tiny_kernels.c"
    source.write_text(source.read_text().replace("i++) {", "i++) { __builtin_trap();"))
    manifest = json.loads((Path(package) / MANIFEST).read_text())
    (Path(package) / MANIFEST).write_text(json.dumps(manifest | {"files": file_table(Path(package))}))
    Path("out.npz").write_bytes(b"before")
    assert run(["run", package, "-i", "x.npy", "-o", "out.npz", "-q"]) == 19
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "crashed while it ran" in said.err
    assert Path("out.npz").read_bytes() == b"before"
    assert sorted(path.name for path in Path().iterdir()) == ["out.npz", "tiny", "x.npy"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "input 'in/0=' is missing: the inputs of this package are 'in/0=' (float32 of shape (4, 8))"),
        (["-i", "y=x.npy"], 2, "there is no input 'y'; input 'in/0=' is missing: the inputs of this package are "),
        (["-i", "double.npy"], 2, "input 'in/0=' is float64, not float32: the inputs of this package are 'in/0=' ("),
        (["-i", "turned.npy"], 2, "input 'in/0=' has shape (8, 4), not (4, 8): the inputs of this package are "),
        (["-i", "cut.npy"], 2, "cut.npy is not a whole .npy or .npz file (it holds 124 of 128 bytes of data)"),
        (["-i", "x.npy", "-o", "gone/out.npz"], 12, "gone does not exist: create it first"),
        (["-i", "x.npy", "-o", "tiny"], 2, "tiny must end with .npz"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    words: list[str], code: int, sentence: str, package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("double.npy", X.astype(float))
    np.save("turned.npy", X.T)
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:-4])
    assert run(["run", package, *words, "-q"]) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert sentence in said.err


def test_a_package_of_another_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    package_sample.emit(tmp_path / "arm", target=package_sample.arm("generic-aarch64"), measure=False)
    assert run(["run", str(tmp_path / "arm"), "-i", str(tmp_path / "x.npy"), "-q"]) == 31
    assert "only one for the CPU of this machine can be called" in capsys.readouterr().err
