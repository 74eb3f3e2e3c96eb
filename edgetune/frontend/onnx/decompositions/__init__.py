"""Operators that neither TVM nor ONNX's own function bodies cover, written out in simpler ONNX operators.

Enters: a node whose input shapes are known. Leaves: nodes of simpler operators, or
False where the form of the operator at hand needs none. Knows nothing of Relax.
"""

from collections.abc import Callable

import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.elementwise import compress, is_inf, one_hot, pad, power, remainder
from edgetune.frontend.onnx.decompositions.learning import adagrad, adam, array_feature_extractor, binarizer, momentum
from edgetune.frontend.onnx.decompositions.quantised import conv_integer, matmul_integer, qlinear_conv, qlinear_matmul
from edgetune.frontend.onnx.decompositions.recurrent import gru, lstm, rnn
from edgetune.frontend.onnx.decompositions.resize import resize
from edgetune.frontend.onnx.decompositions.sequences import (
    concat_from_sequence,
    identity,
    sequence_at,
    sequence_construct,
    sequence_erase,
    sequence_insert,
    sequence_length,
    split_to_sequence,
)
from edgetune.frontend.onnx.decompositions.signal import dft, stft
from edgetune.frontend.onnx.decompositions.tensors import (
    col2im,
    det,
    group_normalization,
    lp_normalization,
    slice_,
    space_to_depth,
    split,
)
from edgetune.frontend.onnx.decompositions.training import batch_normalization
from edgetune.frontend.onnx.decompositions.transposed_convolution import conv_transpose

DECOMPOSITIONS: dict[str, Callable[[Builder, onnx.NodeProto], bool | None]] = {
    "Adagrad": adagrad,
    "Adam": adam,
    "ArrayFeatureExtractor": array_feature_extractor,
    "BatchNormalization": batch_normalization,
    "Binarizer": binarizer,
    "Col2Im": col2im,
    "Compress": compress,
    "ConcatFromSequence": concat_from_sequence,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "DFT": dft,
    "Det": det,
    "GRU": gru,
    "Identity": identity,
    "GroupNormalization": group_normalization,
    "IsInf": is_inf,
    "LSTM": lstm,
    "LpNormalization": lp_normalization,
    "MatMulInteger": matmul_integer,
    "Mod": remainder,
    "Momentum": momentum,
    "OneHot": one_hot,
    "Pad": pad,
    "Pow": power,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "RNN": rnn,
    "Resize": resize,
    "STFT": stft,
    "SequenceAt": sequence_at,
    "SequenceConstruct": sequence_construct,
    "SequenceEmpty": sequence_construct,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": sequence_length,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "SplitToSequence": split_to_sequence,
    "Upsample": resize,
}
