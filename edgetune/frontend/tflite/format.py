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
    Model,
    ModelFormat,
    ModelSource,
    ModelState,
    OpenShape,
    QuantisedOutput,
    Recognition,
    Rounding,
    Shapes,
    StoredModel,
    TranslatedModel,
)
from edgetune.graph.ways import USUAL, Ways

if TYPE_CHECKING:
    import numpy as np

    from edgetune.config.input_stream import InputStream
    from edgetune.frontend.model_facts import ModelFacts
    from edgetune.frontend.onnx.format import LoadedOnnx
    from edgetune.frontend.tflite.content import Quantisation, Tensor, TfliteContent
    from edgetune.frontend.tflite.variables import VariableState
    from edgetune.graph.program import LinearQuantisation, Program
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
        translation = translate(self.content)
        variables = tuple(state for state, _ in translation.variables.states())
        proto = translation.model(self._shapes(shapes, variables))
        require_declared_shapes(self.content, proto)
        try:
            model = model_from_proto(proto, self.content.sha256, path.stem, {}, str(path))
        except ModelError as error:
            reason = error.message.partition("(")[2].rpartition(")")[0] or error.message
            raise ModelError(
                f"{path} contradicts itself: an operator cannot have its operands ({reason}); convert the model again"
            ) from None
        return LoadedTflite(self.content, LoadedOnnx(model), variables)

    def facts(self, shapes: Shapes, sizes: AxisSizes) -> ModelFacts:
        """What the file says, and what an import shows; open shapes and unsupported operators are facts."""
        from edgetune.frontend.tflite.facts import facts_of

        if sizes:
            return super().facts(shapes, sizes)  # which refuses sizes of axes without names
        return facts_of(self.content, lambda: self._loaded(shapes).onnx.model)

    def _shapes(self, stated: Shapes, variables: Sequence[VariableState]) -> dict[str, tuple[int, ...]]:
        path = self.content.path
        tensors = {tensor.name: tensor for tensor in (self.content.tensors[n] for n in self.content.inputs)}
        kept = {one.name_in: one.first.elements.shape for one in variables}
        given = {name: shape for name, shape in stated.items() if kept.get(name) != tuple(shape)}
        unknown = sorted(set(given) - set(tensors))
        if unknown:
            raise ModelError(
                f"--shape names {unknown[0]!r}, but {path} has the inputs {', '.join(sorted(tensors))}", of_inputs=True
            )
        found: dict[str, tuple[int, ...]] = {}
        free: list[str] = []
        for name, tensor in tensors.items():
            wanted = tuple(given.get(name, tensor.shape))
            if wanted != tensor.shape:
                raise ModelError(
                    f"--shape gives {name!r} the shape {list(wanted)}, and {path} was converted for "
                    f"{list(tensor.shape)}: convert the model for the shape that it is to have",
                    of_inputs=True,
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
class LoadedTflite(TranslatedModel):
    """A model of fixed shapes, translated. Names of inputs and outputs are those of the file's tensors."""

    content: TfliteContent
    onnx: LoadedOnnx
    variables: tuple[VariableState, ...] = ()

    @cached_property
    def _quantised(self) -> bool:
        return any(tensor.quantisation is not None for tensor in self.content.tensors)

    def _tensors(self, numbers: Sequence[int]) -> list[Tensor]:
        return [self.content.tensors[number] for number in numbers]

    @property
    def _outputs(self) -> list[str]:
        """Names of the outputs: those of the file, where these are names of nothing else. Variables follow them."""
        return [output.name for output in self.onnx.model.proto.graph.output][: len(self.content.outputs)]

    @cached_property
    def _quantisations(self) -> Mapping[str, Quantisation | None]:
        """What integers of each output stand for, with those that variables become."""
        tensors = zip(self._outputs, self._tensors(self.content.outputs), strict=True)
        return {name: tensor.quantisation for name, tensor in tensors} | {
            one.name_out: one.first.quantisation for one in self.variables
        }

    @cached_property
    def _steps(self) -> Mapping[str, QuantisedOutput]:
        """One step of each output of integers."""
        return {name: QuantisedOutput(1.0) for name, found in self._quantisations.items() if found is not None}

    @property
    def translation(self) -> Model:
        """The model in ONNX."""
        return self.onnx

    def stepped(self, streams: Mapping[str, InputStream], reference: Model | None = None, sha256: str = "") -> Model:
        """The translated model's step, with the quantisation of the file."""
        from edgetune.frontend.onnx.streaming.stepped_model import SteppedModel

        if self.variables:
            raise ModelError(
                f"--stream names '{next(iter(streams))}', but {self.content.path} keeps what it needs of its past in "
                f"the variable '{self.variables[0].name_in}': leave it out"
            )
        window = self.onnx.model
        return SteppedModel(reference or self, window, streams, sha256 or self.content.sha256, self._known_quantisation)

    def channels_last(self, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
        """None: images are channels last already."""
        return self.onnx.channels_last(layout, layouts) if layouts else frozenset()

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """As for an ONNX model, with the quantisation that the file gives to inputs and outputs."""
        program = self.onnx.program(channels_last, ways=ways, states=states)
        return program.with_quantisation(self._known_quantisation)

    @property
    def _known_quantisation(self) -> Mapping[str, LinearQuantisation]:
        """The quantisation of inputs and outputs by name."""
        from edgetune.graph.program import LinearQuantisation

        inputs = {tensor.name: tensor.quantisation for tensor in self._tensors(self.content.inputs)}
        inputs |= {one.name_in: one.first.quantisation for one in self.variables}
        return {
            name: LinearQuantisation(float(found.scale[0]), int(found.zero_point[0]))
            for name, found in (*inputs.items(), *self._quantisations.items())
            if found is not None and found.scale.size == 1
        }

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs by LiteRT's reference kernels.

        Where LiteRT is not installed, or does not run the file, an event says so, and the translated model is
        evaluated, a quantised one in exact integers. So it is where `feeds` have values of variables, which LiteRT does
        not take from outside.
        """
        from edgetune.frontend.onnx.disagreement import EXACT
        from edgetune.frontend.onnx.double import evaluate_exactly
        from edgetune.frontend.tflite import litert

        try:
            if not self.variables:
                return litert.evaluate(self.content, feeds, self._outputs), litert.evaluator(self.content)
        except ModelError as error:
            events(self._without_litert(error))
        if self._quantised:
            return [dict(each) for each in evaluate_exactly(self.onnx.model, feeds)], EXACT
        return self.onnx.reference_outputs(feeds, program, events)

    def _without_litert(self, error: ModelError) -> Event:
        from edgetune.frontend.onnx.disagreement import EXACT

        kind = EXACT if self._quantised else "an evaluator of ONNX"
        return Event("warning", {"message": f"{error.message}: the reference is {kind}"})

    def states(self) -> Sequence[ModelState]:
        """The variables that a call reads before it assigns them."""
        return tuple(ModelState(one.name_in, one.name_out, one.first.elements) for one in self.variables)

    def sequence_outputs(
        self,
        feeds: Sequence[Feed],
        first: Feed,
        states: Mapping[str, str],
        program: Callable[[], Program],
        events: Callable[[Event], None],
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs of LiteRT, which keeps its variables from call to call; what they become is what it assigns to them.

        Where LiteRT does not run the file, an event says so, and the translated model is evaluated step by step.
        """
        from edgetune.frontend.tflite import litert

        if not self.variables:
            return super().sequence_outputs(feeds, first, states, program, events)
        own = {one.name_in for one in self.variables}
        others = {name_in: name_out for name_in, name_out in states.items() if name_in not in own}
        fed = [{**feed, **(first if not number else {})} for number, feed in enumerate(feeds)]
        try:
            runs = litert.evaluate_sequence(
                self.content, fed, self._outputs, others, [one.after for one in self.variables]
            )
        except ModelError as error:
            events(self._without_litert(error))
            return super().sequence_outputs(feeds, first, states, program, events)
        names = [one.name_out for one in self.variables]
        found = [{**outputs, **dict(zip(names, kept, strict=True))} for outputs, kept in runs]
        return found, litert.evaluator(self.content)

    def quantised_outputs(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, QuantisedOutput]:
        """One step of integers; floats as for an ONNX model, whose evaluators are compared with LiteRT."""
        if len(self._steps) == len(self._quantisations):
            return self._steps
        return {**self.onnx.quantised_outputs(feeds, outputs), **self._steps}

    def rounding(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, Rounding]:
        """As for an ONNX model; nothing where all outputs are quantised."""
        return {} if len(self._steps) == len(self._quantisations) else self.onnx.rounding(feeds, outputs)

    def outputs_in_double(self, feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]] | None:
        """As for an ONNX model; None where a tensor is quantised, because steps judge that."""
        return None if self._quantised else self.onnx.outputs_in_double(feeds)
