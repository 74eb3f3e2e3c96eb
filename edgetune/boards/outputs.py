"""Judges the outputs of a call of a candidate; the same for all ways to run candidates in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgetune.boards.misconduct import wrong_output
from edgetune.boards.protocol import OUTPUTS, RunRequest
from edgetune.graph.accuracy import OutputError, Tolerance, compare


def judge(
    request: RunRequest, references: Sequence[np.ndarray], output: Callable[[int], np.ndarray | None]
) -> tuple[str, OutputError]:
    """Compare the outputs of a call; return what is wrong with the first wrong one, and the worst error.

    `output` returns the bytes of a parameter by its index; None: they are known to be right.
    """
    problem, worst = "", OutputError()
    for index, (reference, role) in enumerate(zip(references, request.roles, strict=True)):
        if role not in OUTPUTS or (data := output(index)) is None:
            continue
        shaped = data.view(reference.dtype).reshape(reference.shape)
        found = compare(shaped, reference, request.tolerances[index] or Tolerance())
        if not found.allowed and not problem:
            problem = wrong_output(index, found.absolute, found.relative)
        if found.absolute > worst.absolute:
            worst = found
    return problem, worst
