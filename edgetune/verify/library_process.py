"""Runs a package in a process of its own, which has its shared library loaded: a crash ends that process alone."""

from __future__ import annotations

import ctypes
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from edgetune.errors import SelfTestFailed, UsageError
from edgetune.graph.program import TensorSpec
from edgetune.ipc import frames
from edgetune.ipc.child_process import ChildProcess, claim_pipes, die_with_parent
from edgetune.package.manifest import interface_of, read_manifest
from edgetune.verify.shared_library import build_library
from edgetune.verify.toolchain import PackageToolchain, require_native

_LOG = "process.log"
_SHOWN = 8
"""Arrays that do not fit and are named."""


class LibraryProcess:
    """The package in `folder`, built once into a temporary folder; the process starts with the first run.

    Calls from several threads take turns. Both the process and the folder go with this object. States go on from run to
    run, also where another process has to start.
    """

    def __init__(self, folder: Path) -> None:
        """Builds the library.

        Raises PackageInvalid, NothingRunsIt (the package is for another machine), ToolchainMissing and CompileFailed.
        """
        manifest = read_manifest(folder)
        require_native(PackageToolchain.of(manifest))
        self._folder = folder
        tensors, inputs = interface_of(manifest), len(manifest["inputs"])
        self._inputs, self._outputs = tensors[:inputs], tensors[inputs:]
        self._temporary = Path(tempfile.mkdtemp(prefix="edgetune-library-"))
        weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        self._library = build_library(folder, self._temporary).path
        self._state_bytes = int(manifest["memory"].get("state_bytes", 0)) if manifest.get("states") else 0
        self._kept = b""  # what the last run left; nothing stands for the first state
        self._goes_on = False  # the process has that state
        self._turn = threading.Lock()
        self._child: ChildProcess | None = None
        self._end: weakref.finalize[..., LibraryProcess] | None = None
        self._starter = threading.current_thread()

    def run(self, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs with the shapes and types of the interface.

        Raises SelfTestFailed where the package refuses to start or to run, or where its process ends.
        """
        data = [np.ascontiguousarray(feed[tensor.name]).tobytes() for tensor in self._inputs]
        with self._turn:
            status, outputs = self._ask(data)
        if status:
            raise SelfTestFailed(
                f"the package {self._folder} refuses to run (status {status}): find out why with "
                f"`edgetune verify {self._folder}`"
            )
        return {
            tensor.name: np.frombuffer(written, np.dtype(tensor.dtype)).reshape(tensor.shape).copy()
            for tensor, written in zip(self._outputs, outputs, strict=True)
        }

    @property
    def kept(self) -> bytes:
        """What `NAME_save_state` copies after the last run; nothing where the next one begins a sequence."""
        return self._kept

    def reset(self) -> None:
        """Makes the next run begin with the first state."""
        with self._turn:
            self._kept, self._goes_on = b"", False

    def close(self) -> None:
        """Ends the process; a later run starts another."""
        if self._end is not None:
            self._end()
        self._child = self._end = None
        self._goes_on = False

    def _ask(self, data: list[bytes]) -> tuple[int, list[bytes]]:
        child = self._started()
        answers: list[object] = []
        try:
            if child.send((data, None if self._goes_on else self._kept)):
                while not answers and not child.ended:
                    answers = child.read_available()
            if not answers:
                raise SelfTestFailed(
                    f"the package {self._folder} crashed while it ran ({child.last_words()}): find out why with "
                    f"`edgetune verify {self._folder}`"
                )
        finally:
            if not answers:  # after Ctrl-C as well: the next run must not read the answer to this one
                self.close()
        answer = answers[0]
        assert isinstance(answer, tuple)  # noqa: S101  `main` sends nothing else
        status, outputs, kept = answer
        if not status:
            self._kept, self._goes_on = kept, True
        return status, outputs

    def _started(self) -> ChildProcess:
        if self._child is not None and self._starter.is_alive():
            return self._child
        self.close()  # the kernel ends the process with the thread that started it
        sizes = [",".join(str(tensor.nbytes) for tensor in side) for side in (self._inputs, self._outputs)]
        log = self._temporary / _LOG
        self._child = child = ChildProcess(__name__, [str(self._library), *sizes, str(self._state_bytes)], log)
        self._starter = threading.current_thread()
        self._end = weakref.finalize(self, child.kill)
        return child


def main() -> None:
    """The process: answers (inputs, state) with (status, outputs, state) until the parent closes the pipe.

    A state is a copy of it, empty for the first one. None of it is sent where the last run's goes on.
    """
    parent, path, *sizes, state_bytes = sys.argv[1:]
    die_with_parent(int(parent))
    incoming, outgoing = claim_pipes()
    inputs, outputs = ([int(size) for size in side.split(",") if size] for side in sizes)
    library = ctypes.CDLL(path)
    for name in ("shim_input", "shim_output"):
        function = getattr(library, name)
        function.argtypes, function.restype = [ctypes.c_uint], ctypes.c_void_p
    kept = ctypes.create_string_buffer(int(state_bytes)) if int(state_bytes) else None
    status = library.shim_start()
    while True:
        try:
            received: Any = frames.receive(incoming)
        except EOFError:
            return
        data, begin = received
        for index, (size, written) in enumerate(zip(inputs, data, strict=True)):
            ctypes.memmove(library.shim_input(index), written, size)
        if kept and begin is not None:
            status = status or library.shim_begin(begin or None)
        status = status or library.shim_run()
        read = [] if status else [ctypes.string_at(library.shim_output(i), size) for i, size in enumerate(outputs)]
        if kept:
            status = status or library.shim_keep(kept)
        frames.send(outgoing, (status, read, kept.raw if kept else b""))


def checked(
    tensors: tuple[TensorSpec, ...], fields: Mapping[str, str], arrays: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """`arrays`, given by the name of a tensor or by its field in C, as arrays by name that fit `tensors`.

    `fields` gives the field by name. Raises UsageError, in one sentence for all arrays that do not fit.
    """
    return matched(tensors, fields, ((key, np.asarray(value)) for key, value in arrays.items()))


class Shaped(Protocol):
    """What has the type and the shape of an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""


ShapedT = TypeVar("ShapedT", bound=Shaped)


def matched(
    tensors: tuple[TensorSpec, ...], fields: Mapping[str, str], arrays: Iterable[tuple[str, ShapedT]]
) -> dict[str, ShapedT]:
    """As `checked`, for pairs of key and array, or of what stands for an array that was not read yet."""
    names = {field: name for name, field in fields.items()} | {name: name for name in fields}
    found: dict[str, ShapedT] = {}
    wrong = []
    for key, value in arrays:
        if key not in names:
            wrong.append(f"there is no input '{key}'")
        elif names[key] in found:
            wrong.append(f"input '{names[key]}' is given twice")
        else:
            found[names[key]] = value
    for tensor in tensors:
        array = found.get(tensor.name)
        if array is None:
            wrong.append(f"input '{tensor.name}' is missing")
        elif array.dtype != np.dtype(tensor.dtype):
            wrong.append(f"input '{tensor.name}' is {array.dtype}, not {tensor.dtype}")
        elif array.shape != tensor.shape:
            wrong.append(f"input '{tensor.name}' has shape {array.shape}, not {tensor.shape}")
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise UsageError(f"{'; '.join(wrong[:_SHOWN])}{more}: {told(tensors)}")
    return found


def told(tensors: tuple[TensorSpec, ...]) -> str:
    """The clause that names the inputs of a package, with type and shape."""
    listed = ", ".join(f"'{tensor.name}' ({tensor.dtype} of shape {tensor.shape})" for tensor in tensors)
    return f"the inputs of this package are {listed}" if listed else "this package has no inputs"
