"""Operators of ONNX Runtime, which its optimiser and its quantisers write, in operators of ONNX.

Enters: a node whose input shapes are known. Leaves: nodes that are valid in the model's own opset, as far as its types
allow, so that any evaluator of ONNX computes them. What each does is what ONNX Runtime's own kernel for CPUs does.
"""

from collections.abc import Callable

import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.onnx_runtime.attention import (
    attention,
    group_query_attention,
    multi_head_attention,
    qattention,
    rotary_embedding,
)
from edgetune.frontend.onnx.decompositions.onnx_runtime.embedding import (
    embed_layer_normalization,
    qembed_layer_normalization,
)
from edgetune.frontend.onnx.decompositions.onnx_runtime.fused import (
    bias_gelu,
    fast_gelu,
    fused_conv,
    fused_gemm,
    fused_matmul,
    gelu,
    layer_normalization,
    matmul_integer16,
    quick_gelu,
    simplified_layer_normalization,
    skip_layer_normalization,
    skip_simplified_layer_normalization,
)
from edgetune.frontend.onnx.decompositions.onnx_runtime.quantised import (
    dequantize_linear,
    nhwc_max_pool,
    qgemm,
    qlinear_add,
    qlinear_average_pool,
    qlinear_concat,
    qlinear_conv,
    qlinear_global_average_pool,
    qlinear_leaky_relu,
    qlinear_mul,
    qlinear_sigmoid,
    qlinear_softmax,
    qlinear_where,
    quantize_linear,
)
from edgetune.frontend.onnx.decompositions.onnx_runtime.quantised_matmul import (
    dynamic_quantize_matmul,
    matmul_integer_to_float,
    matmul_nbits,
)
from edgetune.frontend.onnx.decompositions.recurrent import dynamic_quantize_lstm
from edgetune.frontend.onnx.domains import DEFAULT_DOMAIN, ONNX_RUNTIME

Rule = Callable[[Builder, onnx.NodeProto], bool | None]

OF_ONNX_RUNTIME: dict[str, Rule] = {
    "Attention": attention,
    "BiasGelu": bias_gelu,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu": gelu,
    "GroupQueryAttention": group_query_attention,
    "LayerNormalization": layer_normalization,
    "MatMulInteger16": matmul_integer16,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MatMulNBits": matmul_nbits,
    "MultiHeadAttention": multi_head_attention,
    "NhwcMaxPool": nhwc_max_pool,
    "QAttention": qattention,
    "QEmbedLayerNormalization": qembed_layer_normalization,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearLeakyRelu": qlinear_leaky_relu,
    "QLinearMul": qlinear_mul,
    "QLinearSigmoid": qlinear_sigmoid,
    "QLinearSoftmax": qlinear_softmax,
    "QLinearWhere": qlinear_where,
    "QuantizeLinear": quantize_linear,
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": rotary_embedding,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
    "TransposeMatMul": fused_matmul,
}

_IN_THE_DOMAIN_OF_ONNX = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""Operators that ONNX Runtime puts into ONNX's own domain, where an opset of ONNX may not have them."""


def rule_of(node: onnx.NodeProto, opset: int) -> Rule | None:
    """The rule for an operator of ONNX Runtime in a model of that opset; None for any other."""
    if node.domain == ONNX_RUNTIME:
        return OF_ONNX_RUNTIME.get(node.op_type)
    if node.domain in DEFAULT_DOMAIN and node.op_type in _IN_THE_DOMAIN_OF_ONNX and not _is_defined(node, opset):
        return OF_ONNX_RUNTIME.get(node.op_type)
    return None


def _is_defined(node: onnx.NodeProto, opset: int) -> bool:
    try:
        onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        return False
    return True
