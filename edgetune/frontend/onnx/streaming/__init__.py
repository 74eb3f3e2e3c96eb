"""Networks that were trained on a window of frames, as models of one step that gets the next frames.

Enters: an ONNX model of fixed shapes, and which inputs are streams. Leaves: an ONNX model of one step, its states, and
of which frames its outputs are.
"""

from edgetune.config.input_stream import InputStream
from edgetune.frontend.onnx.streaming.frames import OutputFrames, StepModel
from edgetune.frontend.onnx.streaming.transformation import step_model

__all__ = ["InputStream", "OutputFrames", "StepModel", "step_model"]
