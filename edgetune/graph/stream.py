"""Stream: what a package of one step knows of the window of frames that its model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class StreamedTensor:
    """An input that comes frame by frame: a step gets the next `hop` frames along `axis`; the window has `window`."""

    name: str
    axis: int
    hop: int
    window: int


@dataclass(frozen=True)
class SteppedTensor:
    """An output of a step: it counts from step `settled` on, the first one since the reset being 0.

    Where it has a time `axis`, step k has its `frames` at k * frames - latency and after, of what the model computes of
    all frames since the reset. Without one (-1), it is what the model computes of the window that ends with the step,
    or of all frames since the reset where it is `endless`.
    """

    name: str
    settled: int
    axis: int = -1
    frames: int = 0
    latency: int = 0
    endless: bool = False


@dataclass(frozen=True)
class WindowStream:
    """Streamed inputs and all outputs, and what a step costs beside a run of the window.

    Before the first step whose outputs all count, `latency_frames` frames of the first input go in. `step_macs` and
    `window_macs` are multiply-adds, `step_ram` and `window_ram` the largest sums of bytes of tensors that are alive
    at once.
    """

    inputs: tuple[StreamedTensor, ...]
    outputs: tuple[SteppedTensor, ...]
    latency_frames: int
    step_macs: int
    window_macs: int
    step_ram: int
    window_ram: int

    @property
    def latency_steps(self) -> int:
        """The first step, from 0, whose outputs all count."""
        return self.latency_frames // self.inputs[0].hop

    @property
    def window_steps(self) -> int:
        """How many steps have all frames of a window."""
        return max(-(-one.window // one.hop) for one in self.inputs)

    def to_json(self) -> dict[str, object]:
        """Plain JSON values for MANIFEST.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> WindowStream:
        """What `to_json` has written."""
        inputs = tuple(StreamedTensor(**one) for one in stated["inputs"])
        return cls(**{**stated, "inputs": inputs, "outputs": tuple(SteppedTensor(**one) for one in stated["outputs"])})
