"""The member `onnx` of the registry of model formats: an ONNX file, as the protocols of a format and a model have it.

Reading a file needs ONNX and not TVM, and asking whether a file may be ONNX needs neither. So modules are imported by
the methods that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from edgetune.graph.ways import USUAL, Ways

if TYPE_CHECKING:
    import numpy as np

    from edgetune.config.input_stream import InputStream
    from edgetune.frontend.model_facts import ModelFacts
    from edgetune.frontend.onnx.reader import OnnxFile, OnnxModel
    from edgetune.graph.accuracy import Tolerance
    from edgetune.graph.program import Program, TensorSpec
    from edgetune.target.preferences import Layout


class OnnxFormat(ModelFormat):
    """ONNX files. They have no first bytes of their own, so any file may be one until another format is certain."""

    def recognises(self, source: ModelSource) -> Recognition:
        """Any path is possible: what is no ONNX file is refused by name, with the way to export it."""
        return Recognition.POSSIBLE if isinstance(source, Path) else Recognition.NONE

    def require(self, source: ModelSource, origin: str = "") -> None:
        """Raises ModelError for what is no file, and for other formats by their first bytes."""
        from edgetune.frontend.onnx.other_formats import require_model_file

        require_model_file(source, origin)

    def signature(self, source: ModelSource) -> Mapping[str, OpenShape]:
        """Shapes of the inputs by name; tensors in other files are not read."""
        from edgetune.frontend.onnx.reader import read_signature

        return read_signature(source)

    def read(self, source: ModelSource) -> StoredModel:
        """Reads a file with its external tensors."""
        from edgetune.frontend.onnx.reader import read_stored

        return StoredOnnx(read_stored(source))

    def register_operator(self, name: str, expression: Callable[..., Any]) -> None:
        """Defines the operator type `name`, of any domain except ONNX's own."""
        from edgetune.frontend.onnx.custom import register_operator

        register_operator(name, expression)


FORMAT = OnnxFormat()


@dataclass(frozen=True)
class StoredOnnx(StoredModel):
    """The content of an ONNX file and its external data."""

    content: OnnxFile

    @property
    def sha256(self) -> str:
        """The hash of the file, or of all files (`ExternalData.sha256`)."""
        return self.content.sha256

    def with_shapes(self, shapes: Shapes) -> LoadedOnnx:
        """The model, checked, with all its shapes inferred."""
        return self.with_axes(shapes, {})

    def with_axes(self, shapes: Shapes, sizes: AxisSizes) -> LoadedOnnx:
        """The model, checked, with all its shapes inferred; an axis that is the batch becomes 1 (`fix_shapes`)."""
        from edgetune.frontend.onnx.reader import with_shapes

        return LoadedOnnx(with_shapes(self.content, shapes, sizes))

    def facts(self, shapes: Shapes, sizes: AxisSizes) -> ModelFacts:
        """What the file says, and what an import shows; open shapes and unsupported nodes are facts."""
        from edgetune.frontend.onnx.facts import facts_of

        return facts_of(self.content, shapes, sizes)


