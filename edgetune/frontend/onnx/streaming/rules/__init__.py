"""What becomes of each operator in a step model, by its name.

Enters: a node of the window model that reads a value with a time axis. Leaves: nodes of the step, and the frames of its
outputs. A rule raises UnsupportedOperator, with a sentence that goes on from operator and node, where there is no step.
"""

from collections.abc import Mapping

from edgetune.frontend.onnx.streaming.rules.arranging import ARRANGING
from edgetune.frontend.onnx.streaming.rules.attributes import Rule
from edgetune.frontend.onnx.streaming.rules.einsum import EINSUM
from edgetune.frontend.onnx.streaming.rules.elementwise import ELEMENTWISE
from edgetune.frontend.onnx.streaming.rules.matrix_products import PRODUCTS
from edgetune.frontend.onnx.streaming.rules.normalising import NORMALISING
from edgetune.frontend.onnx.streaming.rules.recurrent import RECURRENT
from edgetune.frontend.onnx.streaming.rules.selecting import SELECTING
from edgetune.frontend.onnx.streaming.rules.sliding import SLIDING

RULES: Mapping[str, Rule] = {
    **ARRANGING,
    **EINSUM,
    **ELEMENTWISE,
    **NORMALISING,
    **PRODUCTS,
    **RECURRENT,
    **SELECTING,
    **SLIDING,
}
