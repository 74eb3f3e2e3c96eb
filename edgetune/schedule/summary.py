"""One-line schedule summary for comments and reports: tile sizes by axis, then what else the schedule does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetune.codegen.axes import axes_of, joined, with_pixels
from edgetune.codegen.cuda.copies_ahead import STAGES
from edgetune.codegen.prefetch.inputs import ANNOTATION as INPUTS
from edgetune.codegen.prefetch.outputs import ANNOTATION as OUTPUTS
from edgetune.codegen.prefetch.weights_l1 import ANNOTATION as WEIGHTS_L1
from edgetune.codegen.prefetch.weights_l2 import ANNOTATION as WEIGHTS_L2
from edgetune.codegen.reduction_blocks import ANNOTATION as PARTS
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import DIRECT, algorithm_and_trace
from edgetune.schedule.sketches.index_sets import DIVIDED_ROW
from edgetune.schedule.sketches.row_phases import PHASES
from edgetune.tvm_types import PrimFunc

_PREFETCHES = {
    WEIGHTS_L1: "prefetch weights into L1",
    WEIGHTS_L2: "prefetch weights into L2",
    INPUTS: "prefetch inputs",
    OUTPUTS: "prefetch outputs",
}

_OF_PRODUCTS = ("batch", "row", "column", "k")
"""Axes of sums that become those of products of matrices."""

_COPY = " copy"
"""After a block's name: the block that copies its result."""


def summary(text: str, function: PrimFunc | None = None) -> str:
    """A schedule's algorithm (unless direct), its tile sizes by axis, then its other steps that matter.

    `function` is the kernel's unscheduled function, by which axes get their names. Sizes are outermost first, in the
    order of the trace. Text that is not a trace's JSON gives an empty summary: it is only for people to read.
    """
    algorithm, trace = algorithm_and_trace(text)
    scheduled = None if function is None else algorithm_named(function, algorithm).function
    axes = {} if scheduled is None else axes_of(scheduled)
    results = {} if scheduled is None else axes_of(scheduled, summed=False)
    steps = _Steps(axes | {f"{name}{_COPY}": own for name, own in results.items()})
    try:
        done, decisions = json.loads(trace)
        chosen = {int(index): value for index, value in decisions}
        for number, step in enumerate(done):
            steps.take(step, chosen.get(number))
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        return ""
    return "; ".join([*([] if algorithm == DIRECT else [algorithm]), *steps.sentences()])


