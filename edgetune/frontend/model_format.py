"""Model formats: what edgetune asks of a format, of a model as it is stored, and of one whose input shapes are fixed.

A format is a member of the registry `edgetune.model_formats`. Every member is asked whether a file is one of its
models, even where only a wrong path is to be refused, so a member imports TVM and other large modules in its methods.
A class that derives from a protocol of this file inherits the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from edgetune.config.model_file import not_a_file
from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.graph.ways import USUAL, Ways

if TYPE_CHECKING:
    import numpy as np

    from edgetune.config.input_stream import InputStream
    from edgetune.frontend.model_facts import InterfaceTensor, ModelFacts
    from edgetune.graph.accuracy import Tolerance
    from edgetune.graph.program import Program, TensorSpec
    from edgetune.graph.stream import WindowStream
    from edgetune.target.preferences import Layout

ModelSource: TypeAlias = Any
"""The path of a model file, or an object of Python that only its format knows."""

Shapes = Mapping[str, tuple[int, ...]]
AxisSizes = Mapping[str, int]
"""Sizes of open axes by their symbols in the file, for all inputs that have them."""
OpenShape = tuple[int | str, ...]
"""A shape as a file states it: an open dimension is its symbol, or "?"."""

Interface: TypeAlias = "tuple[tuple[InterfaceTensor, ...], tuple[InterfaceTensor, ...]]"
"""Inputs and outputs of a model."""

Feed = Mapping[str, "np.ndarray"]
"""Arrays by the model's names of inputs or outputs."""


@dataclass(frozen=True, eq=False)
class ModelInPython:
    """An object of Python that computes a model, of a class that only its format knows (`edgetune.load`).

    `example_inputs` show how it is called, where the object does not say: their shapes and types are the model's.
    """

    model: Any
    example_inputs: Any = None


class Recognition(IntEnum):
    """How sure a format is that something is a model of its own. The surest format reads it."""

    NONE = 0
    POSSIBLE = 1  # nothing speaks against it; the format names the mistake where there is one
    CERTAIN = 2  # its first bytes, its suffix or its class are those of the format


@dataclass(frozen=True)
class QuantisedOutput:
    """One step of an output that quantisation makes, in the output's own unit.

    `disagreement` is by how much valid evaluators of the model differ there, in the same unit, and `disagreeing` is the
    share (0 to 1) of elements in which they do. Where operators compute the output in float from `behind` quantised
    tensors, its step is what moving each of their elements by one step does to it, in a share `moving` of its elements.
    """

    step: float
    disagreement: float = 0.0
    disagreeing: float = 0.0
    behind: int = 0
    moving: float = 1.0


@dataclass(frozen=True)
class Rounding:
    """What rounding each inner tensor of a model by one unit in the last place, at random, does to an output.

    `largest` is the largest difference, of floats as a share of the largest magnitude of the reference, `share` the
    share (0 to 1) of elements that differ. Both are of the worst run.
    """

    largest: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class ImportDeparture:
    """A node of the model whose result the imported model computes otherwise than `reference`, from equal inputs.

    `place` is the node in words, `tensor` its result, off by the share `relative` of its largest magnitude; at most the
    share `allowed` was.
    """

    place: str
    tensor: str
    relative: float
    allowed: float
    reference: str


@dataclass(frozen=True, eq=False)
class ModelState:
    """An input and the output that it becomes in the next run, and what it is in the first one, in the model's axes."""

    name_in: str
    name_out: str
    first: np.ndarray


