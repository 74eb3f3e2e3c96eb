"""Operators that neither TVM nor ONNX's own function bodies cover, written out in simpler ONNX operators.

Enters: a node whose input shapes are known. Leaves: nodes of simpler operators, or
False where the form of the operator at hand needs none. Knows nothing of Relax.
"""

from collections.abc import Callable

import onnx

from edgetune.frontend.decompositions.builder import Builder
from edgetune.frontend.decompositions.elementwise import is_inf, one_hot, pad, power, remainder
from edgetune.frontend.decompositions.learning import adagrad, adam, array_feature_extractor, binarizer, momentum
from edgetune.frontend.decompositions.quantised import conv_integer, matmul_integer, qlinear_conv, qlinear_matmul
from edgetune.frontend.decompositions.recurrent import gru, lstm, rnn
from edgetune.frontend.decompositions.resize import resize
from edgetune.frontend.decompositions.signal import dft, stft
from edgetune.frontend.decompositions.tensors import col2im, det, lp_normalization, slice_, space_to_depth, split
from edgetune.frontend.decompositions.training import batch_normalization, conv_transpose

DECOMPOSITIONS: dict[str, Callable[[Builder, onnx.NodeProto], bool | None]] = {
    "Adagrad": adagrad,
    "Adam": adam,
    "ArrayFeatureExtractor": array_feature_extractor,
    "BatchNormalization": batch_normalization,
    "Binarizer": binarizer,
    "Col2Im": col2im,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "DFT": dft,
    "Det": det,
    "GRU": gru,
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
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Upsample": resize,
}
