"""Operators that took longer than in PyTorch before there were rules.

Products across the lanes and of odd extents, convolutions with channels first, and norms, scores and a product of the
paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tvm import te, topi

from benchmarks.search.expression import Expression, Tensors
from benchmarks.search.paper_operators import in_layouts, paper_operators, product

_OF_THE_PAPER = ("nrm_", "tbs_", "gmm_3_")
"""How names of the paper's operators begin that are in the list, too, with batch 1."""


def losses() -> Iterator[Expression]:
    """All 14 cases; those of the paper have the same names there, so that they are measured once."""
    yield product("abt_512", 1, 512, 512, 512, transposed_b=True)
    yield product("odd_long", 1, 127, 127, 1000)
    yield product("odd_wide", 1, 127, 1000, 127)
    yield _channels_first("nchw_64", 64, 64, 30, 0)
    yield _channels_first("nchw_padded", 64, 64, 28, 1)
    for case in paper_operators():
        if case.name.startswith(_OF_THE_PAPER) and case.name.endswith("_b1"):
            yield case


def _channels_first(name: str, inner: int, outer: int, size: int, padding: int) -> Expression:
    """A 3x3 convolution of a square image, (N, C, H, W), with constant weights (O, I, 3, 3)."""
    taps = 3
    result = size + 2 * padding - taps + 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(x, [0, 0, padding, padding], [0, 0, padding, padding]) if padding else x
        ic, kh, kw = (te.reduce_axis((0, extent), axis) for extent, axis in ((inner, "ic"), (taps, "kh"), (taps, "kw")))
        return te.compute(
            (1, outer, result, result),
            lambda n, c, h, v: te.sum(padded[n, ic, h + kh, v + kw] * w[c, ic, kh, kw], axis=[ic, kh, kw]),
            "conv",
        )

    def variants(torch: Any, t: Tensors) -> Sequence[Callable[[], Any]]:
        return in_layouts(torch, t["x"], t["w"], lambda x, w: torch.nn.functional.conv2d(x, w, None, 1, padding))

    return Expression(
        name,
        {"x": (1, inner, size, size)},
        {"w": (outer, inner, taps, taps)},
        (1, outer, result, result),
        2 * result**2 * inner * outer * taps**2,
        compute,
        variants,
    )
