"""Chains of two for every operator that is decomposed on import, by us or by ONNX, and can follow itself."""

from __future__ import annotations

import numpy as np

from tests.conformance.chain import Chain, floats, ints, twice

_FLAT = "float32[2,3,4]"
_IMAGE = "float32[1,2,4,4]"

DECOMPOSED = (
    Chain(
        "Adagrad",
        (
            "a, p = ai.onnx.preview.training.Adagrad<decay_factor=0.1, epsilon=0.001>(r, n, x, g, s)",
            "b, q = ai.onnx.preview.training.Adagrad<decay_factor=0.1, epsilon=0.001>(r, n, a, g, p)",
        ),
        {"x": "float32[5]", "g": "float32[5]", "s": np.arange(1, 6, dtype="float32")},
        {"r": floats(0.1), "n": np.array(3, "int64")},
    ),
    Chain(
        "Adam",
        (
            "a, p, v = ai.onnx.preview.training.Adam<alpha=0.9, beta=0.99, epsilon=0.001>(r, n, x, g, m, s)",
            "b, q, w = ai.onnx.preview.training.Adam<alpha=0.9, beta=0.99, epsilon=0.001>(r, n, a, g, p, v)",
        ),
        {"x": "float32[5]", "g": "float32[5]", "m": "float32[5]", "s": np.arange(1, 6, dtype="float32")},
        {"r": floats(0.1), "n": np.array(3, "int64")},
    ),
    twice("ArrayFeatureExtractor", "ai.onnx.ml.ArrayFeatureExtractor(X, i)", "float32[3,4]", i=ints(2, 0, 1, 1)),
    Chain(
        "BatchNormalization in training",
        (
            "t, m, v = BatchNormalization<training_mode=1>(x, s, b, mean, variance)",
            "y, p, q = BatchNormalization<training_mode=1>(t, s, b, m, v)",
        ),
        {"x": "float32[2,3,4,4]"},
        {"s": floats(1, 2, 3), "b": "float32[3]", "mean": "float32[3]", "variance": floats(1, 2, 3)},
    ),
    twice("Binarizer", "ai.onnx.ml.Binarizer<threshold=0.2>(X)", _FLAT),
    twice("Col2Im", "Col2Im<pads=[1, 0]>(X, image, block)", "float32[1,4,4]", image=ints(4), block=ints(2)),
    twice("Compress", "Compress<axis=1>(X, c)", _FLAT, c=np.array([True, True])),
    twice(
        "ConvTranspose with output_shape",
        "ConvTranspose<strides=[1, 1], output_shape=[6, 6]>(X, w)",
        "float32[1,2,6,6]",
        by="onnxruntime",
        w="float32[2,2,3,3]",
    ),
    twice("DFT", "DFT(X, , axis)", "float32[1,6,2]", axis=np.array(1, "int64")),
    twice("DFT before 20", "DFT<axis=1, inverse=1>(X)", "float32[1,6,2]", 17),
    twice("Det", "Det(X)", "float32[3,3,2,2]"),
    Chain(
        "GRU",
        ("a, b = GRU<hidden_size=3>(x, w, r)", "t = Squeeze(a, one)", "y, z = GRU<hidden_size=3>(t, w, r)"),
        {"x": "float32[2,2,3]"},
        {"w": "float32[1,9,3]", "r": "float32[1,9,3]", "one": ints(1)},
    ),
    Chain(
        "LSTM",
        ("a, b, c = LSTM<hidden_size=3>(x, w, r)", "t = Squeeze(a, one)", "y, z, v = LSTM<hidden_size=3>(t, w, r)"),
        {"x": "float32[2,2,3]"},
        {"w": "float32[1,12,3]", "r": "float32[1,12,3]", "one": ints(1)},
    ),
    Chain(
        "RNN",
        ("a, b = RNN<hidden_size=3>(x, w, r)", "t = Squeeze(a, one)", "y, z = RNN<hidden_size=3>(t, w, r)"),
        {"x": "float32[2,2,3]"},
        {"w": "float32[1,3,3]", "r": "float32[1,3,3]", "one": ints(1)},
    ),
    twice(
        "GroupNormalization",
        "GroupNormalization<num_groups=2>(X, s, b)",
        "float32[1,4,3,3]",
        s="float32[4]",
        b="float32[4]",
    ),
    twice("LpNormalization", "LpNormalization<axis=-1, p=2>(X)", _FLAT),
    twice(
        "LpNormalization of sums", "LpNormalization<axis=1, p=1>(X)", np.arange(1, 13, dtype="float32").reshape(3, 4)
    ),
    twice("Mod of floats", "Mod(X, d)", _FLAT, 26, d=floats(1.5, -0.7, 2, -3)),
    Chain(
        "Momentum",
        tuple(
            f"{made} = ai.onnx.preview.training.Momentum"
            f'<alpha=0.95, beta=0.1, mode="{mode}", norm_coefficient=0.001>(r, n, {read})'
            for made, mode, read in (("a, p", "nesterov", "x, g, v"), ("b, q", "standard", "a, g, p"))
        ),
        {"x": "float32[5]", "g": "float32[5]", "v": "float32[5]"},
        {"r": floats(0.1), "n": np.array(3, "int64")},
    ),
    twice(
        "OneHot",
        "OneHot<axis=1>(X, depth, v)",
        np.array([[0, -1], [2, 5]]),
        depth=np.array(3, "int64"),
        v=ints(2, 1),
    ),
    Chain(
        "Pad with a value at run time",
        ("t = Pad(x, pads, v)", "y = Pad(t, pads, v)"),
        {"x": "float32[2,3]", "v": floats(0.5)},
        {"pads": ints(1, 0, 0, 2)},
    ),
    twice("Pow of integers", "Pow(X, e)", np.array([-3, 0, 2, 5], "int32"), e=np.array([2, 1, 3, 2], "int32")),
    twice("Pow of two types", "Pow(X, e)", floats(1.5, 2, 0.5), e=ints(2, 3, 1)),
    twice("Resize linear", 'Resize<mode="linear", antialias=1>(X, , s)', _IMAGE, s=floats(1, 1, 0.75, 1.5)),
    twice("Resize cubic", 'Resize<mode="cubic", axes=[3, 2]>(X, , s)', _IMAGE, s=floats(1.3, 0.8)),
    twice(
        "Resize nearest",
        'Resize<mode="nearest", keep_aspect_ratio_policy="not_larger">(X, , , n)',
        _IMAGE,
        n=ints(1, 2, 7, 9),
    ),
    twice(
        "Resize cropped",
        'Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize", axes=[2, 3]>(X, roi, , n)',
        _IMAGE,
        roi=floats(0.1, 0.2, 0.9, 1.3),
        n=ints(5, 3),
    ),
    twice("Resize before 11", 'Resize<mode="linear">(X, s)', _IMAGE, 10, by="onnxruntime", s=floats(1, 1, 1.5, 2)),
    twice("Upsample", 'Upsample<mode="nearest">(X, s)', _IMAGE, 9, s=floats(1, 1, 2, 3)),
    twice(
        "Slice from before the start",
        "Slice(X, b, e, a, s)",
        "float32[8,9]",
        b=ints(-1, -99),
        e=ints(-99, 99),
        a=ints(1, 0),
        s=ints(-2, 1),
    ),
    twice("SpaceToDepth", 'SpaceToDepth<blocksize=2, mode="CRD">(X)', "float32[1,2,4,8]", 28),
    Chain(
        "Split with an empty part",
        ("t, e = Split<axis=1>(x, n)", "y, f = Split<axis=1>(t, n)"),
        {"x": "float32[2,3]"},
        {"n": ints(3, 0)},
    ),
)