@dataclass
class _Steps:
    """What the steps of a trace do so far. `axes` has the names of each block's axes, by the block's name."""

    axes: dict[str, tuple[str, ...]]
    blocks: dict[str, str] = field(default_factory=dict)  # the trace's name of a block: the block's name
    loops: dict[str, str] = field(default_factory=dict)  # the trace's name of a loop: its axis
    lanes: dict[str, int] = field(default_factory=dict)  # of a loop over vectors, elements of one
    drawn: dict[str, int] = field(default_factory=dict)  # the trace's name of a number: the number
    tiles: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    fused: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    inlined: int = 0
    attached: list[str] = field(default_factory=list)
    packed: bool = False
    final: bool = False  # past the point from which steps only finish the schedule

    def take(self, step: Sequence[Any], decision: object) -> None:
        """Note one step of the trace; raises what Python raises where it is none."""
        kind, inputs, attributes, outputs = step
        if kind == "SampleCategorical" and isinstance(decision, int):
            self.drawn[outputs[0]] = attributes[0][decision]
        elif kind.startswith("Sample") and decision is not None:
            self._sample(kind, inputs, decision)
        elif kind == "GetSBlock":
            self.blocks[outputs[0]] = str(attributes[0]).removesuffix("_update")
        elif kind == "GetLoops":
            own = self.axes.get(self.blocks.get(inputs[0], ""), ())
            self.loops |= dict(zip(reversed(outputs), reversed(own), strict=False))
        elif kind == "Split":
            self.loops |= dict.fromkeys(outputs, self.loops.get(inputs[0], ""))
            if len(inputs) == len(outputs) + 1 and isinstance(inputs[-1], int) and inputs[1] == "None":
                self.lanes[outputs[0]] = inputs[-1]
        elif kind == "Fuse":
            self.loops[outputs[0]] = joined(filter(None, (self.loops.get(loop, "") for loop in inputs)))
            self.fused.append(self.loops[outputs[0]])
        elif kind == "Vectorize":
            self.vectors.append(self.loops.get(inputs[0], ""))
        elif kind == "ComputeInline":
            self.inlined += 1
        elif kind == "ComputeAt":
            self.attached.append(self.loops.get(inputs[1], ""))
        elif kind == "ReverseComputeAt":
            self.others.append(f"epilogue per {self.loops.get(inputs[1]) or 'tile'}")
        else:
            self._rarer(kind, inputs, attributes, outputs)

    def _rarer(self, kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any]) -> None:
        if kind == "ReIndex":
            self.axes[self.blocks.get(inputs[0], "")] = _OF_PRODUCTS
        elif kind == "TransformBlockLayout" and self.axes.get(self.blocks.get(inputs[0], "")) == _OF_PRODUCTS:
            pass  # its axes have become those of a product
        elif kind == "TransformBlockLayout":
            block = self.blocks.get(inputs[0], "")
            axes = self.axes.get(block, ())
            self.axes[block] = with_pixels(axes) if with_pixels(axes) != axes else axes[1:]
        elif kind == "CacheWrite":  # a copy of the result, with the axes that are not summed over
            self.blocks[outputs[0]] = f"{self.blocks.get(inputs[0], '')}{_COPY}"
        elif kind == "Tensorize" and "multiply_add" in attributes[0]:
            self.others.append("multiply tiles on tensor cores")
        elif kind == "EnterPostproc":
            self.final = True
        elif kind == "TransformLayout":
            self.packed |= self.final
        elif kind == "Annotate" and attributes[0] in _PREFETCHES:
            self.others.append(_PREFETCHES[attributes[0]])
        elif kind == "Annotate" and attributes[0] == STAGES and self.drawn[inputs[1]] > 1:
            self.others.append(f"copy {_steps(self.drawn[inputs[1]] - 1)} ahead")
        elif kind == "Annotate" and attributes[0] == DIVIDED_ROW:
            self.others.append(f"divide {self.loops.get(inputs[0], '')} by its conditions")
        elif kind == "Annotate" and attributes[0] == PHASES:
            self.others.append(f"store {inputs[1]} phases of {self.loops.get(inputs[0], '')} in turns")
        elif kind == "Annotate" and attributes[0] == PARTS:
            self.others.append(f"sum in {inputs[1]} parts")

    def _sample(self, kind: str, inputs: Sequence[Any], decision: object) -> None:
        if kind == "SamplePerfectTile" and isinstance(decision, list):
            lanes = self.lanes.get(inputs[0])
            sizes = "x".join(map(str, [*decision, *([] if lanes is None else [lanes])]))
            self.tiles.append(f"{self.loops.get(inputs[0], '')} {sizes}".strip())
        else:
            self.others.append(f"{kind.removeprefix('Sample').lower()} {decision}")

    def sentences(self) -> list[str]:
        """All steps in words."""
        found = [f"tile {', '.join(self.tiles)}"] if self.tiles else []
        for verb, axes in (("fuse", self.fused), ("vectorise", self.vectors)):
            if axes:
                found.append(f"{verb} {', '.join(dict.fromkeys(filter(None, axes)))}".strip())
        if self.inlined:
            found.append(f"inline {_stages(self.inlined)}")
        if self.attached:
            where = ", ".join(dict.fromkeys(filter(None, self.attached)))
            found.append(f"compute {_stages(len(self.attached))} per {where or 'iteration'}")
        return [*found, *dict.fromkeys(self.others), *(["pack weights"] if self.packed else [])]


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def _stages(number: int) -> str:
    return "1 stage" if number == 1 else f"{number} stages"