class Model(Protocol):
    """A model with fixed input shapes. Feeds and outputs have the axes of the model, whatever the package has."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs, as the model has them; raises UnsupportedOperator where this process lacks an operator."""

    def interface(self) -> Interface | None:
        """The inputs and outputs, as the file states them and without an import.

        None, which is the default, where models of the format keep no states.
        """
        return None

    def states(self) -> Sequence[ModelState]:
        """The states that the model itself declares; none by default."""
        return ()

    def stepped(self, streams: Mapping[str, InputStream], reference: Model | None = None, sha256: str = "") -> Model:
        """The model of one step, for inputs that are `streams`; it declares the rows that it keeps as `states`.

        `reference` is a model of the window that says what is right, and `sha256` the hash by which packages know the
        model; by default, both are this model's own.
        Raises ModelError where `streams` names what the model has not, and UnsupportedOperator for nodes without a
        step. By default, models have no steps.
        """
        del reference, sha256
        raise ModelError(
            f"--stream names '{next(iter(streams))}', but models of this format have no steps: leave it out"
        )

    def stream(self) -> WindowStream | None:
        """What a model that `stepped` made knows of its window, None for all others."""
        return None

    def channels_last(self, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
        """Names of the inputs and outputs (N, C, ...) that the package is to have as (N, ..., C).

        `layout` is for all images, `layouts` for single tensors by name. By default there are none. Raises ModelError
        for a tensor that is unknown or cannot have that layout.
        """
        del layout
        if layouts:
            name = next(iter(layouts))
            raise ModelError(f"a layout is given for {name!r}, but models of this format keep their axes: leave it out")
        return frozenset()

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """The kernels and their calls, with those inputs and outputs channels last.

        `states` are inputs and the outputs that become them (`graph.states.with_states`): given where there are any.
        `ways` are the graph passes that not every package has.
        The program carries the model's name and its SHA-256. Raises ModelError and UnsupportedOperator.
        """

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """`count` feeds of the model's `inputs`; the same seed gives the same values."""
        from edgetune.frontend.sample_values import sample_values

        return sample_values(inputs, count, seed)

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs for each of `feeds`, and the name of the evaluator that computed them.

        An evaluator other than edgetune shows most. Where there is none, `edgetune.graph.evaluate` runs `program`, the
        one of this model with its own axes. Raises ModelError when the model cannot be evaluated.
        """

    def sequence_outputs(
        self,
        feeds: Sequence[Feed],
        first: Feed,
        states: Mapping[str, str],
        program: Callable[[], Program],
        events: Callable[[Event], None],
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Outputs of runs one after another, and the evaluator: as `reference_outputs`, with outputs fed back.

        `first` are the states of the first run, `states` the inputs that outputs become, by name; `feeds` are the other
        inputs.
        """
        kept, found, evaluator = dict(first), [], ""
        said: list[Event] = []

        def once(event: Event) -> None:
            if event not in said:
                said.append(event)
                events(event)

        for feed in feeds:
            outputs, evaluator = self.reference_outputs([{**feed, **kept}], program, once)
            found += outputs
            kept = {name_in: outputs[0][name_out] for name_in, name_out in states.items()}
        return found, evaluator

    def quantised_outputs(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, QuantisedOutput]:
        """The outputs that are compared in quantisation steps, by name; `outputs` are the reference's for `feeds`."""
        del feeds, outputs
        return {}

    def rounding(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, Rounding]:
        """What rounding does to each output, in seeded runs; `outputs` are the reference's for `feeds`.

        By default nothing is known. Raises ModelError where it was to be known and no evaluator runs the model.
        """
        del feeds, outputs
        return {}

    def output_limits(self) -> Mapping[str, float]:
        """The largest magnitudes that outputs can have by their operators, such as 1 after a Sigmoid, where known."""
        return {}

    def outputs_in_double(self, feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]] | None:
        """Outputs without the rounding of float32, which judge the reference itself; None where nothing computes them.

        Raises ModelError where double was to be used and cannot be.
        """
        del feeds
        return None

    def import_departure(self, feed: Feed, allowed: Callable[[np.ndarray], Tolerance]) -> ImportDeparture | None:
        """The first node that the imported model computes otherwise than the reference, from equal inputs.

        `allowed` gives the tolerance for a result, from its reference. None where no node is seen to depart.
        """
        del feed, allowed
        return None


