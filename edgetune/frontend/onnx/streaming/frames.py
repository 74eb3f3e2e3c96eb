"""Frames of a value along time: which of them a step has, and what a step model says of its inputs, outputs and states.

The model that was trained on a window computes, of all frames since the reset, frames of every value that has a time
axis. A step of the step model computes the next few of them, some steps after they could be known at the earliest. Such
a value's delay is tract's `pulse` (Sonos, `PulseFact`: a frequency and a delay for each tensor).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.model_format import ModelState
from edgetune.frontend.onnx.reader import OnnxModel


@dataclass(frozen=True)
class OutputFrames:
    """What an output of a step model is.

    With an `axis` it has `frames` along it: of step k, those at k * frames - latency and after of what the window model
    computes of all frames since the reset; where a window begins later than that, so do its first `touched` frames
    differ. Without, it is what the window model computes of the last window, or of all frames since the reset where it
    is `endless`. It counts from step `settled` on, the first step being 0. The last `touched_after` frames of a window
    are no frames of a step: the window pads where a step has the frames that follow.
    """

    axis: int | None
    frames: int
    latency: int
    settled: int
    touched: int = 0
    touched_after: int = 0
    endless: bool = False

    @property
    def counts_from(self) -> int:
        """The first step, from 0, in which all of it counts."""
        return self.settled if self.axis is None else -(-max(0, self.latency) // self.frames)


@dataclass(frozen=True)
class StepModel:
    """A model of one step. Its inputs and outputs are those of the window model, followed by those of its states.

    A step gets `hop` frames of the first stream.
    """

    model: OnnxModel
    states: tuple[ModelState, ...]
    hop: int
    by_output: dict[str, OutputFrames]

    @property
    def latency_steps(self) -> int:
        """The first step, from 0, whose outputs all count."""
        return max(output.counts_from for output in self.by_output.values())

    @property
    def latency_frames(self) -> int:
        """How many frames of the first stream go in before that step."""
        return self.latency_steps * self.hop

    @property
    def state_bytes(self) -> int:
        """Bytes of all states together."""
        return sum(state.first.nbytes for state in self.states)


@dataclass(frozen=True)
class Frames:
    """What is known of a value with a time axis.

    `count` are the frames of a step: of step k those at k * count - latency and after, of the frames that the window
    model computes of all frames since the reset. `extent` is how many the window has; the window is `steps` steps long.
    The first `touched` frames of the window depend on what layers found before the window: padding, or a state. The
    last `touched_after` depend on what they found after it: padding, where a step has the frames that follow. It is
    `aligned` where layers with a stride begin at the same frames in all windows.
    `before` is a frame (extent 1 along `axis`) as those are from 0 on that come before the first step's where `latency`
    is negative; None where they do not matter.
    """

    axis: int
    count: int
    extent: int
    latency: int
    steps: Fraction
    touched: int = 0
    touched_after: int = 0
    aligned: bool = True
    before: np.ndarray | None = field(default=None, compare=False)

    @property
    def lag(self) -> int:
        """How many frames of a step come after the last one of a window that ends with the step.

        Raises UnsupportedOperator where the step lacks the last one, or the window pads in place of frames of the step,
        and MisalignedError.
        """
        if not self.aligned:
            raise MisalignedError
        found = int(self.steps * self.count) - self.extent - self.latency
        if found < 0:
            raise UnsupportedOperator(
                "needs the last frames of its window, and a step does not have them yet, because layers before it pad "
                "after the last frame, or wait for a whole step; pad before the first frame alone (causal padding), or "
                "choose another HOP"
            )
        if self.touched_after:
            raise UnsupportedOperator(
                "needs frames of its window that depend on padding after the last one, where a step has the frames "
                "that follow; pad before the first frame alone (causal padding)"
            )
        return found

    @property
    def is_early(self) -> bool:
        """Whether there are frames that count before those of the first step."""
        return self.latency < 0 and self.before is not None

    def settled(self, frames: int) -> int:
        """The first step by which so many frames, from 0 on, were there."""
        return max(0, -(-(frames + self.latency) // self.count) - 1)


def combined(of: Sequence[Frames], reach: int = 1) -> Frames:
    """The frames of a value that is made of those of several, and of the `reach` last ones of all but the first.

    Their counts, extents and latencies are equal; what layers found before and after the window may differ.
    """
    first, *others = of
    touched = max([first.touched, *(frames.touched + reach - 1 for frames in others)])
    return replace(
        first,
        touched=min(touched, first.extent),
        touched_after=max(frames.touched_after for frames in of),
        aligned=all(frames.aligned for frames in of),
        before=None,
    )


@dataclass(frozen=True)
class Band:
    """What is known of scores of attention: those of each frame against the `last` frames that end with it.

    A step has them against these and the other frames of the step. `latency` is that of the keys. `products` are the
    values that the scores were at first. Scores of frames that are too far back, or before the reset, are excluded:
    `excluded` are numbers that they may be, None where they may be any. They are `ranked` as long as those that are
    kept are what the product made, scaled or limited: none of these gets as small as those that a mask excludes.
    """

    products: frozenset[str]
    last: int
    latency: int
    excluded: tuple[float, ...] | None = None
    ranked: bool = True


class UnbandedError(Exception):
    """What begins as attention over the last frames goes on as something else: why, by the product that begins it."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(*reasons.values())
        self.reasons = reasons


class MisalignedError(Exception):
    """A window begins between two frames of a layer with a stride: the frames have to be counted from another one."""


@dataclass(frozen=True)
class KeptRows:
    """Rows that are a state, and the value `joined`: these, followed by the `count` rows of `source` in a step.

    Branches of one value keep rows of it each, such as a convolution, and the connection around it, which waits for it.
    The longest is a state of all: the last rows of that one are the states of the others.
    """

    state: ModelState
    source: str
    joined: str
    axis: int
    count: int

    @property
    def rows(self) -> int:
        """How many rows the state has."""
        return int(self.state.first.shape[self.axis])

    def holds(self, other: KeptRows) -> bool:
        """Whether the last rows of this state are those of another one, from the reset on."""
        last = self.state.first.take(range(self.rows - other.rows, self.rows), self.axis)
        return self.source == other.source and np.array_equal(last, other.state.first)


def shared(kept: Sequence[KeptRows]) -> list[tuple[KeptRows, KeptRows]]:
    """Which rows are the last ones of which others."""
    found: list[tuple[KeptRows, KeptRows]] = []
    whole: list[KeptRows] = []
    for one in sorted(kept, key=lambda one: -one.rows):
        holder = next((other for other in whole if other.holds(one)), None)
        if holder is None:
            whole.append(one)
        else:
            found.append((one, holder))
    return found


def moved_forward(nodes: Sequence[onnx.NodeProto], output: str) -> list[onnx.NodeProto]:
    """`nodes` in an order in which the one that makes `output` follows directly after those that it reads."""
    node = next(node for node in nodes if output in node.output)
    rest = [other for other in nodes if other is not node]
    read = set(node.input)
    after = max((number + 1 for number, other in enumerate(rest) if read.intersection(other.output)), default=0)
    return [*rest[:after], node, *rest[after:]]