FUNCTIONS = (
    Chain(
        "Attention",
        ("t = Attention(x, k, v)", "y = Attention<is_causal=1>(t, k, v)"),
        {"x": "float32[1,2,3,4]", "k": "float32[1,2,5,4]", "v": "float32[1,2,5,4]"},
        opset=24,
    ),
    Chain(
        "CausalConvWithState",
        tuple(
            f'{made} = CausalConvWithState<activation="silu">({read})'
            for made, read in (("t, p", "x, w, b, s"), ("y, q", "t, w, b, p"))
        ),
        {"x": "float32[2,3,5]", "s": "float32[2,3,2]"},
        {"w": "float32[3,1,3]", "b": "float32[3]"},
        27,
    ),
    twice("Celu", "Celu<alpha=2.0>(X)", _FLAT),
    twice("CenterCropPad", "CenterCropPad(X, n)", "float32[4,7]", n=ints(6, 3)),
    Chain(
        "FlexAttention",
        ("t = ai.onnx.preview.FlexAttention(x, k, v)", "y = ai.onnx.preview.FlexAttention(t, k, v)"),
        {"x": "float32[1,2,3,4]", "k": "float32[1,2,5,4]", "v": "float32[1,2,5,4]"},
        opset=26,
    ),
    Chain(
        "LayerNormalization with its statistics",
        ("t, m, d = LayerNormalization(x, s)", "y, n, e = LayerNormalization(t, s)"),
        {"x": _FLAT},
        {"s": "float32[4]"},
    ),
    Chain(
        "LinearAttention",
        (
            't, p = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">(x, k, v, s)',
            'y, q = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">(t, k, v, p)',
        ),
        {"x": "float32[1,3,8]", "k": "float32[1,3,8]", "v": "float32[1,3,8]", "s": "float32[1,2,4,4]"},
        opset=27,
    ),
    twice("RMSNormalization", "RMSNormalization(X, s)", _FLAT, 24, s="float32[4]"),
    twice(
        "RotaryEmbedding", "RotaryEmbedding(X, c, s)", "float32[1,2,3,4]", 24, c="float32[1,3,2]", s="float32[1,3,2]"
    ),
    twice("SwiGLU", "SwiGLU(X, g)", _FLAT, 28, g=_FLAT),
    twice("Swish", "Swish<alpha=1.5>(X)", _FLAT, 24),
)