class TranslatedModel(Model, Protocol):
    """A model that is one of another format, `translation`, apart from what its class says of it."""

    @property
    def translation(self) -> Model:
        """The same model in the other format, with equal names of inputs and outputs."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """Those of the translation."""
        return self.translation.inputs

    def interface(self) -> Interface | None:
        """That of the translation."""
        return self.translation.interface()

    def channels_last(self, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
        """Those of the translation."""
        return self.translation.channels_last(layout, layouts)

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """Feeds of the translation."""
        return self.translation.sample_inputs(inputs, count, seed)

    def quantised_outputs(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, QuantisedOutput]:
        """Steps of the translation; how far its evaluators and the reference differ counts as their disagreement."""
        return self.translation.quantised_outputs(feeds, outputs)

    def rounding(self, feeds: Sequence[Feed], outputs: Sequence[Feed]) -> Mapping[str, Rounding]:
        """What rounding does to the translation."""
        return self.translation.rounding(feeds, outputs)

    def output_limits(self) -> Mapping[str, float]:
        """Limits by the operators of the translation."""
        return self.translation.output_limits()

    def outputs_in_double(self, feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]] | None:
        """Those of the translation."""
        return self.translation.outputs_in_double(feeds)

    def import_departure(self, feed: Feed, allowed: Callable[[np.ndarray], Tolerance]) -> ImportDeparture | None:
        """The first node of the translation that departs from the evaluators of its format."""
        return self.translation.import_departure(feed, allowed)


class StoredModel(Protocol):
    """A model as read, before its open input shapes are fixed."""

    @property
    def sha256(self) -> str:
        """The hash by which packages know the model, in hex."""

    def with_shapes(self, shapes: Shapes) -> Model:
        """The model with these shapes of inputs, by name.

        Raises ModelError for a shape that contradicts the model, and DynamicShape where a size stays open.
        """

    def with_axes(self, shapes: Shapes, sizes: AxisSizes) -> Model:
        """The model with these shapes of inputs, and these sizes of axes that the file names; raises as `with_shapes`.

        By default, models have no names of axes.
        """
        if sizes:
            name = next(iter(sizes))
            raise ModelError(f"--dim names {name!r}, but models of this format name no axes: give --shape")
        return self.with_shapes(shapes)

    def facts(self, shapes: Shapes, sizes: AxisSizes) -> ModelFacts:
        """What the model is and needs, without a build, with these shapes of inputs and sizes of axes.

        Shapes that stay open and nodes that cannot be imported are facts too, where the format knows them. By default,
        the facts are those of the program. Raises ModelError, and where they are no facts, DynamicShape and
        UnsupportedOperator.
        """
        from edgetune.frontend.model_facts import facts_of_program

        return facts_of_program(self.with_axes(shapes, sizes).program())


class ModelFormat(Protocol):
    """A way in which models come: a kind of file, or a class of Python objects."""

    def recognises(self, source: ModelSource) -> Recognition:
        """How surely `source`, which need not exist, is a model of this format; raises nothing and reads little."""

    def require(self, source: ModelSource, origin: str = "") -> None:
        """Raises ModelError unless `source` may be read; `origin` says where it was given.

        It runs before anything else, so it is quick. By default, it refuses what is not a file.
        """
        complaint = not_a_file(source)
        if complaint is not None:
            raise ModelError(f"{source} {complaint}: give the path of a model file{f' ({origin})' if origin else ''}")

    def signature(self, source: ModelSource) -> Mapping[str, OpenShape]:
        """Shapes of the inputs by name, in the model's order; raises ModelError where `source` cannot be read."""

    def read(self, source: ModelSource) -> StoredModel:
        """Reads `source`; raises ModelError where it cannot be read, or is not valid."""

    def register_operator(self, name: str, expression: Callable[..., Any]) -> None:
        """From now on, models may use the operator `name`, which `expression` computes (`edgetune.register_operator`).

        By default, nothing happens: models of the format have no operators by name. Raises UsageError where the name is
        an operator already.
        """
        del name, expression
