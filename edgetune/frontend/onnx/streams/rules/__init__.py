"""What becomes of each operator in a step model, by its name.

Enters: a node of the window model that reads a value with a time axis. Leaves: nodes of the step, and the frames of its
outputs. A rule raises UnsupportedOperator, with a sentence that goes on from operator and node, where there is no step.
"""

from collections.abc import Callable, Mapping

import onnx

from edgetune.frontend.onnx.streams.rules.arranging import ARRANGING
from edgetune.frontend.onnx.streams.rules.elementwise import ELEMENTWISE
from edgetune.frontend.onnx.streams.rules.normalising import NORMALISING
from edgetune.frontend.onnx.streams.rules.products import PRODUCTS
from edgetune.frontend.onnx.streams.rules.recurrent import RECURRENT
from edgetune.frontend.onnx.streams.rules.selecting import SELECTING
from edgetune.frontend.onnx.streams.rules.sliding import SLIDING
from edgetune.frontend.onnx.streams.step import Step

RULES: Mapping[str, Callable[[Step, onnx.NodeProto], None]] = {
    **ARRANGING,
    **ELEMENTWISE,
    **NORMALISING,
    **PRODUCTS,
    **RECURRENT,
    **SELECTING,
    **SLIDING,
}
