"""Converters from ONNX operators to Relax that take precedence over TVM's.

They write plain elementwise operators, so that layouts pass through and fusion sees them. A converter is TVM's
`OnnxOpConverter` with one `_impl_v<opset>` per version.
"""

from edgetune.models.converters.elementwise import Clip, Dropout, Max, Mean, Min, Sum
from edgetune.models.converters.normalisation import BatchNormalization
from edgetune.models.converters.quantisation import DequantizeLinear, QuantizeLinear

OWN_CONVERTERS: dict[str, type] = {
    converter.__name__: converter
    for converter in (BatchNormalization, Clip, DequantizeLinear, Dropout, Max, Mean, Min, QuantizeLinear, Sum)
}
