"""Kinds of candidates that bundles carry: one file for each, with all that differs between them.

A backend names its kind; a new one is a file, a line below, and a `member` of the runner in C.
"""

from __future__ import annotations

from edgetune.bundle.kinds.cubins import CUBINS
from edgetune.bundle.kinds.kind import CandidateKind
from edgetune.bundle.kinds.libraries import LIBRARIES
from edgetune.errors import UsageError
from edgetune.pipeline.backends import backend_of
from edgetune.target.board_kind import BoardKind

KINDS: dict[str, CandidateKind] = {kind.name: kind for kind in (CUBINS, LIBRARIES)}
"""All kinds by their names, which are those of manifests, and of the folders that hold the candidates."""


def kind_of(target: BoardKind) -> CandidateKind:
    """The kind of candidates of `target`; raises UsageError where they cannot travel."""
    kind = KINDS.get(backend_of(target).bundles)
    if kind is None:
        why = backend_of(target).untimed(target) or f"its backend '{target.backend}' names no kind of candidates"
        raise UsageError(f"no bundle can be made for board '{target.name}': {why}")
    if fault := kind.fault(target):
        raise UsageError(f"no bundle can be made for board '{target.name}', {fault}")
    return kind


__all__ = ["KINDS", "CandidateKind", "kind_of"]
