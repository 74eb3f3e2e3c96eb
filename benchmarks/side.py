"""What one side of the comparison has to be able to do, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

import numpy as np

from edgetune.graph.program import TensorSpec

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], object]


class CannotLoad(Exception):  # noqa: N818  it says what happened, as the errors of edgetune do
    """This side cannot run this model here; the message is the reason, one sentence."""


@dataclass(frozen=True)
class Case:
    """One model for all sides: model file, package, tensors in the order of the model, a folder for converted files."""

    name: str
    model: Path
    package: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    work: Path


@dataclass(frozen=True)
class Loaded:
    """A side that is ready: its version, and the settings that it runs with, in words."""

    version: str
    settings: str


class Side(Protocol):
    """One runtime with one model. It runs on one thread; its process is pinned to one core before `load`."""

    def load(self, case: Case) -> Loaded:
        """Convert and load the model; raises CannotLoad, or whatever the runtime raises."""
        ...

    def prepare(self, feed: Arrays) -> Call:
        """Put `feed` (inputs by name, in their own dtype) in place; each call of the result is one inference.

        The result is the cheapest entry that the runtime's binding has: it is called in a loop, and all of it counts.
        """
        ...

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last call by name, as copies in the model's own layout."""
        ...


def version_of(distribution: str) -> str:
    """Version of an installed distribution; raises CannotLoad when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise CannotLoad(f"{distribution} is not installed") from None


def require_file(case: Case, who: str, *suffixes: str) -> None:
    """Raise CannotLoad unless the model's file has one of the `suffixes` that this side reads."""
    if case.model.suffix not in suffixes:
        raise CannotLoad(f"{who} is given {' and '.join(suffixes)} files here, and the model is {case.model.suffix}")


def require_float32(case: Case, who: str) -> None:
    """Raise CannotLoad unless all inputs are float32."""
    for spec in case.inputs:
        if spec.dtype != "float32":
            raise CannotLoad(f"input {spec.name} is {spec.dtype}, and {who} is given float32 only here")
