"""File type detection: checks that a file exists, and recognises formats other than ONNX by its first bytes.

It ignores suffixes, because they are ambiguous. Files of another model format, also those that it refuses, never come
here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetune.config.model_file import not_a_file
from edgetune.errors import ModelError
from edgetune.frontend.opened_file import OpenedFile, opened_file

_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


@dataclass(frozen=True)
class OtherFormat:
    """A format that is not ONNX: its name, the test that recognises it, and how to convert it to ONNX.

    In `advice`, `{shell}` and `{python}` stand for the path quoted for a shell and for Python, `{onnx}` for the output
    file.
    """

    name: str
    known: Callable[[OpenedFile], bool]
    advice: str


def require_model_file(path: Path, origin: str = "") -> None:
    """Raise ModelError unless `path` is a file that may be ONNX; `origin` says where the path was given.

    The message names what is at that path instead, and for other formats the line that exports them to ONNX.
    """
    given = f" ({origin})" if origin else ""
    complaint = not_a_file(path)
    if complaint is not None:
        if (path / "saved_model.pb").is_file():
            raise ModelError(_sentence(path, "a TensorFlow SavedModel", _SAVED_MODEL) + given)
        raise ModelError(f"{path} {complaint}: give the path of a model file{given}")
    try:
        opened = opened_file(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}): make it readable for you{given}") from None
    if not opened.size:
        raise ModelError(f"{path} is empty (0 bytes): export or copy the model again{given}")
    found = next((one for one in OTHER_FORMATS if one.known(opened)), None)
    if found is not None:
        raise ModelError(_sentence(path, found.name, found.advice) + given)


def _sentence(path: Path, name: str, advice: str) -> str:
    names = {"shell": shlex.quote(str(path)), "python": repr(str(path)), "onnx": f"{path.stem}.onnx"}
    return f"{path} is {name}, not ONNX: {advice.format(**names)}"


def _hdf5(file: OpenedFile) -> bool:
    return any(file.head[at:].startswith(b"\x89HDF\r\n\x1a\n") for at in (0, 512, 1024, 2048))


def _frozen_graph(file: OpenedFile) -> bool:
    return file.head.startswith(b"\n") and b"\x12\x0bPlaceholder" in file.head


def _all_arrays(file: OpenedFile) -> bool:
    return bool(file.members) and all(name.endswith(".npy") for name in file.members)


def _begins(*starts: bytes) -> Callable[[OpenedFile], bool]:
    return lambda file: file.head.startswith(starts)


def _page(file: OpenedFile) -> bool:
    return file.head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


_SAVED_MODEL = "`python -m tf2onnx.convert --saved-model {shell} --output {onnx}` exports it"
_GRAPH = "`python -m tf2onnx.convert --graphdef {shell} --inputs INPUT:0 --outputs OUTPUT:0 --output {onnx}` exports it"
_KERAS = """`python -c "import keras; keras.models.load_model({python}).export('{onnx}', format='onnx')"` exports it"""
_PICKLE = "export the model in it with its own framework (skl2onnx for scikit-learn, torch.onnx for PyTorch)"
_GGUF = "`optimum-cli export onnx --model NAME onnx/` exports the Hugging Face model NAME that it was made of"
_OF_MODEL = "give the ONNX file of the model itself"

# From the most certain test to the least certain one: the first match wins.
OTHER_FORMATS: tuple[OtherFormat, ...] = (
    OtherFormat("a Keras model", lambda f: f.holds("config.json", "model.weights.h5"), _KERAS),
    OtherFormat("an archive of NumPy arrays", _all_arrays, _OF_MODEL),
    OtherFormat("a zip archive with a model in it", lambda f: f.ends(".onnx"), "`unzip {shell}` unpacks it"),
    OtherFormat(
        "a model in the ORT format", lambda f: f.head[4:8] == b"ORTM", "give the ONNX file that it was made from"
    ),
    OtherFormat("an HDF5 file, as Keras writes them", _hdf5, _KERAS),
    OtherFormat("a file of weights in GGUF", _begins(b"GGUF"), _GGUF),
    OtherFormat("a frozen graph of TensorFlow", _frozen_graph, _GRAPH),
    OtherFormat("a pickle of Python objects", _begins(*_PICKLES), _PICKLE),
    OtherFormat("an array of NumPy", _begins(b"\x93NUMPY"), _OF_MODEL),
    OtherFormat("a pointer of Git LFS", _begins(b"version https://git-lfs"), "`git lfs pull` brings the file itself"),
    OtherFormat("a web page", _page, "download the file itself, not the page that shows it"),
    OtherFormat("a file packed with gzip", _begins(b"\x1f\x8b"), "`gunzip {shell}` unpacks it"),
)
