"""What scores of attention pass: a step has those of the last frames where excluded ones add nothing, or the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import pytest

from edgetune.config.input_stream import InputStream
from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming import StepModel, step_model
from tests.frontend.onnx.streamed import Network, equals_window, read

FEATURES, FRAMES, LAST = 8, 16, 5
Layers = Callable[[Network, str], str]


def plain(net: Network, scores: str) -> str:
    return net.add("Softmax", scores, axis=-1)


def mask(frames: int, excluded: float = -np.inf, first: int = 0) -> np.ndarray:
    far = np.arange(frames)[:, None] - np.arange(frames)
    return np.where((far >= first) & (far < LAST), 0.0, excluded)


def turned(net: Network, x: str) -> str:
    return net.add("Transpose", x, perm=[0, 2, 1])


def factors(net: Network, x: str) -> tuple[str, str]:
    """The product of queries and keys, and values."""
    queries, keys, values = (net.add("MatMul", x, net.weight(FEATURES, FEATURES)) for _ in range(3))
    return net.add("MatMul", queries, turned(net, keys)), values


def attention(net: Network, x: str, added: np.ndarray, behind: Layers = plain, before: Layers = lambda _, s: s) -> str:
    scores, values = factors(net, x)
    return net.add("MatMul", behind(net, net.add("Add", before(net, scores), net.constant(added))), values)


def built(
    frames: int, *, behind: Layers = plain, before: Layers = lambda _, s: s, excluded: float = -np.inf, first: int = 0
) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", [1, frames, FEATURES])
    return net.proto(attention(net, x, mask(frames, excluded, first), behind, before))


def compared(build: Callable[[int], onnx.ModelProto]) -> StepModel:
    return equals_window(build, FRAMES, {"x": InputStream(1)}, steps=40)


def is_of_last_frames(found: StepModel) -> bool:
    (output,) = found.by_output.values()
    return output.axis is not None


def scaled(factor: float) -> Layers:
    return lambda net, scores: plain(net, net.add("Mul", scores, net.constant(factor)))


def squared(net: Network, scores: str) -> str:
    weights = plain(net, scores)
    return net.add("Mul", weights, weights)


def without_nan(net: Network, scores: str) -> str:
    weights = plain(net, scores)
    return net.add("Where", net.add("IsNaN", weights), net.constant(0.0), weights)


def logarithm(net: Network, scores: str) -> str:
    return net.add("LogSoftmax", scores, axis=-1)


def difference(net: Network, scores: str) -> str:
    return net.add("Sub", plain(net, scores), scaled(0.5)(net, scores))


def in_integers(net: Network, x: str, scale: float = 0.0973, zero: int = -5) -> str:
    given = [net.constant(scale), net.constant(zero, "int8")]
    return net.add("DequantizeLinear", net.add("QuantizeLinear", x, *given), *given)


@pytest.mark.parametrize(
    "behind",
    [
        scaled(0.35),
        squared,
        without_nan,
        difference,
        lambda net, scores: net.add("Exp", logarithm(net, scores)),
        lambda net, scores: net.add("Sigmoid", scores),
        lambda net, scores: in_integers(net, plain(net, scores), 1 / 256, -128),
    ],
)
def test_excluded_scores_add_nothing(behind: Layers) -> None:
    assert is_of_last_frames(compared(partial(built, behind=behind, excluded=-1e9)))


@pytest.mark.parametrize("before", [in_integers, lambda net, s: net.add("Tanh", net.add("Div", s, net.constant(4.0)))])
def test_scores_before_their_mask(before: Layers) -> None:
    assert is_of_last_frames(compared(partial(built, before=before)))


def threshold(net: Network, scores: str) -> str:
    """Where all kept scores are replaced, they count as much as excluded ones."""
    above = net.add("Greater", scores, net.constant(0.0))
    return plain(net, net.add("Where", above, scores, net.constant(-1e9)))


def slopes(net: Network, scores: str) -> str:
    return plain(net, net.add("Add", scores, net.constant(-0.1 * np.abs(np.subtract.outer(*[np.arange(FRAMES)] * 2)))))


@pytest.mark.parametrize(
    "behind",
    [
        lambda _, scores: scores,
        lambda net, scores: plain(net, net.add("Clip", scores, net.constant(-5.0))),
        lambda net, scores: plain(net, net.add("Neg", scores)),
        lambda net, scores: plain(net, net.add("Max", scores, net.constant(-20.0))),
        lambda net, scores: net.add("Tanh", scores),
        logarithm,
        scaled(0.0005),
        slopes,
        threshold,
        lambda net, scores: net.add("Add", plain(net, scores), net.constant(0.1)),
        lambda net, scores: net.add("Sub", net.constant(1.0), plain(net, scores)),
        lambda net, scores: net.add("Cast", net.add("Equal", plain(net, scores), net.constant(0.0)), to=1),
        lambda net, scores: plain(net, in_integers(net, scores)),
        lambda net, scores: net.add("Softmax", scores, axis=1),
    ],
)
def test_excluded_scores_that_count(behind: Layers) -> None:
    assert not is_of_last_frames(compared(lambda _: built(FRAMES, behind=behind, excluded=-1e4)))


@pytest.mark.parametrize("excluded", [-1e9, -1e4])
def test_a_mask_that_leaves_the_frame_itself_out(excluded: float) -> None:
    """The first frame has no scores that count more than others."""
    assert not is_of_last_frames(compared(lambda _: built(FRAMES, excluded=excluded, first=1)))


def divided(net: Network, scores: str) -> str:
    return net.add("Div", net.constant(0.35), scores)


def of_the_window(net: Network, scores: str) -> str:
    return net.add("Mul", scores, net.add("Sigmoid", net.add("ReduceMean", "x", axes=[1, 2])))


def of_each_place(net: Network, scores: str) -> str:
    return net.add("Mul", scores, net.input("gain", [1, FRAMES, FRAMES]))


@pytest.mark.parametrize("before", [divided, of_the_window, of_each_place])
def test_scores_that_are_not_scaled_alike(before: Layers) -> None:
    assert step_model(read(built(FRAMES, before=before)), {"x": InputStream(1)}).by_output.popitem()[1].axis is None


def constant_values(net: Network, _: str) -> str:
    return net.weight(1, FRAMES, FEATURES)


def longer_and_cut(net: Network, values: str) -> str:
    """As many frames in the window as keys, and twice as many in a step."""
    longer = net.add("ConvTranspose", turned(net, values), net.weight(FEATURES, FEATURES, 2), strides=[2])
    return turned(net, net.add("Slice", longer, *(net.constant([at], "int64") for at in (FRAMES, 2 * FRAMES, 2))))


@pytest.mark.parametrize("of", [constant_values, longer_and_cut])
def test_values_of_other_frames(of: Layers) -> None:
    def build(_: int) -> onnx.ModelProto:
        net = Network()
        scores, values = factors(net, net.input("x", [1, FRAMES, FEATURES]))
        weights = plain(net, net.add("Add", scores, net.constant(mask(FRAMES))))
        return net.proto(net.add("MatMul", weights, of(net, values)))

    assert not is_of_last_frames(compared(build))


@pytest.mark.parametrize("shown", ["Add", "Softmax"])
def test_scores_that_are_outputs(shown: str) -> None:
    def build(_: int) -> onnx.ModelProto:
        net = Network()
        result = attention(net, net.input("x", [1, FRAMES, FEATURES]), mask(FRAMES, -1e4))
        return net.proto(result, next(node.output[0] for node in net.nodes if node.op_type == shown))

    assert all(output.axis is None for output in compared(build).by_output.values())


def test_scores_that_are_read_as_a_whole() -> None:
    def build(_: int) -> onnx.ModelProto:
        net = Network()
        scores = factors(net, net.input("x", [1, FRAMES, FEATURES]))[0]
        return net.proto(net.add("ReduceMax", net.add("Add", scores, net.constant(mask(FRAMES))), axes=[-1]))

    assert not is_of_last_frames(compared(build))


def test_padding_has_scores_too() -> None:
    def build(frames: int) -> onnx.ModelProto:
        net = Network()
        x = net.input("x", [1, frames, FEATURES])
        padded = net.add("Pad", x, net.constant([0, 3, 0, 0, 0, 0], "int64"), net.constant(0.5))
        y = attention(net, padded, mask(frames + 3))
        return net.proto(net.conv(turned(net, y), (FEATURES, FEATURES), 3, pads=[2, 0]))

    assert is_of_last_frames(compared(build))


def test_a_refusal_says_why_it_is_no_attention_over_the_last_frames() -> None:
    net = Network()
    x = turned(net, net.conv(turned(net, net.input("x", [1, FRAMES, FEATURES])), (FEATURES, FEATURES), 3, pads=[2, 0]))
    model = read(net.proto(attention(net, x, mask(FRAMES), lambda _, scores: scores)))
    with pytest.raises(
        UnsupportedOperator, match=r"mixes all frames .*; nor is it attention .* sums values by what is"
    ):
        step_model(model, {"x": InputStream(1)})
