"""Runs PyTorch in a process of its own, which exports a program to ONNX and computes with it (`child.py`)."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.pytorch.arrays import as_array, written
from edgetune.ipc.child_process import ChildProcess

_EXTRA = "pip install 'edgetune[torch]'"
_NEEDED = ("torch", "onnxscript")
_CHILD = "edgetune.frontend.pytorch.child"
_LOG = "exporter.log"


def require_torch(name: str) -> None:
    """Raises ModelError where PyTorch, or what its exporter needs, is not installed; `name` is the model."""
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        raise ModelError(f"{name} is a model of PyTorch, and {' and '.join(missing)} is not installed: {_EXTRA}")


class ExporterProcess:
    """The process for the program in one temporary folder; `name` is the model in messages.

    The folder lives as long as this object. The process is started when it is needed, and ended once the reference is
    computed: it takes 400 MB, and a search may run for hours.
    """

    def __init__(self, name: str) -> None:
        folder = tempfile.TemporaryDirectory(prefix="edgetune-pytorch-")
        self.name = name
        self.folder = Path(folder.name)
        self._temporary = folder
        self._child: ChildProcess | None = None
        self._end: weakref.finalize[..., ExporterProcess] | None = None

    def export(self) -> tuple[list[str], list[str]]:
        """Exports the program to `folder`/model.onnx; returns the names of its inputs and outputs, in order.

        Raises ModelError and UnsupportedOperator.
        """
        answer = self._ask("export")
        return answer["inputs"], answer["outputs"]

    def run(self, feeds: Sequence[Mapping[int, np.ndarray]]) -> tuple[list[list[np.ndarray]], str]:
        """The outputs of the program in its order, for feeds by number of the input, and PyTorch's version.

        Raises ModelError.
        """
        answer = self._ask("run", [{key: written(value) for key, value in feed.items()} for feed in feeds])
        self.close()
        return [[as_array(one) for one in outputs] for outputs in answer["outputs"]], str(answer["torch"])

    def close(self) -> None:
        """Ends the process; a later call starts another."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _ask(self, work: str, data: object = None) -> dict[str, Any]:
        child = self._child = self._child or self._start()
        answers: list[object] = []
        if child.send((work, self.name, data)):
            while not answers and not child.ended:
                answers = child.read_available()
        if not answers:
            words = child.last_words()
            self.close()
            raise ModelError(
                f"PyTorch's process ended while it worked on {self.name} ({words}): export the model in Python with "
                "torch.onnx.export, and give the ONNX file"
            )
        answer = answers[0]
        assert isinstance(answer, dict)  # noqa: S101  child.py sends nothing else
        if "error" in answer:
            self.close()
            if answer["error"] == UnsupportedOperator.__name__:
                raise UnsupportedOperator(answer["message"])
            raise ModelError(answer["message"], lines=answer["lines"])
        return answer

    def _start(self) -> ChildProcess:
        child = ChildProcess(_CHILD, [str(self.folder)], self.folder / _LOG)
        self._end = weakref.finalize(self, child.kill)
        return child
