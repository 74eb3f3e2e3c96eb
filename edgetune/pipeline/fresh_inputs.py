"""Fresh test cases: new inputs that no package contains, with the outputs that a reference computes for them."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.frontend.model_format import Model, StoredModel
from edgetune.graph.program import TensorSpec
from edgetune.package.golden import Golden
from edgetune.pipeline.on_board import Events

FRESH_CASES = 2
_FRESH_SEED = 1_000_003


def model_of(stored: StoredModel, inputs: Sequence[TensorSpec]) -> Model:
    """Return `stored` with the shapes of a package's `inputs`. Raises ModelError and DynamicShape."""
    return stored.with_shapes({tensor.name: tensor.of_model().shape for tensor in inputs})


def fresh_goldens(model: Model, tensors: Sequence[TensorSpec], events: Events) -> tuple[list[Golden], str]:
    """Return cases in the layouts of a package's interface, and the name of the reference that computed them.

    `tensors` are the package's inputs and outputs. Raises ModelError and UnsupportedOperator.
    """
    feeds = model.sample_inputs(model.inputs, FRESH_CASES, _FRESH_SEED)
    outputs, reference = model.reference_outputs(feeds, model.program, events)
    layouts = {tensor.name: tensor.layout for tensor in tensors}
    return [Golden(i, o).exchanged(layouts) for i, o in zip(feeds, outputs, strict=True)], reference
