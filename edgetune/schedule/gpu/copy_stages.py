"""How far copies into shared memory run ahead of the sums that read them: the decision, its limits, and its worth.

The formula rests on the latency of device memory, which sums of other steps hide (Little's law; "Asynchronous Data
Copies" in CUDA's Programming Guide and "Asynchronous Copy from Global Memory to Shared Memory" in its Best Practices
Guide). No GPU has timed it: a search tries every number of stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm import DataType, ir
from tvm.s_tir import Schedule

from edgetune.codegen.cuda.copies_ahead import STAGES
from edgetune.codegen.cuda.tiles import ALIGNMENT
from edgetune.codegen.cuda.vector_access import guarded_value
from edgetune.schedule.gpu.design import Sizes
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, stores
from edgetune.tvm_types import LoopRV, TvmBuffer

_MOST_STAGES = 3  # what more would hide, shared memory seldom has room for
_WORD_BITS = 32  # the least that one asynchronous copy moves


@dataclass(frozen=True)
class CopyStages:
    """A decision: the steps of a sum whose copies lie in shared memory at once; with 1, no copies run ahead."""

    name: str = "stages"

    def annotate(self, sch: Schedule, step: LoopRV, sizes: Sizes | None) -> None:
        """Have the copies in the loop `step` run ahead; sampled where there are no `sizes`."""
        decision = None if sizes is None else sizes[self.name][0] - 1
        numbers = [number for (number,) in self.options()]
        stages = sch.sample_categorical(numbers, [1 / len(numbers)] * len(numbers), decision)
        sch.annotate(step, STAGES, stages)

    def options(self) -> Iterator[tuple[int, ...]]:
        """All decisions."""
        yield from ((number,) for number in range(1, _MOST_STAGES + 1))

    def read(self, decision: object) -> tuple[int, ...]:
        """The stages. Raises TypeError where a decision is no number of one of the options."""
        if not isinstance(decision, int):
            raise TypeError(f"the decision about {self.name} is {decision!r}, not a number")
        return (decision + 1,)


def stage_options(offered: bool, steps: int) -> Sequence[Sizes]:
    """The decisions about stages of a sum of so many steps, fewest first; an empty one where they are not offered."""
    return [{CopyStages.name: (n,)} for n in range(1, min(steps, _MOST_STAGES) + 1)] if offered else [{}]


def stages_of(sizes: Sizes) -> int:
    """Steps of a sum whose copies lie in shared memory at once: 1 where that is no decision."""
    return sizes.get(CopyStages.name, (1,))[0]


def waits(latency: float, steps: int, stages: int, between: float) -> float:
    """Cycles that a block waits for copies of `steps` steps, each with `between` cycles of sums.

    A copy takes `latency` cycles, of which those of the sums of `stages` - 1 steps pass meanwhile: but of the first.
    """
    return latency + (steps - 1) * max(0.0, latency - (stages - 1) * between)


def stages_bytes(nbytes: int, stages: int, buffers: int) -> int:
    """Most bytes of shared memory of so many buffers, which have `nbytes` in one stage; several are aligned."""
    return stages * (nbytes + buffers * (ALIGNMENT - 1)) if stages > 1 else nbytes


def stages_fault(sizes: Sizes, steps: int) -> str | None:
    """Why a sum of so many steps cannot have the stages; None where it can."""
    stages = stages_of(sizes)
    return f"{stages} stages are more than the sum has steps ({steps})" if stages > steps else None


def is_of_words(buffer: TvmBuffer) -> bool:
    """Whether one element of a buffer is as much as one asynchronous copy moves."""
    return bool(DataType(str(buffer.ty.dtype)).bits >= _WORD_BITS)


def copies_words(analysis: BlockAnalysis, before: Sequence[str], name: str) -> bool:
    """Whether the stage called `name` copies elements of a tensor in memory, or writes zeroes; `before` are inlined."""
    stage = analysis.stage(name)
    _, value = guarded_value(next(iter(stores(stage.block.body))).value)
    made = [other.block.writes[0].source for other in analysis.stages if other.name in before]
    if not isinstance(value, ir.TensorLoad) or any(value.source.same_as(one) for one in made):
        return False
    return is_of_words(value.source)
