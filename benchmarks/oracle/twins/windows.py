"""Convolutions, pooling, resizing and filters as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.oracle.twins.graph import Build, Graph


def _channels_first(rank: int) -> list[int]:
    return [0, rank + 1, *range(1, rank + 1)]


def _channels_last(rank: int) -> list[int]:
    return [0, *range(2, rank + 2), 1]


def _convolution(stride: int, padding: int, dilation: int = 1, groups: int = 1) -> Build:
    """A convolution of images with channels last; its weights (taps, inner, outer) are turned at build time.

    Three constants after the weights are a bias, and the scale and offset of a batch normalisation before a ReLU.
    """

    def build(g: Graph) -> str:
        rank = len(g.shape("x")) - 2
        kernel = g.weights("w").transpose(rank + 1, rank, *range(rank)).copy()
        after = [g.weights(name) for name in ("bias", "scale", "offset") if name in g.case.constants]
        found = g(
            "Conv",
            g("Transpose", "x", perm=_channels_first(rank)),
            kernel,
            *after[:1],
            strides=[stride] * rank,
            pads=[padding] * (2 * rank),
            dilations=[dilation] * rank,
            group=groups,
        )
        if after:
            bias, scale, offset = after
            plain = (np.zeros_like(bias), np.ones_like(bias))
            found = g("Relu", g("BatchNormalization", found, scale, offset, *plain, epsilon=0.0))
        return g("Transpose", found, perm=_channels_last(rank))

    return build


def _depthwise(stride: int, padding: int) -> Build:
    def build(g: Graph) -> str:
        kernel = g.weights("w").transpose(2, 0, 1)[:, None].copy()
        found = g(
            "Conv",
            g("Transpose", "x", perm=_channels_first(2)),
            kernel,
            strides=[stride] * 2,
            pads=[padding] * 4,
            group=len(kernel),
        )
        return g("Transpose", found, perm=_channels_last(2))

    return build


def _transposed(g: Graph) -> str:
    kernel = g.weights("w").transpose(2, 3, 0, 1).copy()
    image = g("Transpose", "x", perm=_channels_first(2))
    return g("Transpose", g("ConvTranspose", image, kernel, strides=[2, 2], pads=[1] * 4), perm=_channels_last(2))


def _capsule(stride: int, padding: int) -> Build:
    """A convolution of four times the batch, with the columns of the small matrices among the channels."""

    def build(g: Graph) -> str:
        _, size, _, side, _, inner = g.shape("x")
        _, result, _, _, _, outer = g.case.output
        kernel = g.weights("w").transpose(3, 5, 2, 4, 0, 1).reshape(side * outer, side * inner, 3, 3).copy()
        image = g("Reshape", g("Transpose", "x", perm=[0, 3, 4, 5, 1, 2]), [side, side * inner, size, size])
        found = g("Conv", image, kernel, strides=[stride] * 2, pads=[padding] * 4)
        whole = g("Reshape", found, [1, side, side, outer, result, result])
        return g("Transpose", whole, perm=[0, 4, 5, 1, 2, 3])

    return build


def _plain_convolution(stride: int = 1, padding: int = 0) -> Build:
    """Channels first; the weights are a constant or an input."""

    def build(g: Graph) -> str:
        kernel = "w" if "w" in g.case.inputs else g.weights("w")
        return g("Conv", "x", kernel, strides=[stride] * 2, pads=[padding] * 4)

    return build


def _of_channels(g: Graph) -> str:
    """A filter for each channel of one image."""
    channels = g.shape("x")[0]
    return g("Squeeze", g("Conv", g("Unsqueeze", "x", [0]), g("Unsqueeze", "w", [1]), group=channels), [0])


def _filter(stride: int) -> Build:
    """One filter along all rows."""

    def build(g: Graph) -> str:
        signal, taps = g.case.inputs
        kernel = g("Unsqueeze", taps, [0, 1])
        return g("Squeeze", g("Conv", g("Unsqueeze", signal, [1]), kernel, strides=[stride]), [1])

    return build


def _reversed(g: Graph, taps: str) -> str:
    """A filter with its last tap first, as the kernel of one channel."""
    return g("Unsqueeze", g("Slice", taps, [-1], [-(g.shape(taps)[0] + 1)], [0], [-1]), [0, 1])


def _past(g: Graph) -> str:
    """A filter of past samples; before the first there are zeros."""
    signal, taps = g.case.inputs
    count = g.shape(taps)[0]
    found = g("Conv", g("Unsqueeze", signal, [1]), _reversed(g, taps), pads=[count - 1, 0])
    return g("Squeeze", found, [1])


def _stuffed(g: Graph) -> str:
    """Two samples of the stuffed signal are zeros after its last one, and need no padding."""
    count, factor = g.shape("w")[0], 3
    found = g(
        "ConvTranspose",
        g("Unsqueeze", "x", [1]),
        _reversed(g, "w"),
        strides=[factor],
        pads=[count - 1, count - factor],
    )
    return g("Squeeze", found, [1])


def _three_times_as_many(g: Graph) -> str:
    kernel = g("Unsqueeze", g("Transpose", "h", perm=[1, 0]), [1])
    phases = g("Conv", g("Unsqueeze", "x", [1]), kernel)
    return g("Reshape", g("Transpose", phases, perm=[0, 2, 1]), g.case.output)


def _polyphase(g: Graph) -> str:
    phases = g.case.output[1]
    signal = g("Unsqueeze", g("Transpose", g("Reshape", "x", [-1, phases]), perm=[1, 0]), [0])
    kernel = g("Unsqueeze", g("Transpose", g("Reshape", "w", [-1, phases]), perm=[1, 0]), [1])
    return g("Transpose", g("Squeeze", g("Conv", signal, kernel, group=phases), [0]), perm=[1, 0])


def _iq_filter(g: Graph) -> str:
    """A convolution of two channels: of the two parts of a complex signal."""
    sign = np.array([[1, -1], [1, 1]], np.float32)[..., None]
    pairs = g("Gather", g("Transpose", "h", perm=[1, 0]), np.array([[0, 1], [1, 0]]), axis=0)
    found = g("Conv", g("Unsqueeze", g("Transpose", "x", perm=[1, 0]), [0]), g("Mul", pairs, sign))
    return g("Transpose", g("Squeeze", found, [0]), perm=[1, 0])


def _lags(g: Graph) -> str:
    channels, length = g.shape("x")
    first = g("Slice", "x", [0], [length - g.case.output[1] + 1], [1])
    found = g("Conv", g("Unsqueeze", "x", [0]), g("Unsqueeze", first, [1]), group=channels)
    return g("Squeeze", found, [0])


def _frames(g: Graph) -> str:
    frames, bins, parts = g.case.output
    length = g.shape("taper")[0]
    kernel = g("Reshape", g("Mul", "basis", "taper"), [bins * parts, 1, length])
    found = g("Conv", g("Unsqueeze", "x", [0, 1]), kernel, strides=[80])
    return g("Reshape", g("Transpose", found, perm=[0, 2, 1]), [frames, bins, parts])


def _moving_variance(g: Graph) -> str:
    taps = g.shape("x")[1] - g.case.output[1] + 1
    signal = g("Unsqueeze", "x", [0])
    mean, square = (g("AveragePool", one, kernel_shape=[taps]) for one in (signal, g("Mul", signal, signal)))
    return g("Squeeze", g("Sub", square, g("Mul", mean, mean)), [0])


def _box_filter(g: Graph) -> str:
    mean = g("AveragePool", g("Unsqueeze", "x", [0, 1]), kernel_shape=[5, 5])
    return g("Squeeze", g("Mul", mean, 25.0), [0, 1])


def _pool(g: Graph) -> str:
    return g("Squeeze", g("MaxPool", g("Unsqueeze", "x", [0]), kernel_shape=[3, 3], strides=[2, 2]), [0])


def _image_filter(rows: Sequence[Sequence[float]]) -> Build:
    def build(g: Graph) -> str:
        kernel = np.array(rows, np.float32)[None, None]
        return g("Squeeze", g("Conv", g("Unsqueeze", "x", [0, 1]), kernel), [0, 1])

    return build


def _sobel(g: Graph) -> str:
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    both = g("Conv", g("Unsqueeze", "x", [0, 1]), np.stack([across, across.T])[:, None])
    return g("Squeeze", g("ReduceL2", both, [1]), [0, 1])


def _twice(g: Graph, image: str, taps: str) -> str:
    """A separable filter, first down the columns."""
    count = g.shape(taps)[0]
    down = g("Conv", image, g("Reshape", taps, [1, 1, count, 1]))
    return g("Squeeze", g("Conv", down, g("Reshape", taps, [1, 1, 1, count])), [0, 1])


def _blurred(g: Graph) -> str:
    return _twice(g, g("Unsqueeze", "x", [0, 1]), "w")


def _unsharp(g: Graph) -> str:
    blurred = _twice(g, g("Unsqueeze", g("Pad", "x", [2] * 4, mode="edge"), [0, 1]), "w")
    return g("Add", "x", g("Mul", "amount", g("Sub", "x", blurred)))


def _opened(g: Graph) -> str:
    least = g("Neg", g("MaxPool", g("Neg", g("Unsqueeze", "x", [0, 1])), kernel_shape=[3, 3]))
    return g("Squeeze", g("MaxPool", least, kernel_shape=[3, 3]), [0, 1])


def _local_maxima(g: Graph) -> str:
    most = g("Squeeze", g("MaxPool", g("Unsqueeze", "x", [0]), kernel_shape=[3, 3], pads=[1] * 4), [0])
    return g("Where", g("GreaterOrEqual", "x", most), "x", 0.0)


def _haar(g: Graph) -> str:
    signs = np.array([[[1, 1], [1, 1]], [[1, -1], [1, -1]], [[1, 1], [-1, -1]], [[1, -1], [-1, 1]]], np.float32)
    return g("Conv", g("Unsqueeze", "x", [1]), signs[:, None] / np.float32(2), strides=[2, 2])


def _mean_of_colours(equation: str) -> Build:
    def build(g: Graph) -> str:
        rows, columns, colours = g.shape("x")
        squares = g("Reshape", "x", [rows // 2, 2, columns // 2, 2, colours])
        mean = g("ReduceMean", squares, [1, 3], keepdims=0)
        return g("Add", g("Einsum", mean, "w", equation=equation), 0.5)

    return build


def _patches(g: Graph) -> str:
    count, width = g.case.output
    patch = g.shape("w")[-1]
    found = g("Conv", g("Unsqueeze", "x", [0]), "w", strides=[patch] * 2)
    return g("Transpose", g("Reshape", found, [width, count]), perm=[1, 0])


def _resized(mode: str, places: str, **more: str) -> Build:
    def build(g: Graph) -> str:
        sizes = np.array(g.case.output, np.int64)
        return g("Resize", "x", "", "", sizes, mode=mode, coordinate_transformation_mode=places, **more)

    return build


def _pixel_shuffle(g: Graph) -> str:
    return g("Squeeze", g("DepthToSpace", g("Unsqueeze", "x", [0]), blocksize=2, mode="CRD"), [0])


def _response_norm(g: Graph) -> str:
    image = g("Unsqueeze", "x", [2, 3])
    return g("Squeeze", g("LRN", image, size=5, alpha=5e-4, beta=0.5, bias=1.0), [2, 3])


WINDOWS: Mapping[str, Build] = {
    "c1d_2_b1": _convolution(2, 0),
    "c1d_3_b1": _convolution(1, 2),
    "c2d_2_b1": _convolution(1, 0),
    "c2d_3_b1": _convolution(1, 1),
    "c3d_2_b1": _convolution(1, 0),
    "grp_2_b1": _convolution(1, 0, groups=4),
    "grp_3_b1": _convolution(1, 1, groups=4),
    "dil_2_b1": _convolution(1, 0, dilation=2),
    "dil_3_b1": _convolution(1, 1, dilation=2),
    "cbr_2_b1": _convolution(2, 1),
    "cbr_3_b1": _convolution(2, 0),
    "dep_2_b1": _depthwise(2, 1),
    "dep_3_b1": _depthwise(2, 1),
    "t2d_2_b1": _transposed,
    "t2d_3_b1": _transposed,
    "cap_2_b1": _capsule(1, 1),
    "cap_3_b1": _capsule(2, 1),
    "nchw_64": _plain_convolution(),
    "nchw_padded": _plain_convolution(padding=1),
    "new_nchw_convolution": _plain_convolution(),
    "new_nchw_pointwise": _plain_convolution(),
    "new_nchw_strided": _plain_convolution(stride=2),
    "new_nchw_depthwise": _of_channels,
    "new_depthwise_correlation": _of_channels,
    "new_rows_filter": lambda g: g("Conv", "x", g("Unsqueeze", "w", [1])),
    "new_decimated": _filter(4),
    "new_every_third_sample": _filter(3),
    "new_smoothed": _past,
    "new_toeplitz": _past,
    "new_stuffed": _stuffed,
    "new_three_times_as_many": _three_times_as_many,
    "new_polyphase": _polyphase,
    "new_iq_filter": _iq_filter,
    "new_lags": _lags,
    "new_frames": _frames,
    "new_moving_variance": _moving_variance,
    "new_box_filter": _box_filter,
    "new_nchw_pool": _pool,
    "new_nine_points": _image_filter([[1 / 6, 4 / 6, 1 / 6], [4 / 6, -20 / 6, 4 / 6], [1 / 6, 4 / 6, 1 / 6]]),
    "new_sobel": _sobel,
    "new_blurred": _blurred,
    "new_unsharp": _unsharp,
    "new_opened": _opened,
    "new_local_maxima": _local_maxima,
    "new_haar": _haar,
    "new_chroma": _mean_of_colours("rsc,oc->ors"),
    "new_half_chroma": _mean_of_colours("rsc,oc->rso"),
    "new_patches": _patches,
    "new_doubled": _resized("linear", "half_pixel"),
    "new_tripled": _resized("nearest", "asymmetric", nearest_mode="floor"),
    "new_resampled": _resized("nearest", "asymmetric", nearest_mode="floor"),
    "new_pixel_shuffle": _pixel_shuffle,
    "new_response_norm": _response_norm,
}
