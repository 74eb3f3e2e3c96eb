"""Fresh test cases: new inputs that no package contains, with the outputs that a reference computes for them."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.frontend.model_format import Model, StoredModel
from edgetune.graph.program import StateTensor, TensorSpec
from edgetune.package.golden import Golden
from edgetune.pipeline.on_board import Events
from edgetune.pipeline.sequences import golden_cases

FRESH_CASES = 2
FRESH_STATE_CASES = 4
"""Of a model with states: two sequences."""
_FRESH_SEED = 1_000_003


def model_of(stored: StoredModel, inputs: Sequence[TensorSpec], states: Sequence[StateTensor] = ()) -> Model:
    """Return `stored` with the shapes of a package's `inputs` and `states`. Raises ModelError and DynamicShape."""
    tensors = (*inputs, *(state.ends[0] for state in states))
    return stored.with_shapes({tensor.name: tensor.of_model().shape for tensor in tensors})


def fresh_goldens(
    model: Model, tensors: Sequence[TensorSpec], events: Events, states: Sequence[StateTensor] = ()
) -> tuple[list[Golden], str]:
    """Return cases in the layouts of a package's interface, and the name of the reference that computed them.

    `tensors` are the package's inputs and outputs, `states` what it keeps. Raises ModelError and UnsupportedOperator.
    """
    kept = {state.name_in for state in states}
    inputs = [tensor for tensor in model.inputs if tensor.name not in kept]
    drawn = (FRESH_STATE_CASES if states else FRESH_CASES, _FRESH_SEED)
    cases, reference = golden_cases(model, inputs, states, drawn, model.program, events)
    layouts = {tensor.name: tensor.layout for tensor in (*tensors, *(end for state in states for end in state.ends))}
    return [case.exchanged(layouts) for case in cases], reference
