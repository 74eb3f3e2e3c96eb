"""`edgetune.tune`: tunes a tensor expression written in Python, from the search to the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetune import api
from edgetune.api import TuneResult
from edgetune.config.database_location import DatabaseUrl, as_location
from edgetune.config.settings import DEFAULT_DB, Settings
from edgetune.errors import UsageError
from edgetune.frontend.tensor_expression.format import TensorExpression
from edgetune.pipeline.boards import load_board
from edgetune.pipeline.model_formats import read_model
from edgetune.pipeline.on_board import Events

if TYPE_CHECKING:
    from _typeshed import StrPath

Shape = tuple[Sequence[int], str]


def tune(  # noqa: PLR0913  each is a keyword that a user writes by itself
    expression: Callable[..., Any],
    inputs: Mapping[str, Shape],
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    name: str = "custom",
    board: str = "host",
    trials: int = 64,
    seed: int = 0,
    db: StrPath | DatabaseUrl | None = None,
    out: StrPath | None = None,
    events: Events = lambda _: None,
) -> TuneResult:
    """Searches for the fastest schedule of `expression` on `board` and writes it as a package.

    `inputs` gives shape and numpy dtype name by parameter name, `constants` the weights, which are packed as the
    winning schedule wants them. `db` is the file of the records, or a URL; `out` is the folder of the package.
    `expression(*inputs, *constants)` gets `te.Tensor`s in that order and returns one, or a list. Raises what
    `edgetune.api.tune` raises, and UsageError for an expression whose shapes are not fixed and for `trials` that are
    no whole number of at least 0.
    """
    if not _is_count(trials):
        raise UsageError(f"trials is {trials!r}: give a whole number of at least 0")
    model = read_model(TensorExpression(expression, inputs, dict(constants or {}), name))
    resolved = load_board(board, ask=True)
    settings = Settings(
        model=Path(f"{name}.te"),
        name=name,
        target=resolved.target,
        addresses=resolved.addresses,
        budget_trials=int(trials),
        budget_seconds=None,
        objective="latency",
        ram_limit=None,
        flash_limit=None,
        seed=seed,
        threads=1,
        db=DEFAULT_DB if db is None else as_location(db),
        out=Path(out) if out else Path("build", name),
        shapes={},
        origins={},
    )
    return api.tune(settings, events=events, model=model)


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0
