"""Converters from ONNX operators to Relax that take precedence over TVM's.

They write plain elementwise operators, so that layouts pass through and fusion sees them. A converter is TVM's
`OnnxOpConverter` with one `_impl_v<opset>` per version.
"""

from edgetune.models.converters.conversion import Cast
from edgetune.models.converters.elementwise import Clip, Dropout, Max, Mean, Min, Sum
from edgetune.models.converters.normalisation import BatchNormalization
from edgetune.models.converters.pooling import AveragePool, LpPool, MaxPool
from edgetune.models.converters.precise import Elu, MatMul, Selu
from edgetune.models.converters.quantisation import DequantizeLinear, QuantizeLinear
from edgetune.models.converters.rearranging import BitCast, DeformConv, ReverseSequence, TensorScatter
from edgetune.models.converters.reductions import ReduceMax, ReduceMin
from edgetune.models.converters.regions import RoiAlign
from edgetune.models.converters.remainder import Mod
from edgetune.models.converters.scans import CumProd, CumSum, TopK
from edgetune.models.converters.scattering import Scatter, ScatterElements, ScatterND

OWN_CONVERTERS: dict[str, type] = {
    converter.__name__: converter
    for converter in (
        *(
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
            LpPool,
            MatMul,
            MaxPool,
        ),
        *(
            Max,
            Mean,
            Min,
            QuantizeLinear,
            ReverseSequence,
            RoiAlign,
            Scatter,
            ScatterElements,
            ScatterND,
            Selu,
            Sum,
            TensorScatter,
            TopK,
        ),
    )
}

# How many outputs TVM's converters compute where ONNX defines more; 0: TVM's is another operator of that name.
# Nodes with more are replaced by their function bodies.
FEWER_OUTPUTS = {"Attention": 0, "LayerNormalization": 1, "RMSNormalization": 0}
