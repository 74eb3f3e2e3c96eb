"""The protocol of a backend, for one kind of device: what all other rooms ask of it."""

from __future__ import annotations

from typing import Protocol

from edgetune.measure.compiler import CandidateBuilder
from edgetune.package.program_image import ProgramImage
from edgetune.target.dialect import Dialect
from edgetune.target.target import KeyFault, Target


class Backend(CandidateBuilder, Protocol):
    """A member of the registry `edgetune.backends`; a target names it with the key `backend`.

    `dialect` is the C that its compilers take. `most_threads` limits the threads of a package (None: no limit).
    `transport` reaches its boards where their addresses name no other. `untimed` is the reason why nothing can be timed
    on them, as part of a sentence ("" where candidates can be timed).
    """

    dialect: Dialect
    most_threads: int | None
    transport: str
    untimed: str

    def target_fault(self, target: Target) -> KeyFault | None:
        """Return what is wrong in the file of a target that names it; None where nothing is."""

    def program_image(self, prefix: str, target: Target) -> ProgramImage:
        """Return what the test programs of the package called `prefix` need; `target_fault` finds no fault."""
