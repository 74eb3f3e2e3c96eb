"""File type detection: checks that a file exists, and recognises formats other than ONNX by its first bytes.

It ignores suffixes, because they are ambiguous (`.pt` is three formats).
"""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetune.config.model_file import not_a_file
from edgetune.errors import ModelError

_HEAD_BYTES = 4096
_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"  # torch.serialization.MAGIC_NUMBER as pickle writes it


@dataclass(frozen=True)
class _Opened:
    """A file that may be a model: its first bytes, its size, and its member names where it is a zip archive."""

    head: bytes
    size: int
    members: tuple[str, ...]

    def holds(self, *endings: str) -> bool:
        """Whether for each ending the archive has a member that ends with it."""
        return all(any(f"/{name}".endswith(f"/{end}") for name in self.members) for end in endings)

    def ends(self, suffix: str) -> bool:
        """Whether the archive has a member whose name ends in `suffix`."""
        return any(name.endswith(suffix) for name in self.members)


@dataclass(frozen=True)
class OtherFormat:
    """A format that is not ONNX: its name, the test that recognises it, and how to convert it to ONNX.

    In `advice`, `{shell}` and `{python}` stand for the path quoted for a shell and for Python, `{onnx}` for the output
    file.
    """

    name: str
    known: Callable[[_Opened], bool]
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
        opened = _open(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}): make it readable for you{given}") from None
    if not opened.size:
        raise ModelError(f"{path} is empty (0 bytes): export or copy the model again{given}")
    found = next((one for one in OTHER_FORMATS if one.known(opened)), None)
    if found is not None:
        raise ModelError(_sentence(path, found.name, found.advice) + given)


def _open(path: Path) -> _Opened:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
    members: tuple[str, ...] = ()
    if head.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                members = tuple(archive.namelist())
        except (zipfile.BadZipFile, ValueError):
            members = ()  # truncated, or no archive: the ONNX reader reports it
    return _Opened(head, size, members)


def _sentence(path: Path, name: str, advice: str) -> str:
    names = {"shell": shlex.quote(str(path)), "python": repr(str(path)), "onnx": f"{path.stem}.onnx"}
    return f"{path} is {name}, not ONNX: {advice.format(**names)}"


def _safetensors(file: _Opened) -> bool:
    length = int.from_bytes(file.head[:8], "little")
    if not 2 <= length <= file.size - 8 or file.head[8:9] != b"{":
        return False
    text = file.head[8 : 8 + length]
    if length > len(text):  # the header continues: its first bytes must begin the name of a tensor
        return text.lstrip(b"{ ").startswith(b'"')
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _hdf5(file: _Opened) -> bool:
    return any(file.head[at:].startswith(b"\x89HDF\r\n\x1a\n") for at in (0, 512, 1024, 2048))


def _frozen_graph(file: _Opened) -> bool:
    return file.head.startswith(b"\n") and b"\x12\x0bPlaceholder" in file.head


def _all_arrays(file: _Opened) -> bool:
    return bool(file.members) and all(name.endswith(".npy") for name in file.members)


def _begins(*starts: bytes) -> Callable[[_Opened], bool]:
    return lambda file: file.head.startswith(starts)


def _page(file: _Opened) -> bool:
    return file.head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


_SAVED_MODEL = "`python -m tf2onnx.convert --saved-model {shell} --output {onnx}` exports it"
_GRAPH = "`python -m tf2onnx.convert --graphdef {shell} --inputs INPUT:0 --outputs OUTPUT:0 --output {onnx}` exports it"
_KERAS = """`python -c "import keras; keras.models.load_model({python}).export('{onnx}', format='onnx')"` exports it"""
_PROGRAM = (
    "`python -c \"import torch; torch.onnx.export(torch.export.load({python}), (), '{onnx}', dynamo=True)\"` exports it"
)
_SCRIPT = "`torch.onnx.export(torch.jit.load({python}), (example_input,), '{onnx}', dynamo=False)` exports it in Python"
_CHECKPOINT = (
    "`torch.onnx.export(model, (example_input,), '{onnx}')` exports it, in the Python program that makes the model and "
    "loads this file"
)
_PICKLE = "export the model in it with its own framework (skl2onnx for scikit-learn, torch.onnx for PyTorch)"
_SAFETENSORS = "`optimum-cli export onnx --model FOLDER onnx/` exports the Hugging Face model in whose FOLDER it lies"
_GGUF = "`optimum-cli export onnx --model NAME onnx/` exports the Hugging Face model NAME that it was made of"
_OF_MODEL = "give the ONNX file of the model itself"

# From the most certain test to the least certain one: the first match wins.
OTHER_FORMATS: tuple[OtherFormat, ...] = (
    OtherFormat("a program of torch.export (.pt2)", lambda f: f.holds("serialized_exported_program.json"), _PROGRAM),
    OtherFormat("a program of torch.export (.pt2)", lambda f: f.holds("archive_format"), _PROGRAM),
    OtherFormat("a TorchScript program", lambda f: f.holds("data.pkl", "constants.pkl"), _SCRIPT),
    OtherFormat("a PyTorch checkpoint", lambda f: f.holds("data.pkl"), _CHECKPOINT),
    OtherFormat("a Keras model", lambda f: f.holds("config.json", "model.weights.h5"), _KERAS),
    OtherFormat("an archive of NumPy arrays", _all_arrays, _OF_MODEL),
    OtherFormat("a zip archive with a model in it", lambda f: f.ends(".onnx"), "`unzip {shell}` unpacks it"),
    OtherFormat(
        "a model in the ORT format", lambda f: f.head[4:8] == b"ORTM", "give the ONNX file that it was made from"
    ),
    OtherFormat("an HDF5 file, as Keras writes them", _hdf5, _KERAS),
    OtherFormat("a file of weights in GGUF", _begins(b"GGUF"), _GGUF),
    OtherFormat("a file of weights in safetensors", _safetensors, _SAFETENSORS),
    OtherFormat("a frozen graph of TensorFlow", _frozen_graph, _GRAPH),
    OtherFormat("a PyTorch checkpoint", lambda f: f.head.startswith(_PICKLES) and _TORCH_MAGIC in f.head, _CHECKPOINT),
    OtherFormat("a pickle of Python objects", _begins(*_PICKLES), _PICKLE),
    OtherFormat("an array of NumPy", _begins(b"\x93NUMPY"), _OF_MODEL),
    OtherFormat("a pointer of Git LFS", _begins(b"version https://git-lfs"), "`git lfs pull` brings the file itself"),
    OtherFormat("a web page", _page, "download the file itself, not the page that shows it"),
    OtherFormat("a file packed with gzip", _begins(b"\x1f\x8b"), "`gunzip {shell}` unpacks it"),
)
