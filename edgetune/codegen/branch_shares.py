"""Shares of branches: in how many of the iterations around it a condition holds, for estimates of instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tvm import ir, sym, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import loads_in, with_places
from edgetune.affine.values import integers_at
from edgetune.tvm_types import Expr, For, Var

UNKNOWN = 0.5
"""The share where the condition depends on more than loops."""

ASSUMED = 16
"""Iterations of a loop of which nothing is known."""
_MOST = 1 << 24


@dataclass
class Iterations:
    """The loops around a statement, and the indices that are bound in them."""

    ranges: dict[Var, ir.Node] = field(default_factory=dict)
    bound: dict[Var, Expr] = field(default_factory=dict)

    def enter(self, loop: For, analyzer: sym.Analyzer) -> float:
        """How often a loop runs, which is remembered: the middle of what is known where that depends on others."""
        step = int(loop.step.value) if isinstance(loop.step, tirx.IntImm) else 1
        known = analyzer.const_int_bound(loop.extent)
        least, most = max(0, int(known.min_value)), max(0, int(known.max_value))
        if most >= _MOST:
            return ASSUMED
        if isinstance(loop.min, tirx.IntImm):
            self.ranges[loop.loop_var] = ir.Range(int(loop.min.value), int(loop.min.value) + most)
        return (least + most) / 2 / step

    def bind(self, variable: Var, value: Expr) -> None:
        """An index that loops decide."""
        self.bound[variable] = self._plain(value)

    def share(self, condition: Expr) -> float:
        """In how many of the iterations a condition holds."""
        plain = self._plain(condition)
        if loads_in([plain]):
            return UNKNOWN
        domain = Domain(self.ranges)
        found = integers_at(plain, domain.some_places(plain))
        return UNKNOWN if found is None else float(np.mean(found != 0))

    def _plain(self, value: Expr) -> Expr:
        return with_places(value, self.bound) if self.bound else value
