"""Core: what formulas know of a core. A formula that decides before a target is known takes the widest one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgetune.target.costs import COSTS, MARGINS, Costs, Margins, Order
from edgetune.target.dot_product import DotProduct


@dataclass(frozen=True)
class Core:
    """What formulas know of a core: lanes of a vector, vector registers, bytes of L1, and what things cost.

    Elements have `element_bytes`; see `holding`. `dot` is the best dot product of integers.

    `margins` say when a formula is believed; they come along, for a formula that only proposes believes itself sooner.
    """

    lanes: int
    registers: int
    l1_bytes: int
    costs: Costs = COSTS
    margins: Margins = MARGINS
    element_bytes: int = 4
    dot: DotProduct | None = None

    def terms(self, cycles: float) -> float:
        """How many multiply-adds, of one lane each, take this many cycles in whole vectors."""
        return cycles / self.costs.operation * self.lanes

    @property
    def least_terms(self) -> float:
        """Terms of a sum below which the call of another kernel for it costs more than it saves."""
        return self.terms(self.costs.kernel_call)

    def move(self, order: Order) -> float:
        """Cycles of one element of a copy; see `Costs.move`."""
        return self.costs.move(order, self.element_bytes, self.lanes)

    def holding(self, element_bytes: int) -> Core:
        """The core with the lanes that its vectors have for elements of so many bytes."""
        lanes = max(1, self.lanes * self.element_bytes // element_bytes)
        return replace(self, lanes=lanes, element_bytes=element_bytes)


WIDEST = Core(lanes=16, registers=32, l1_bytes=32 << 10)
"""The widest core, of float32: what is decided before the target is known is decided for it.

Narrower vectors need as many cycles for a copy, and more for a sum.
"""
