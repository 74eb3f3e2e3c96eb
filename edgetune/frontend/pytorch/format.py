"""The member `pytorch` of the registry of model formats: modules, programs of torch.export, and `.pt2` files of them.

PyTorch's own exporter makes ONNX of a program, in a process of its own. From there on the model is one of ONNX, except
that its reference is PyTorch itself.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import (
    Feed,
    Model,
    ModelFormat,
    ModelInPython,
    ModelSource,
    OpenShape,
    Recognition,
    Shapes,
    StoredModel,
    TranslatedModel,
)
from edgetune.frontend.pytorch.archive_check import copy_data, require_data_only
from edgetune.frontend.pytorch.sources import is_torch, name_of, require_inputs, require_program, save, torch_file
from edgetune.graph.ways import USUAL, Ways
from edgetune.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    from edgetune.config.input_stream import InputStream
    from edgetune.frontend.pytorch.exporter_process import ExporterProcess
    from edgetune.graph.program import Program


class PyTorchFormat(ModelFormat):
    """What PyTorch made: an object with example inputs, or a file, by its bytes."""

    def recognises(self, source: ModelSource) -> Recognition:
        """Files that cannot be read are recognised as well, to be refused with the lines that export them."""
        if isinstance(source, Path):
            return Recognition.NONE if torch_file(source) is None else Recognition.CERTAIN
        return Recognition.CERTAIN if isinstance(source, ModelInPython) and is_torch(source.model) else Recognition.NONE

    def require(self, source: ModelSource, origin: str = "") -> None:
        """Raises ModelError for a file without a program, one that would run code, and where PyTorch is missing."""
        from edgetune.frontend.pytorch.exporter_process import require_torch

        if isinstance(source, Path):
            super().require(source, origin)
        _require_program(source, origin)
        if isinstance(source, Path):
            require_data_only(source)
        require_torch(_shown(source))

    def signature(self, source: ModelSource) -> Mapping[str, OpenShape]:
        """The inputs of the exported model, whose names are those of the parameters of `forward`."""
        exported = _exported(source)  # its folder lives as long as it does
        return _onnx().signature(exported.onnx)

    def read(self, source: ModelSource) -> StoredModel:
        """Exports the program; raises ModelError and UnsupportedOperator where PyTorch's exporter cannot."""
        exported = _exported(source)
        return StoredPyTorch(exported, _onnx().read(exported.onnx))


FORMAT = PyTorchFormat()


def _onnx() -> ModelFormat:
    """The format that reads what PyTorch's exporter writes: this one knows it only as a member of the registry."""
    formats: Registry[ModelFormat] = Registry("model format", "edgetune.model_formats", ModelFormat)
    return formats.get("onnx", ModelError)


@dataclass(frozen=True)
class Exported:
    """A program, the process that exported it, and the ONNX file that this wrote into its temporary folder.

    `inputs` and `outputs` are the names in the ONNX file, in the program's order. `sha256` is that of the file of the
    program, or of the ONNX file where the program was an object.
    """

    process: ExporterProcess
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sha256: str

    @property
    def onnx(self) -> Path:
        """The ONNX file."""
        from edgetune.frontend.pytorch.arrays import ONNX

        return self.process.folder / ONNX


def _shown(source: ModelSource) -> str:
    return str(source) if isinstance(source, Path) else name_of(source)


def _require_program(source: ModelSource, origin: str = "") -> None:
    """Raises ModelError where `source` is an object that lacks inputs, or a file of another kind."""
    if not isinstance(source, Path):
        require_inputs(source)
        return
    kind = torch_file(source)
    if kind is None:
        raise ModelError(f"{source} has changed while it was read: give the file again")
    require_program(source, kind, origin)


def _exported(source: ModelSource) -> Exported:
    from edgetune.frontend.pytorch.arrays import GIVEN, ONNX, PROGRAM
    from edgetune.frontend.pytorch.exporter_process import ExporterProcess, require_torch

    _require_program(source)
    require_torch(_shown(source))
    process = ExporterProcess(_shown(source))
    program = process.folder / PROGRAM
    if isinstance(source, Path):
        given = process.folder / GIVEN
        shutil.copyfile(source, given)  # nobody writes to the copy
        copy_data(given, program, source)
        sha256 = _sha256(given)
        given.unlink()
        inputs, outputs = process.export()
    else:
        save(source, program)
        inputs, outputs = process.export()
        sha256 = _sha256(process.folder / ONNX)
    return Exported(process, tuple(inputs), tuple(outputs), sha256)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class StoredPyTorch(StoredModel):
    """A program, and the ONNX model made of it, before its open shapes are fixed."""

    exported: Exported
    onnx: StoredModel

    @property
    def sha256(self) -> str:
        """The hash of the `.pt2` file; of an object, that of the ONNX file made of it, which is the same each time."""
        return self.exported.sha256

    def with_shapes(self, shapes: Shapes) -> Model:
        """The model, checked, with all its shapes inferred."""
        return LoadedPyTorch(self.exported, self.onnx.with_shapes(shapes))


@dataclass(frozen=True)
class LoadedPyTorch(TranslatedModel):
    """A program with fixed shapes: the model in ONNX, with PyTorch's eager mode as its reference."""

    exported: Exported
    onnx: Model

    @property
    def translation(self) -> Model:
        """The model in ONNX."""
        return self.onnx

    def stepped(self, streams: Mapping[str, InputStream], reference: Model | None = None, sha256: str = "") -> Model:
        """The step of the model in ONNX, known by the hash of what was given."""
        return self.onnx.stepped(streams, reference or self, sha256 or self.exported.sha256)

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """The program of the model in ONNX, known by the hash of what was given."""
        made = self.onnx.program(channels_last, ways=ways, states=states)
        return replace(made, model_sha256=self.exported.sha256)

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """What PyTorch computes, operator by operator, in a process of its own."""
        del program, events
        inputs, names = self.exported.inputs, self.exported.outputs
        numbered = [{inputs.index(name): array for name, array in feed.items()} for feed in feeds]
        results, version = self.exported.process.run(numbered)
        return [dict(zip(names, outputs, strict=True)) for outputs in results], f"torch {version}"
