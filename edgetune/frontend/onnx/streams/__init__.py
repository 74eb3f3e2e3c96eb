"""Networks that were trained on a window of frames, as models of one step that gets the next frames.

Enters: an ONNX model of fixed shapes, and which inputs are streams. Leaves: an ONNX model of one step, its states, and
after how many frames its outputs count.
"""

from edgetune.frontend.onnx.streams.frames import OutputFrames, State, StepModel, Stream
from edgetune.frontend.onnx.streams.transformation import StepCosts, step_costs, step_model

__all__ = ["OutputFrames", "State", "StepCosts", "StepModel", "Stream", "step_costs", "step_model"]
