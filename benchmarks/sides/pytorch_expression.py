"""PyTorch's side: the fastest of the ways in which it can compute an expression, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.side import Arrays, Call, CannotLoad, Case, Loaded, version_of

_TRIED_S = 0.3
"""Seconds for which each way is called before the fastest one is chosen."""


class PyTorchExpression:
    """The operator of the case's name. Weights and inputs have the layout that each way prefers: none is converted."""

    def load(self, case: Case) -> Loaded:
        """Imports PyTorch; raises CannotLoad where it is not installed."""
        version = version_of("torch")
        import torch

        from benchmarks.search.cases import expression_named  # imports TVM, which no other side needs

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        self._torch: Any = torch
        self._expression = expression_named(case.name)
        if self._expression.variants is None:
            raise CannotLoad(f"'{case.name}' is not written for PyTorch")
        self._variants = self._expression.variants
        self._output = case.outputs[0]
        return Loaded(version, "1 thread, the fastest of its layouts")

    def prepare(self, feed: Arrays) -> Call:
        """Chooses the fastest way for `feed`."""
        arrays = {**feed, **self._expression.values(self._expression.constants)}
        tensors = {name: self._torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        self._run = min(self._variants(self._torch, tensors), key=_seconds)
        return self._run

    def answers(self) -> dict[str, np.ndarray]:
        """The result, with its axes in the order of the expression."""
        return {self._output: np.array(self._run().numpy())}


def _seconds(run: Callable[[], Any]) -> float:
    """The shortest time of a call."""
    best, end = float("inf"), time.perf_counter() + _TRIED_S
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best
