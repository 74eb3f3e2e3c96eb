"""A model of one step, as the protocol of models has it: its reference is the model of the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from edgetune.config.input_stream import InputStream
from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import (
    Feed,
    Model,
    ModelState,
    TranslatedModel,
)
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.streaming.frames import OutputFrames, StepModel
from edgetune.frontend.onnx.streaming.transformation import step_model
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.program import LinearQuantisation, Program, TensorSpec
from edgetune.graph.stream import SteppedTensor, StreamedTensor, WindowStream
from edgetune.graph.ways import USUAL, Ways

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class SteppedModel(TranslatedModel):
    """One step of `window`, which computes a window of frames, and which `onnx` is in ONNX.

    Its inputs are those of the window, streams with the frames of a step, and its states. `sha256` is the hash by which
    packages know the model, `quantisation` that of inputs and outputs, where a file states it.
    """

    window: Model
    onnx: OnnxModel
    streams: Mapping[str, InputStream]
    sha256: str
    quantisation: Mapping[str, LinearQuantisation] = field(default_factory=dict)

    @cached_property
    def found(self) -> StepModel:
        """The step. Raises ModelError and UnsupportedOperator as `step_model` does."""
        return step_model(self.onnx, self.streams)

    @cached_property
    def step(self) -> LoadedOnnx:
        """The model of the step."""
        return LoadedOnnx(self.found.model)

    @property
    def translation(self) -> Model:
        """The step."""
        return self.step

    def states(self) -> Sequence[ModelState]:
        """The rows that a step keeps, and states of recurrent layers."""
        return self.found.states

    def stream(self) -> WindowStream:
        """What the package is to say of the stream."""
        from edgetune.frontend.onnx.importer import import_onnx  # imports TVM
        from edgetune.graph.module_costs import costs_of

        found, shapes = self.found, {spec.name: spec.shape for spec in self.window.inputs}
        step, window = (costs_of(import_onnx(model)) for model in (found.model, self.onnx))
        outputs = tuple(
            SteppedTensor(name, one.settled, -1 if one.axis is None else one.axis, one.frames, one.latency, one.endless)
            for name, one in found.by_output.items()
        )
        return WindowStream(
            tuple(
                StreamedTensor(name, stream.axis % len(shapes[name]), stream.hop, shapes[name][stream.axis])
                for name, stream in self.streams.items()
            ),
            outputs,
            found.latency_frames,
            step.macs,
            window.macs,
            step.live_bytes,
            window.live_bytes,
        )

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """The program of a step."""
        program = self.step.program(channels_last, ways=ways, states=states)
        return replace(program.with_quantisation({**self.quantisation}), model_sha256=self.sha256)

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[Arrays]:
        """Feeds in which inputs that are no streams stay what they are in the first one."""
        feeds = self.step.sample_inputs(inputs, count, seed)
        constant = {name: value for name, value in feeds[0].items() if name not in self.streams} if feeds else {}
        return [{**feed, **constant} for feed in feeds]

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[Arrays], str]:
        """Outputs of single steps."""
        return self.step.reference_outputs(feeds, program, events)

    def sequence_outputs(
        self,
        feeds: Sequence[Feed],
        first: Feed,
        states: Mapping[str, str],
        program: Callable[[], Program],
        events: Callable[[Event], None],
    ) -> tuple[list[Arrays], str]:
        """Outputs of steps, one after another; those that the window computes as well are the window's.

        Raises ModelError where a step computes another result than the window.
        """
        outputs, own = self.step.sequence_outputs(feeds, first, states, program, events)
        places = [
            (number, name, place)
            for number in range(len(feeds))
            for name, one in self.found.by_output.items()
            if (place := self._place(one, number)) is not None
        ]
        starts = sorted({place.start for _, _, place in places})
        if not starts:
            return outputs, own
        windows = [self._window(feeds, start) for start in starts]
        found, reference = self.window.reference_outputs(windows, self.window.program, events)
        of_window = dict(zip(starts, found, strict=True))
        wanted = {
            (number, name): part
            for number, name, place in places
            if (part := place.of(of_window[place.start][name])) is not None
        }
        for name in self.found.by_output:
            self._require_equal(name, {number: part for (number, of), part in wanted.items() if of == name}, outputs)
        for (number, name), part in wanted.items():
            outputs[number] = {**outputs[number], name: part}
        return outputs, f"{reference}, window by window"

    @cached_property
    def _steps(self) -> Fraction:
        """How many steps a window is long."""
        name, stream = next(iter(self.streams.items()))
        window = next(spec.shape for spec in self.window.inputs if spec.name == name)
        return Fraction(window[stream.axis], stream.hop)

    def _place(self, output: OutputFrames, step: int) -> _Place | None:
        """Where a window computes what an output is in a step; None where none does, or it does not count yet."""
        last = step + 1 - self._steps
        if output.axis is None:
            known = step >= output.settled and (last == 0 if output.endless else last >= 0)
            return _Place(last) if known else None
        first = step * output.frames - output.latency
        start = max(last, Fraction(0))
        local = first - start * output.frames
        if first < 0 or local.denominator != 1 or (start > 0 and local < output.touched):
            return None
        return _Place(start, output.axis, int(local), output.frames, output.touched_after)

    def _window(self, feeds: Sequence[Feed], start: Fraction) -> Arrays:
        """The frames of a window that begins `start` steps after the reset; those that are still to come are 0."""
        found = dict(feeds[0])
        for name, stream in self.streams.items():
            axis = stream.axis % feeds[0][name].ndim
            whole = np.concatenate([feed[name] for feed in feeds], axis)
            begin, extent = int(start * stream.hop), int(self._steps * stream.hop)
            part = whole.take(range(begin, min(begin + extent, whole.shape[axis])), axis)
            missing = [(0, extent - part.shape[axis] if number == axis else 0) for number in range(part.ndim)]
            found[name] = np.pad(part, missing)
        return found

    def _require_equal(self, name: str, wanted: Mapping[int, np.ndarray], outputs: Sequence[Feed]) -> None:
        """Raise ModelError where a step's output is not the `wanted` one, by the largest element of all steps.

        A step has few elements, and where all of them come near zero, they are as inaccurate as those of other steps.
        """
        largest = max((_largest(part) for part in wanted.values()), default=0.0)
        for step, part in wanted.items():
            usual = Tolerance.default(str(part.dtype))
            error = compare(outputs[step][name], part, replace(usual, absolute=usual.relative * largest))
            if not error.allowed:
                raise ModelError(
                    f"{self.found.model.name} computes {name!r} of step {step} otherwise than its window, by "
                    f"{error.absolute:.3g}: build it without --stream, and report this"
                )


@dataclass(frozen=True)
class _Place:
    """Where a window that begins `start` steps after the reset has what an output is: all, or rows along an axis."""

    start: Fraction
    axis: int | None = None
    first: int = 0
    rows: int = 0
    touched_after: int = 0

    def of(self, array: np.ndarray) -> np.ndarray | None:
        """That part of a result of the window; None where the window ends before, or pads in place of these rows."""
        if self.axis is None:
            return array
        end = self.first + self.rows
        known = array.shape[self.axis] - self.touched_after
        return array.take(range(self.first, end), self.axis) if end <= known else None


def _largest(array: np.ndarray) -> float:
    magnitudes = np.abs(array.astype(np.float64))
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))
