"""`edgetune.Package`: a finished package in Python, to run, to verify and to time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from edgetune import api
from edgetune.errors import UsageError, WrongResult
from edgetune.graph.program import StateTensor, TensorSpec
from edgetune.package.manifest import check_files, interface_of, read_manifest, states_of
from edgetune.pipeline.comparison import PackageComparison, compare_manifests
from edgetune.pipeline.on_board import Events
from edgetune.verify.bench import BenchReport
from edgetune.verify.layers import LayerError, LayerErrors
from edgetune.verify.library_process import LibraryProcess, checked
from edgetune.verify.notebook_table import table
from edgetune.verify.verify import VerifyReport

if TYPE_CHECKING:
    from _typeshed import StrPath


class Package:
    """The package in `folder`; `inputs` and `outputs` are the tensors of its interface, as C has them.

    `fields` gives the name that an input has in C by its own name. `states` are kept from `run` to `run`. `open` makes
    a package. Used with `with`, the process that runs it ends with the block.
    """

    def __init__(self, folder: StrPath, manifest: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self._manifest = manifest
        self.name: str = manifest["name"]
        self.board: str = manifest["target"]["name"]
        tensors, inputs = interface_of(manifest), len(manifest["inputs"])
        self.inputs: tuple[TensorSpec, ...] = tensors[:inputs]
        self.outputs: tuple[TensorSpec, ...] = tensors[inputs:]
        self._kept = states_of(manifest)
        self.states: tuple[StateTensor, ...] = tuple(state for state in self._kept if state.of_model)
        self.fields: dict[str, str] = {tensor["name"]: tensor["field"] for tensor in manifest["inputs"]}
        self._process: LibraryProcess | None = None

    @classmethod
    def open(cls, folder: StrPath) -> Package:
        """Read the manifest in `folder` and check the hashes of all files; raises PackageInvalid."""
        path = Path(folder).resolve()
        manifest = read_manifest(path)
        check_files(path, manifest)
        return cls(path, manifest)

    def run(self, /, **arrays: object) -> dict[str, np.ndarray]:
        """The outputs by name for one array per input, given by its name, or by its field in C.

        Shapes and types are those of `inputs`. The first call compiles the package with its own flags into a temporary
        folder and loads it in a process of its own, which serves later calls. Raises UsageError for arrays that do not
        fit, NothingRunsIt for a package of another machine, ToolchainMissing, CompileFailed, and SelfTestFailed, which
        says how the process ended, where the package crashes or refuses to run.
        """
        feed = checked(self.inputs, self.fields, arrays)
        if self._process is None:
            self._process = LibraryProcess(self.folder)
        return self._process.run(feed)

    def reset(self) -> None:
        """Make the next `run` begin a new sequence, with the first value of all `states`."""
        if self._process is not None:
            self._process.reset()

    @property
    def kept(self) -> dict[str, np.ndarray]:
        """What the next `run` goes on from: each of `states` by the name of its input, at first its first value."""
        copy = self._process.kept if self._process is not None else b""
        states = [each for each in self._kept if each.of_model]
        return {each.name_in: each.value_in(copy, self._kept) if copy else each.first for each in states}

    def verify(
        self, board: str | None = None, model: StrPath | None = None, *, events: Events = lambda _: None
    ) -> VerifyReport:
        """What `edgetune verify` does, on this machine or on `board`. Raises what `edgetune.api.verify` raises."""
        return api.verify(self.folder, board, model, events)

    def layers(
        self, board: str | None = None, model: StrPath | None = None, *, events: Events = lambda _: None
    ) -> LayerErrors:
        """The error of each layer, as `edgetune verify --per-layer` prints it, also of a package that computes wrongly.

        Needs the model: `model`, or a file of its name here or beside the package. Raises what `edgetune.api.verify`
        raises, WrongResult only where no layer could be compared.
        """
        found: list[LayerError] = []

        def keep(errors: Sequence[LayerError]) -> None:
            found[:] = errors

        try:
            api.verify(self.folder, board, model, events, per_layer=keep)
        except WrongResult:
            if not found:
                raise
        return LayerErrors(found)

    def bench(self, board: str | None = None, *, events: Events = lambda _: None) -> BenchReport:
        """Times of the package and of each layer, as `edgetune bench` measures. Raises what `api.bench` raises."""
        return api.bench(self.folder, board, events)

    def compare(
        self, other: Package, *, bench: bool = False, board: str | None = None, events: Events = lambda _: None
    ) -> PackageComparison:
        """What differs between this package (A) and `other` (B), as `edgetune compare` shows it.

        With `bench`, both are timed in turns on this machine or on `board`. Raises PackageInvalid, UsageError where
        `board` is given without `bench` or no machine runs both, BoardUnavailable where times would be those of an
        emulator, and with `bench` what `edgetune.api.bench` raises.
        """
        if board is not None and not bench:
            raise UsageError(
                "a board times the packages, which is not asked for: ask for it (--bench), or leave it out"
            )
        timing = None
        if bench:
            from edgetune.farm.two_packages import time_in_turns

            timing = time_in_turns(self.folder, other.folder, board, events)
        return compare_manifests((self.folder, other.folder), (self._manifest, other._manifest), timing)

    def close(self) -> None:
        """End the process that runs the package; a later `run` starts another, and goes on from the same states."""
        if self._process is not None:
            self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Package({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        sides = (("input", self.inputs), ("output", self.outputs))
        rows = [
            {"tensor": side, "name": each.name, "shape": each.shape, "type": each.dtype, "bytes": each.nbytes}
            for side, tensors in sides
            for each in tensors
        ]
        rows += [
            {"tensor": "state", "name": each.name_in, "shape": each.shape, "type": each.dtype, "bytes": each.nbytes}
            for each in self.states
        ]
        return table(f"{self.name} for {self.board}", rows)
