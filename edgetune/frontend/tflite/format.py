"""The member `tflite` of the registry of model formats: a TensorFlow Lite file, translated to an ONNX model in memory.

LiteRT is the reference. Everything else is asked of the ONNX model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import DynamicShape, ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import (
    AxisSizes,
    Feed,
    ImportDeparture,
    Interface,
    Model,
    ModelFormat,
    ModelSource,
    OpenShape,
    QuantisedOutput,
    Recognition,
    Rounding,
    Shapes,
    StoredModel,
)

if TYPE_CHECKING:
    import numpy as np

    from edgetune.config.input_stream import InputStream
    from edgetune.frontend.model_facts import ModelFacts
    from edgetune.frontend.onnx.format import LoadedOnnx
    from edgetune.frontend.tflite.content import Tensor, TfliteContent
    from edgetune.graph.accuracy import Tolerance
    from edgetune.graph.program import LinearQuantisation, Program, TensorSpec
    from edgetune.target.preferences import Layout

_IDENTIFIER = b"TFL3"


class TfliteFormat(ModelFormat):
    """TensorFlow Lite files, by the identifier in their bytes 4 to 7, whatever their suffix."""

    def recognises(self, source: ModelSource) -> Recognition:
        """Certain by the identifier."""
        if not isinstance(source, Path):
            return Recognition.NONE
        try:
            with source.open("rb") as file:
                found = file.read(8)[4:8]
        except OSError:
            return Recognition.NONE
        return Recognition.CERTAIN if found == _IDENTIFIER else Recognition.NONE

    def signature(self, source: ModelSource) -> Mapping[str, OpenShape]:
        """Shapes of the inputs by name; a free first axis is a batch of 1."""
        from edgetune.frontend.tflite.reader import read_content

        content = read_content(source)
        return {
            tensor.name: tuple(
                extent if extent >= 0 else "?" if axis else tensor.shape[0]
                for axis, extent in enumerate(tensor.signature)
            )
            for tensor in (content.tensors[number] for number in content.inputs)
        }

    def read(self, source: ModelSource) -> StoredModel:
        """Reads the first subgraph of a file."""
        from edgetune.frontend.tflite.reader import read_content

        return StoredTflite(read_content(source))


FORMAT = TfliteFormat()


@dataclass(frozen=True)
class StoredTflite(StoredModel):
    """The content of a file."""

    content: TfliteContent

    @property
    def sha256(self) -> str:
        """The hash of the file."""
        return self.content.sha256

    def with_shapes(self, shapes: Shapes) -> Model:
        """The model; a free first axis is a batch of 1.

        Raises UnsupportedOperator, which names all operators that are not built.
        """
        return self._loaded(shapes)

    def _loaded(self, shapes: Shapes) -> LoadedTflite:
        from edgetune.frontend.onnx.format import LoadedOnnx
        from edgetune.frontend.onnx.reader import model_from_proto
        from edgetune.frontend.tflite.operators import translate
        from edgetune.frontend.tflite.translation import require_declared_shapes

        path = self.content.path
        proto = translate(self.content).model(self._shapes(shapes))
        require_declared_shapes(self.content, proto)
        try:
            model = model_from_proto(proto, self.content.sha256, path.stem, {}, str(path))
        except ModelError as error:
            reason = error.message.partition("(")[2].rpartition(")")[0] or error.message
            raise ModelError(
                f"{path} contradicts itself: an operator cannot have its operands ({reason}); convert the model again"
            ) from None
        return LoadedTflite(self.content, LoadedOnnx(model))

    def facts(self, shapes: Shapes, sizes: AxisSizes) -> ModelFacts:
        """What the file says, and what an import shows; open shapes and unsupported operators are facts."""
        from edgetune.frontend.tflite.facts import facts_of

        if sizes:
            return super().facts(shapes, sizes)  # which refuses sizes of axes without names
        return facts_of(self.content, lambda: self._loaded(shapes).onnx.model)

    def _shapes(self, given: Shapes) -> dict[str, tuple[int, ...]]:
        path = self.content.path
        tensors = {tensor.name: tensor for tensor in (self.content.tensors[n] for n in self.content.inputs)}
        unknown = sorted(set(given) - set(tensors))
        if unknown:
            raise ModelError(f"--shape names {unknown[0]!r}, but {path} has the inputs {', '.join(sorted(tensors))}")
        found: dict[str, tuple[int, ...]] = {}
        free: list[str] = []
        for name, tensor in tensors.items():
            wanted = tuple(given.get(name, tensor.shape))
            if wanted != tensor.shape:
                raise ModelError(
                    f"--shape gives {name!r} the shape {list(wanted)}, and {path} was converted for "
                    f"{list(tensor.shape)}: convert the model for the shape that it is to have"
                )
            if name not in given and -1 in tensor.signature[1:]:
                free.append(f"--shape {name}={','.join(map(str, tensor.shape))}")
            found[name] = wanted
        if free:
            raise DynamicShape(
                f"{path} leaves extents of its inputs free, and was converted for 1 in their place: accept that with "
                f"{' '.join(free)}, or convert the model for the sizes that it is to have"
            )
        return found


@dataclass(frozen=True)
class LoadedTflite(Model):
    """A model of fixed shapes, translated. Names of inputs and outputs are those of the file's tensors."""

    content: TfliteContent
    onnx: LoadedOnnx

    @cached_property
    def _quantised(self) -> bool:
        return any(tensor.quantisation is not None for tensor in self.content.tensors)

    def _tensors(self, numbers: Sequence[int]) -> list[Tensor]:
        return [self.content.tensors[number] for number in numbers]

    @property
    def _outputs(self) -> list[str]:
        """Names of the outputs: those of the file, where these are names of nothing else."""
        return [output.name for output in self.onnx.model.proto.graph.output]

    @cached_property
    def _steps(self) -> Mapping[str, QuantisedOutput]:
        """One step of each output of integers."""
        tensors = zip(self._outputs, self._tensors(self.content.outputs), strict=True)
        return {name: QuantisedOutput(1.0) for name, tensor in tensors if tensor.quantisation is not None}

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs of the file, without unused ones."""
        return self.onnx.inputs

    def interface(self) -> Interface | None:
        """Those of the model in ONNX."""
        return self.onnx.interface()

    def stepped(self, streams: Mapping[str, InputStream], reference: Model | None = None, sha256: str = "") -> Model:
        """The translated model's step, with the quantisation of the file."""
        from edgetune.frontend.onnx.streaming.stepped_model import SteppedModel

        window = self.onnx.model
        return SteppedModel(reference or self, window, streams, sha256 or self.content.sha256, self._known_quantisation)

    def channels_last(self, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
        """None: images are channels last already."""
        return self.onnx.channels_last(layout, layouts) if layouts else frozenset()

    def program(self, channels_last: frozenset[str] = frozenset(), *, joins_attention: bool = True) -> Program:
        """As for an ONNX model, with the quantisation that the file gives to inputs and outputs."""
        program = self.onnx.program(channels_last, joins_attention=joins_attention)
        return program.with_quantisation(self._known_quantisation)

    @property
    def _known_quantisation(self) -> Mapping[str, LinearQuantisation]:
        """The quantisation of inputs and outputs by name."""
        from edgetune.graph.program import LinearQuantisation

        inputs = ((tensor.name, tensor) for tensor in self._tensors(self.content.inputs))
        return {
            name: LinearQuantisation(float(found.scale[0]), int(found.zero_point[0]))
            for name, tensor in (*inputs, *zip(self._outputs, self._tensors(self.content.outputs), strict=True))
            if (found := tensor.quantisation) is not None and found.scale.size == 1
        }

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """Feeds in which integers that index a table stay within it."""
        return self.onnx.sample_inputs(inputs, count, seed)

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs by LiteRT's reference kernels.

        Where LiteRT is not installed, or does not run the file, an event says so, and the translated model is
        evaluated, a quantised one in exact integers.
        """
        from edgetune.frontend.onnx.disagreement import EXACT
        from edgetune.frontend.onnx.double import evaluate_exactly
        from edgetune.frontend.tflite import litert

        why = "LiteRT is not installed (`pip install ai-edge-litert` installs it)"
        if litert.is_installed():
            try:
                return litert.evaluate(self.content, feeds, self._outputs), litert.evaluator(self.content)
            except ModelError as error:
                why = error.message
        if self._quantised:
            events(Event("warning", {"message": f"{why}: the reference is {EXACT}"}))
            return [dict(each) for each in evaluate_exactly(self.onnx.model, feeds)], EXACT
        events(Event("warning", {"message": f"{why}: the reference is an evaluator of ONNX"}))
        return self.onnx.reference_outputs(feeds, program, events)

    def quantised_outputs(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, QuantisedOutput]:
        """One step of integers; floats as for an ONNX model, whose evaluators are compared with LiteRT."""
        if len(self._steps) == len(self.content.outputs):
            return self._steps
        return {**self.onnx.quantised_outputs(feeds, outputs), **self._steps}

    def rounding(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, Rounding]:
        """As for an ONNX model; nothing where all outputs are quantised."""
        return {} if len(self._steps) == len(self.content.outputs) else self.onnx.rounding(feeds, outputs)

    def output_limits(self) -> Mapping[str, float]:
        """As for an ONNX model."""
        return self.onnx.output_limits()

    def outputs_in_double(self, feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]] | None:
        """As for an ONNX model; None where a tensor is quantised, because steps judge that."""
        return None if self._quantised else self.onnx.outputs_in_double(feeds)

    def import_departure(self, feed: Feed, allowed: Callable[[np.ndarray], Tolerance]) -> ImportDeparture | None:
        """As for an ONNX model."""
        return self.onnx.import_departure(feed, allowed)
