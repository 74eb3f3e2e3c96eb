"""What PyTorch made, recognised and made ready: modules and programs in Python by their class, files by their bytes.

A module or a program is saved for the process that exports it, by the torch that made it: this file imports none. Of
files, a `.pt2` is read; the others are refused with three lines. Suffixes say little: `.pt` is a checkpoint, a whole
module or a TorchScript program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.config.model_file import not_a_file
from edgetune.errors import ModelError
from edgetune.frontend.model_format import ModelInPython
from edgetune.frontend.opened_file import OpenedFile, opened_file

_MODULE = ("torch.nn.modules.module", "Module")
_PROGRAM = ("torch.export.exported_program", "ExportedProgram")
_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"  # torch.serialization.MAGIC_NUMBER as pickle writes it


@dataclass(frozen=True)
class TorchFile:
    """A kind of file: its name, the test that recognises it, and the lines that export it; none where it is read.

    In `lines`, `{path}` stands for the path as Python writes it, `{stem}` for its name without suffix.
    """

    name: str
    known: Callable[[OpenedFile], bool]
    lines: tuple[str, ...] = ()


def torch_file(path: Path) -> TorchFile | None:
    """What PyTorch wrote to `path`; None where it is something else, or cannot be read."""
    if not_a_file(path) is not None:  # a pipe would wait
        return None
    try:
        opened = opened_file(path)
    except OSError:
        return None
    return next((kind for kind in TORCH_FILES if kind.known(opened)), None)


def require_program(path: Path, kind: TorchFile, origin: str = "") -> None:
    """Raises ModelError for a file without a program that can be read, with the lines that make one of it.

    `origin` says where the path was given.
    """
    if kind.lines:
        names = {"path": repr(str(path)), "stem": repr(f"{path.stem}.pt2"), "onnx": repr(f"{path.stem}.onnx")}
        given = f" ({origin})" if origin else ""
        raise ModelError(
            f"{path} is {kind.name}: export it in Python, and give the file that this writes{given}",
            lines=[line.format(**names) for line in kind.lines],
        )


def is_torch(source: object) -> bool:
    """Whether `source` is a module or a program of torch.export."""
    return _is(source, _MODULE) or _is(source, _PROGRAM)


def name_of(source: ModelInPython) -> str:
    """The model in messages."""
    return f"the {type(source.model).__name__} given in Python"


def require_inputs(source: ModelInPython) -> None:
    """Raises ModelError for a module without the inputs that show how it is called."""
    if _is(source.model, _MODULE) and source.example_inputs is None:
        raise ModelError(
            f"{name_of(source)} is a module, and its operators are known only by calling it: give example_inputs, a "
            "tuple of tensors of the shapes that it is to run with"
        )


def save(source: ModelInPython, path: Path) -> None:
    """Writes the program of `source` to `path`. Raises ModelError where torch.export refuses the module."""
    require_inputs(source)
    torch: Any = sys.modules["torch"]
    program = source.model
    if _is(program, _MODULE):
        inputs = source.example_inputs
        try:
            with torch.no_grad():
                program = torch.export.export(program, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,))
        except Exception as error:  # the module's own code runs here, and raises what it likes
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"torch.export refuses {name_of(source)}: {reason[:300]}") from error
    if any(type(one) not in {torch.Tensor, torch.nn.Parameter} for one in program.state_dict.values()):
        program = program.run_decompositions({})  # tensors of torchao become those that they consist of
    torch.export.save(program, path)


def _is(source: object, kind: tuple[str, str]) -> bool:
    return any((base.__module__, base.__qualname__) == kind for base in type(source).__mro__)


def _safetensors(file: OpenedFile) -> bool:
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


def _checkpoint(file: OpenedFile) -> bool:
    return file.holds("data.pkl") or (file.head.startswith(_PICKLES) and _TORCH_MAGIC in file.head)


_MODEL = "model = Model()  # the class of the module"
_SAVE = "torch.export.save(torch.export.export(model.eval(), (example_input,)), {stem})"

# From the most certain test to the least certain one: the first match wins.
TORCH_FILES: tuple[TorchFile, ...] = (
    TorchFile("a program of torch.export", lambda f: f.holds("archive_format")),
    TorchFile("a program of torch.export", lambda f: f.holds("serialized_exported_program.json")),
    TorchFile(
        "a TorchScript program",
        lambda f: f.holds("data.pkl", "constants.pkl"),
        (
            "import torch",
            "model = torch.jit.load({path}).eval()",
            "torch.onnx.export(model, (example_input,), {onnx}, dynamo=False)",
        ),
    ),
    TorchFile(
        "a PyTorch checkpoint, which has weights and not what computes with them",
        _checkpoint,
        (_MODEL, "model.load_state_dict(torch.load({path}))", _SAVE),
    ),
    TorchFile(
        "a file of weights in safetensors, without what computes with them",
        _safetensors,
        (_MODEL, "safetensors.torch.load_model(model, {path})", _SAVE),
    ),
)