@dataclass(frozen=True)
class LoadedOnnx(Model):
    """A checked ONNX model: ONNX's evaluators are its reference, except for operators that they do not know."""

    model: OnnxModel

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs of the imported model, without unused ones that are constant."""
        from edgetune.frontend.onnx.importer import import_onnx

        return import_onnx(self.model).inputs

    def interface(self) -> Interface | None:
        """The inputs and outputs of the graph, whose shapes are inferred."""
        from edgetune.frontend.onnx.facts import interface_of

        return interface_of(self.model)

    def stepped(self, streams: Mapping[str, InputStream], reference: Model | None = None, sha256: str = "") -> Model:
        """The model of a step (`edgetune.frontend.onnx.streaming`)."""
        from edgetune.frontend.onnx.streaming.stepped_model import SteppedModel

        return SteppedModel(reference or self, self.model, streams, sha256 or self.model.sha256)

    def channels_last(self, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
        """The images among inputs and outputs, as the operators of the model show them, and those that are named."""
        from edgetune.frontend.onnx.interface_layout import channels_last_tensors

        return channels_last_tensors(self.model, layout, layouts)

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """The model as TVM's importer and our converters import it, after the graph passes."""
        from edgetune.frontend.onnx.interface_layout import import_channels_last
        from edgetune.frontend.onnx.interface_quantisation import interface_quantisation
        from edgetune.graph.partition import to_program

        imported = import_channels_last(self.model, channels_last)
        program = to_program(imported, ways=ways, states=states)
        return program.with_quantisation(interface_quantisation(self.model))

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """Feeds in which integers that index a table stay within it."""
        from edgetune.frontend.onnx.sample_inputs import sample_inputs

        return sample_inputs(self.model, inputs, count, seed)

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs by an evaluator of ONNX, or by the program itself where only it knows an operator.

        For a model with a registered operator, an event reports that: such outputs show that the C computes what the
        expression says, not that the expression is right. Others report axes that become 1, branches that are never
        taken, and evaluators that do not agree on a quantised model.
        """
        from edgetune.frontend.onnx.custom import registered_in
        from edgetune.frontend.onnx.disagreement import evaluate_quantised
        from edgetune.frontend.onnx.reference import choose_evaluator, evaluate_model, is_quantised
        from edgetune.graph.evaluate import EVALUATOR, evaluate_program

        for message in self.model.settled:
            events(Event("warning", {"message": message}))
        custom = registered_in(self.model)
        if not custom and is_quantised(self.model):
            outputs, evaluator, said = evaluate_quantised(self.model, feeds)
            for message in said:
                events(Event("warning", {"message": message}))
            return [dict(each) for each in outputs], evaluator
        if not custom:
            return evaluate_model(self.model, feeds), choose_evaluator(self.model)
        message = (
            f"no evaluator of ONNX knows {', '.join(custom)}: the reference is the registered expression itself, "
            "computed by TVM's LLVM back end"
        )
        events(Event("warning", {"message": message}))
        return evaluate_program(program(), feeds), EVALUATOR

    def quantised_outputs(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, QuantisedOutput]:
        """The outputs of quantisation operators, and those that are computed in float from quantised tensors.

        With the disagreement of evaluators.
        """
        from edgetune.frontend.onnx.custom import registered_in
        from edgetune.frontend.onnx.disagreement import carried_steps, disagreement, known_steps
        from edgetune.frontend.onnx.reference import is_quantised

        if not is_quantised(self.model):
            return {}
        if registered_in(self.model):  # the program itself is the only evaluator
            return {name: QuantisedOutput(step.size) for name, step in known_steps(self.model).items()}
        steps = {**known_steps(self.model), **carried_steps(self.model, feeds)}
        if not steps:
            return {}
        found = disagreement(self.model, feeds, outputs, {name: step.size for name, step in steps.items()})
        return {
            name: QuantisedOutput(step.size, found[name].largest, found[name].share, step.behind, step.share)
            for name, step in steps.items()
        }

    def rounding(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, Rounding]:
        """By runs of perturbed models (`perturbed.rounded`); nothing for models with registered operators."""
        from edgetune.frontend.onnx.custom import registered_in
        from edgetune.frontend.onnx.disagreement import effect_of_rounding

        return {} if registered_in(self.model) else effect_of_rounding(self.model, feeds, outputs)

    def output_limits(self) -> Mapping[str, float]:
        """Of outputs that end in a Sigmoid, Softmax, Tanh, Erf or the like."""
        from edgetune.frontend.onnx.perturbed import ends

        return {name: end.magnitude for name, end in ends(self.model).items() if end.magnitude is not None}

    def outputs_in_double(self, feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]] | None:
        """Outputs of a copy of the model in double.

        None for quantised models, whose tolerance counts steps, and for models with registered operators, which have no
        other evaluator.
        """
        from edgetune.frontend.onnx.custom import registered_in
        from edgetune.frontend.onnx.double import evaluate_in_double
        from edgetune.frontend.onnx.reference import is_quantised

        if is_quantised(self.model) or registered_in(self.model):
            return None
        return evaluate_in_double(self.model, feeds)

    def import_departure(self, feed: Feed, allowed: Callable[[np.ndarray], Tolerance]) -> ImportDeparture | None:
        """The first node; none in a model with a registered operator, which has no other evaluator."""
        from edgetune.frontend.onnx.custom import registered_in
        from edgetune.frontend.onnx.inner_tensors import first_departure

        return None if registered_in(self.model) else first_departure(self.model, feed, allowed)
