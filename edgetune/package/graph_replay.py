"""Whether a package in CUDA replays its launches as a graph: where they cost too much of a run one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.package.calls import CallView, KernelView
from edgetune.target.gpu import GpuTarget

LAUNCH_US = 2.0
"""What one launch into a stream costs, of the order of what every driver takes; a replayed one costs about half."""

MOST_SHARE = 0.1
_MACS_PER_US = 128 * 1000
"""Of one multiprocessor: as many multiply-adds in a cycle as the widest parts have, at 1 GHz."""


@dataclass(frozen=True)
class GraphReplay:
    """The rule's answer: `wanted` where `launches` take more than a tenth of `run_us`, microseconds of one run.

    A kernel without a time counts as long as its multiply-adds or its bytes need at least, so that doubt means a graph.
    """

    launches: int
    run_us: float

    @property
    def launches_us(self) -> float:
        """What the launches cost one by one."""
        return self.launches * LAUNCH_US

    @property
    def wanted(self) -> bool:
        """Whether the package replays a graph."""
        return self.launches_us > MOST_SHARE * self.run_us

    @property
    def reason(self) -> str:
        """The rule with its numbers, as a sentence."""
        comparison = "over" if self.wanted else "at most"
        return (
            f"{self.launches} launches of {LAUNCH_US:g} us are {comparison} {MOST_SHARE:.0%} of a run, which takes "
            f"{self.run_us:.4g} us without them"
        )


def graph_replay(calls: Sequence[CallView], kernels: Sequence[KernelView], target: GpuTarget) -> GraphReplay:
    """What the rule says of the layers `calls`, whose kernels are `kernels`."""
    launches = {kernel.symbol: len(kernel.launches) for kernel in kernels}
    return GraphReplay(sum(launches[call.symbol] for call in calls), sum(_least_us(call, target) for call in calls))


def _least_us(call: CallView, target: GpuTarget) -> float:
    if call.provenance.median_us is not None:
        return call.provenance.median_us
    computing = call.macs / (target.multiprocessors * _MACS_PER_US)
    return max(computing, call.nbytes / (target.memory_gb_per_s * 1000))
