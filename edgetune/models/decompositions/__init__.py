"""Operators that neither TVM nor ONNX's own function bodies cover, written out in simpler ONNX operators.

Enters: a node whose input shapes are known. Leaves: nodes of simpler operators. Knows nothing of Relax.
"""

from collections.abc import Callable

import onnx

from edgetune.models.decompositions.builder import Builder
from edgetune.models.decompositions.learning import adagrad, adam, array_feature_extractor, binarizer, momentum
from edgetune.models.decompositions.quantised import conv_integer, matmul_integer, qlinear_conv, qlinear_matmul
from edgetune.models.decompositions.recurrent import gru, lstm, rnn
from edgetune.models.decompositions.signal import dft, stft
from edgetune.models.decompositions.tensors import col2im, det, lp_normalization

DECOMPOSITIONS: dict[str, Callable[[Builder, onnx.NodeProto], None]] = {
    "Adagrad": adagrad,
    "Adam": adam,
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "Col2Im": col2im,
    "ConvInteger": conv_integer,
    "DFT": dft,
    "Det": det,
    "GRU": gru,
    "LSTM": lstm,
    "LpNormalization": lp_normalization,
    "MatMulInteger": matmul_integer,
    "Momentum": momentum,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "RNN": rnn,
    "STFT": stft,
}
