"""Reference outputs: computed by an ONNX evaluator, or by the program itself where only it knows an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgetune.events import Event
from edgetune.frontend.onnx.custom import registered_in
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import Arrays, choose_evaluator, evaluate_model
from edgetune.graph.evaluate import EVALUATOR, evaluate_program
from edgetune.graph.program import Program


def reference_outputs(
    model: OnnxModel, program: Callable[[], Program], feeds: Sequence[Arrays], events: Callable[[Event], None]
) -> tuple[list[dict[str, np.ndarray]], str]:
    """Outputs by name for each of `feeds` (inputs by name), and the name of the evaluator that computed them.

    For a model with a registered operator, its `program` computes them, and an event reports it: such outputs show that
    the C computes what the expression says, not that the expression is right. Raises ModelError when no evaluator can
    run the model.
    """
    custom = registered_in(model)
    if not custom:
        return evaluate_model(model, feeds), choose_evaluator(model)
    message = (
        f"no evaluator of ONNX knows {', '.join(custom)}: the reference is the registered expression itself, "
        "computed by TVM's LLVM back end"
    )
    events(Event("warning", {"message": message}))
    return evaluate_program(program(), feeds), EVALUATOR
