"""Programs of tensor expressions in the forms that formulas decide, without a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgetune.frontend.tensor_expression import kernel
from edgetune.graph.program import Program
from edgetune.rewrites.program import decided


def program_from_te(
    expression: Callable[..., Any],
    inputs: Mapping[str, tuple[Sequence[int], str]],
    constants: Mapping[str, np.ndarray],
    name: str,
) -> Program:
    """The program of an expression: its kernels are those of its first form, and its divisions those of the second."""
    return decided(kernel.program_from_te(expression, inputs, constants, name))
