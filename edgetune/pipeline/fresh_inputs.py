"""Fresh test cases: new inputs that no package contains, with the outputs that a reference computes for them."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, StoredModel, with_shapes
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.partition import to_program
from edgetune.graph.program import TensorSpec
from edgetune.package.golden import Golden
from edgetune.pipeline.on_board import Events
from edgetune.pipeline.reference_outputs import reference_outputs

FRESH_CASES = 2
_FRESH_SEED = 1_000_003


def model_of(stored: StoredModel, inputs: Sequence[TensorSpec]) -> OnnxModel:
    """Return `stored` with the shapes of a package's `inputs`. Raises ModelError and DynamicShape."""
    return with_shapes(stored, {tensor.name: tensor.of_model().shape for tensor in inputs})


def fresh_goldens(read: OnnxModel, tensors: Sequence[TensorSpec], events: Events) -> tuple[list[Golden], str]:
    """Return cases in the layouts of a package's interface, and the name of the reference that computed them.

    `tensors` are the package's inputs and outputs. Raises ModelError and UnsupportedOperator.
    """
    imported = import_onnx(read)
    feeds = sample_inputs(read, imported.inputs, FRESH_CASES, _FRESH_SEED)
    outputs, reference = reference_outputs(read, lambda: to_program(imported), feeds, events)
    layouts = {tensor.name: tensor.layout for tensor in tensors}
    return [Golden(i, o).exchanged(layouts) for i, o in zip(feeds, outputs, strict=True)], reference
