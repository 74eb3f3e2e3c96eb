"""Converters from ONNX operators to Relax that take precedence over TVM's.

They write plain elementwise operators, so that layouts pass through and fusion sees them. A converter is TVM's
`OnnxOpConverter` with one `_impl_v<opset>` per version.
"""

from edgetune.frontend.onnx.converters.accumulate_fp32 import Elu, MatMul, Selu
from edgetune.frontend.onnx.converters.box_selection import NonMaxSuppression
from edgetune.frontend.onnx.converters.conversion import Cast
from edgetune.frontend.onnx.converters.elementwise import Clip, Dropout, Max, Mean, Min, Sum, ThresholdedRelu
from edgetune.frontend.onnx.converters.fixed_point import FixedPointScale, FixedPointScaleOnce
from edgetune.frontend.onnx.converters.loops import ScanLoop
from edgetune.frontend.onnx.converters.normalisation import LRN, BatchNormalization
from edgetune.frontend.onnx.converters.pooling import AveragePool, LpPool, MaxPool
from edgetune.frontend.onnx.converters.positions import ArgMax, ArgMin
from edgetune.frontend.onnx.converters.quantisation import DequantizeLinear, QuantizeLinear
from edgetune.frontend.onnx.converters.rearranging import BitCast, DeformConv, ReverseSequence, TensorScatter
from edgetune.frontend.onnx.converters.reductions import ReduceMax, ReduceMin
from edgetune.frontend.onnx.converters.regions import RoiAlign
from edgetune.frontend.onnx.converters.remainder import Mod
from edgetune.frontend.onnx.converters.scans import CumProd, CumSum
from edgetune.frontend.onnx.converters.scattering import MaxUnpool, Scatter, ScatterElements, ScatterND
from edgetune.frontend.onnx.converters.sorting import TopK

OWN_CONVERTERS: dict[str, type] = {
    converter.__name__: converter
    for converter in (
        *(
            ArgMax,
            ArgMin,
            ReduceMax,
            ReduceMin,
            Mod,
            AveragePool,
            BatchNormalization,
            BitCast,
            Cast,
            Clip,
            CumProd,
            CumSum,
            DeformConv,
            DequantizeLinear,
            Dropout,
            Elu,
            FixedPointScale,
            FixedPointScaleOnce,
            LRN,
            LpPool,
            MatMul,
            MaxPool,
        ),
        *(
            Max,
            MaxUnpool,
            Mean,
            Min,
            NonMaxSuppression,
            QuantizeLinear,
            ReverseSequence,
            RoiAlign,
            ScanLoop,
            Scatter,
            ScatterElements,
            ScatterND,
            Selu,
            Sum,
            TensorScatter,
            ThresholdedRelu,
            TopK,
        ),
    )
}

# How many outputs TVM's converters compute where ONNX defines more; 0: TVM's is another operator of that name.
# Nodes with more are replaced by their function bodies.
FEWER_OUTPUTS = {"Attention": 0, "LayerNormalization": 1, "RMSNormalization": 0}
