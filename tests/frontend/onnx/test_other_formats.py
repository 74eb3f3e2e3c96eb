"""Other formats are recognised by their bytes, whatever their names, with the line that exports ONNX from them."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import ModelError
from edgetune.frontend.onnx.other_formats import OTHER_FORMATS, require_model_file
from edgetune.frontend.onnx.reader import read_onnx, read_signature

MODEL = Path(__file__).parents[3] / "examples" / "models" / "ds_cnn.onnx"


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return stream.getvalue()


def arrays() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.ones(3), b=np.zeros(2))
    return stream.getvalue()


def array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(3))
    return stream.getvalue()


FROZEN = b"\n\x1f\n\x05input\x12\x0bPlaceholder*\x09\n\x05dtype"
CASES: dict[str, tuple[bytes, str, str]] = {
    "keras": (archive("metadata.json", "config.json", "model.weights.h5"), "Keras", "load_model('{path}').export("),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5", "load_model('{path}').export("),
    "hdf5 with a user block": (bytes(512) + b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5", "format='onnx'"),
    "frozen graph": (FROZEN, "frozen graph", "tf2onnx.convert --graphdef {path}"),
    "ort": (b"\x1c\0\0\0ORTM" + bytes(100), "ORT", "give the ONNX file"),
    "gguf": (b"GGUF\x03\0\0\0" + bytes(100), "GGUF", "optimum-cli export onnx"),
    "pickle": (pickle.dumps({"a": [1.5]}), "pickle", "skl2onnx"),
    "npz": (arrays(), "archive of NumPy", "ONNX file"),
    "npy": (array(), "array of NumPy", "ONNX file"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 1\n", "Git LFS", "git lfs pull"),
    "web page": (b"\n<!DOCTYPE html>\n<html>", "web page", "download"),
    "gzip": (gzip.compress(MODEL.read_bytes()), "gzip", "gunzip {path}"),
    "zip": (archive("a/m.onnx"), "zip", "unzip {path}"),
}


@pytest.mark.parametrize("name", CASES)
def test_other_formats(tmp_path: Path, name: str) -> None:
    content, words, line = CASES[name]
    path = tmp_path / "network.onnx"  # its name is of no help
    path.write_bytes(content)
    with pytest.raises(ModelError) as refusal:
        require_model_file(path)
    sentence = refusal.value.message
    assert sentence.startswith(f"{path} is a")
    assert words in sentence
    assert line.replace("{path}", str(path)) in sentence
    assert "{" not in sentence
    with pytest.raises(ModelError, match="not ONNX: "):
        read_onnx(path)
    with pytest.raises(ModelError, match="not ONNX: "):
        read_signature(path)


def test_every_format_has_a_case() -> None:
    said = {words for _, words, _ in CASES.values()}
    assert all(any(words in one.name for words in said) for one in OTHER_FORMATS)


def test_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(ModelError, match=r"is a TensorFlow SavedModel, not ONNX: `python -m tf2onnx.convert --saved-"):
        require_model_file(tmp_path)


def test_names_are_quoted_for_shell_and_python(tmp_path: Path) -> None:
    path = tmp_path / "it's mine; rm -rf {x}.gz"
    path.write_bytes(CASES["gzip"][0])
    with pytest.raises(ModelError) as refusal:
        require_model_file(path)
    assert "gunzip '" in refusal.value.message
    assert "it'\"'\"'s mine; rm -rf {x}.gz'" in refusal.value.message


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(MODEL.read_bytes(), id="onnx"),
        pytest.param(b"PK\x03\x04 cut short", id="broken archive"),
        pytest.param(b"\xff" * 5000, id="noise"),
        pytest.param(b"\x08\x07", id="beginning of onnx"),
    ],
)
def test_what_is_no_other_format_is_left_to_the_reader_of_onnx(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    require_model_file(tmp_path / "m.onnx")
