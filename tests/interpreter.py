"""One answer of a `Program` by TVM's LLVM back end: what the graph passes mean, without the C printer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program


def run_program(program: Program, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name for inputs by name."""
    return evaluate_program(program, [feed])[0]
