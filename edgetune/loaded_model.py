"""`edgetune.load`: a model in Python, from a file or from an object that another library made, to tune and to build."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune import api
from edgetune.api import TuneResult
from edgetune.config.database_location import DatabaseUrl, as_location
from edgetune.config.input_stream import InputStream
from edgetune.config.naming import package_name
from edgetune.config.settings import DEFAULT_DB, DEFAULT_SECONDS, Settings
from edgetune.errors import UsageError
from edgetune.frontend.model_format import ModelInPython, ModelSource, StoredModel
from edgetune.pipeline.boards import load_board
from edgetune.pipeline.model_formats import read_stored, require_model
from edgetune.pipeline.on_board import Events
from edgetune.target.preferences import Io, Layout, Precision
from edgetune.verify.verify import VerifyReport

if TYPE_CHECKING:
    from _typeshed import StrPath

    from edgetune.pipeline.tune_and_build import PackageBuild


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model as read, before its open shapes are fixed.

    The keywords of `tune` and `build` are the settings of the command line: `shapes` by input name, `states` as
    outputs by the inputs that they become in the next run, `streams` by the inputs that come frame by frame,
    `io` where inputs and outputs lie, `trials` or `seconds` as the budget, `out` the folder of the package (by default
    build/NAME-BOARD), `db` the file of the records, or a URL.
    """

    source: ModelSource = field(repr=False)
    name: str
    stored: StoredModel = field(repr=False)

    def tune(  # noqa: PLR0913  each is a keyword that a user writes by itself
        self,
        *,
        board: str = "host",
        trials: int | None = None,
        seconds: float | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        precision: Precision = "fp32",
        layout: Layout = "model",
        states: Mapping[str, str] | None = None,
        streams: Mapping[str, InputStream] | None = None,
        io: Io = "caller",
        threads: int = 1,
        seed: int = 0,
        name: str | None = None,
        db: StrPath | DatabaseUrl | None = None,
        out: StrPath | None = None,
        events: Events = lambda _: None,
    ) -> TuneResult:
        """Searches for the fastest kernels on `board` and writes the package. Raises what `edgetune.api.tune` raises.

        The budget is `trials` candidates or `seconds`, half an hour where none is given; UsageError for both.
        """
        if trials is not None and seconds is not None:
            raise UsageError("trials and seconds exclude each other: give one of them")
        budget = (trials, None if trials is not None else seconds or DEFAULT_SECONDS)
        interface = (layout, states, streams, io)
        settings = self._settings(board, budget, shapes, precision, interface, threads, seed, name, db, out)
        return api.tune(settings, events=events, model=self.stored.with_shapes(settings.shapes))

    def build(  # noqa: PLR0913
        self,
        *,
        board: str = "host",
        shapes: Mapping[str, Sequence[int]] | None = None,
        precision: Precision = "fp32",
        layout: Layout = "model",
        states: Mapping[str, str] | None = None,
        streams: Mapping[str, InputStream] | None = None,
        io: Io = "caller",
        threads: int = 1,
        seed: int = 0,
        name: str | None = None,
        db: StrPath | DatabaseUrl | None = None,
        out: StrPath | None = None,
        events: Events = lambda _: None,
    ) -> PackageBuild:
        """Writes the package from existing records. Raises what `edgetune.api.build` raises."""
        budget = (None, DEFAULT_SECONDS)
        interface = (layout, states, streams, io)
        settings = self._settings(board, budget, shapes, precision, interface, threads, seed, name, db, out)
        return api.build(settings, events=events, model=self.stored.with_shapes(settings.shapes))

    def verify(self, package: StrPath, *, board: str | None = None, events: Events = lambda _: None) -> VerifyReport:
        """Compares `package`, which was made of this model, with its reference, on fresh inputs as well.

        Raises what `edgetune.api.verify` raises.
        """
        return api.verify(package, board, events=events, stored=self.stored)

    def _settings(  # noqa: PLR0913
        self,
        board: str,
        budget: tuple[int | None, float | None],
        shapes: Mapping[str, Sequence[int]] | None,
        precision: Precision,
        interface: tuple[Layout, Mapping[str, str] | None, Mapping[str, InputStream] | None, Io],
        threads: int,
        seed: int,
        name: str | None,
        db: StrPath | DatabaseUrl | None,
        out: StrPath | None,
    ) -> Settings:
        resolved = load_board(board, ask=True)
        layout, states, streams, io = interface
        named = package_name(name) if name is not None else self.name
        return Settings(
            model=self.source if isinstance(self.source, Path) else Path(self.name),
            name=named,
            target=resolved.target,
            addresses=resolved.addresses,
            budget_trials=budget[0],
            budget_seconds=budget[1],
            objective="latency",
            ram_limit=None,
            flash_limit=None,
            seed=seed,
            threads=threads,
            db=DEFAULT_DB if db is None else as_location(db),
            out=Path("build", f"{named}-{resolved.target.name}") if out is None else Path(out),
            shapes={key: tuple(value) for key, value in (shapes or {}).items()},
            layout=layout,
            states=dict(states or {}),
            streams=dict(streams or {}),
            io=io,
            precision=precision,
            origins={},
        )


def load(model: ModelSource, example_inputs: object = None, *, name: str | None = None) -> LoadedModel:
    """Reads a model: the path of a file, or an object that a model format knows, such as a module of PyTorch.

    `example_inputs` is a tuple of tensors that shows how the object is called, where it does not say that itself; it
    need not be given for a file. `name` is that of the package, by default made of the file's name or the class's.
    Raises ModelError, UnsupportedOperator, ConfigError where no format knows the model, and UsageError for example
    inputs of a file.
    """
    if isinstance(model, str | os.PathLike):
        if example_inputs is not None:
            raise UsageError("example_inputs are given for a file, which has its shapes: leave them out")
        source: ModelSource = Path(model)
        stem = source.stem
    else:
        source, stem = ModelInPython(model, example_inputs), type(model).__name__
    require_model(source, "")
    return LoadedModel(source, package_name(stem if name is None else name), read_stored(source))
