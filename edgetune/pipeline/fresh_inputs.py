"""Fresh test cases: new inputs that no package contains, with the outputs that a reference computes for them."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.config.input_stream import InputStream
from edgetune.errors import ModelError, PackageInvalid
from edgetune.frontend.model_format import Model, StoredModel
from edgetune.graph.program import StateTensor, TensorSpec
from edgetune.graph.stream import WindowStream
from edgetune.package.golden import Golden
from edgetune.package.manifest import MANIFEST
from edgetune.pipeline.on_board import Events
from edgetune.pipeline.sequences import golden_cases, stream_lengths

FRESH_CASES = 2
FRESH_STATE_CASES = (2, 2)
"""Of a model with states: two sequences."""
_FRESH_SEED = 1_000_003


def model_of(
    stored: StoredModel,
    inputs: Sequence[TensorSpec],
    states: Sequence[StateTensor] = (),
    stream: WindowStream | None = None,
) -> Model:
    """Return `stored` with the shapes of a package's `inputs` and `states`, or its step for a `stream`.

    Raises PackageInvalid where the model has other inputs, and what `StoredModel.with_shapes` and `Model.stepped`
    raise.
    """
    shapes = {tensor.name: tensor.of_model().shape for tensor in inputs}
    streams = {} if stream is None else {one.name: InputStream(one.axis, one.hop) for one in stream.inputs}
    if stream is None:
        shapes |= {state.name_in: state.ends[0].of_model().shape for state in states}
    else:
        for one in stream.inputs:
            shape = shapes[one.name]
            shapes[one.name] = (*shape[: one.axis], one.window, *shape[one.axis + 1 :])
    try:
        model = stored.with_shapes(shapes)
        return model.stepped(streams) if streams else model
    except ModelError as error:
        if not error.of_inputs:
            raise
        shown = ", ".join(f"{name!r} of {'x'.join(map(str, shape)) or 'a scalar'}" for name, shape in shapes.items())
        raise PackageInvalid(
            f"{MANIFEST} makes the inputs of the model {shown}, which they are not: write it again with "
            "`edgetune build`"
        ) from None


def fresh_goldens(
    model: Model, tensors: Sequence[TensorSpec], events: Events, states: Sequence[StateTensor] = ()
) -> tuple[list[Golden], str]:
    """Return cases in the layouts of a package's interface, and the name of the reference that computed them.

    `tensors` are the package's inputs and outputs, `states` what it keeps. Raises ModelError and UnsupportedOperator.
    """
    kept = {state.name_in for state in states}
    inputs = [tensor for tensor in model.inputs if tensor.name not in kept]
    stream = model.stream()
    lengths = stream_lengths(stream) if stream else FRESH_STATE_CASES if states else (FRESH_CASES,)
    cases, reference = golden_cases(model, inputs, states, lengths, _FRESH_SEED, model.program, events)
    layouts = {tensor.name: tensor.layout for tensor in (*tensors, *(end for state in states for end in state.ends))}
    return [case.exchanged(layouts) for case in cases], reference