CONTROL = (
    Chain(
        "If",
        tuple(
            f"{made} = If (c) <then_branch = yes () => (float[2] {made}1) {{ {made}1 = Sin({read}) }}, "
            f"else_branch = no () => (float[2] {made}2) {{ {made}2 = Cos({read}) }}>"
            for made, read in (("t", "x"), ("y", "t"))
        ),
        {"x": "float32[2]", "c": np.array(True)},
    ),
    Chain(
        "Loop",
        tuple(
            f"{made} = Loop (n, c, {read}) <body = once (int64 i{made}, bool g{made}, float[2] v{made}) "
            f"=> (bool h{made}, float[2] w{made}) {{ h{made} = Identity(g{made}) w{made} = Sin(v{made}) }}>"
            for made, read in (("t", "x"), ("y", "t"))
        ),
        {"x": "float32[2]"},
        {"n": np.array(3, "int64"), "c": np.array(True)},
    ),
    Chain(
        "Scan",
        tuple(
            f"{made} = Scan ({read}) <num_scan_inputs = 1, body = once (float[2] v{made}) "
            f"=> (float[2] w{made}) {{ w{made} = Sin(v{made}) }}>"
            for made, read in (("t", "x"), ("y", "t"))
        ),
        {"x": "float32[3,2]"},
    ),
)


ALONE = {
    "Bernoulli": "draws at random",
    "BlackmanWindow": "takes a size, gives values",
    "ConcatFromSequence": "takes or gives a sequence",
    "HammingWindow": "takes a size, gives values",
    "HannWindow": "takes a size, gives values",
    "Identity": "is a wire, except of a sequence",
    "IsInf": "takes floats, gives bool",
    "NegativeLogLikelihoodLoss": "takes a score for each class, gives a loss",
    "STFT": "takes a signal of three axes, gives four",
    "SequenceAt": "takes or gives a sequence",
    "SequenceConstruct": "takes or gives a sequence",
    "SequenceEmpty": "takes or gives a sequence",
    "SequenceErase": "takes or gives a sequence",
    "SequenceInsert": "takes or gives a sequence",
    "SequenceLength": "takes or gives a sequence",
    "SequenceMap": "takes and gives sequences",
    "SoftmaxCrossEntropyLoss": "takes a score for each class, gives a loss",
    "SplitToSequence": "takes or gives a sequence",
}
"""Operators that are decomposed and cannot follow themselves: why."""
