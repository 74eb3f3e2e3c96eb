"""Products, contractions and attention as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.oracle.twins.graph import Build, Graph

NEVER = -1e30


def _matmul(g: Graph) -> str:
    return g("MatMul", *g.case.inputs)


def _einsum(equation: str) -> Build:
    return lambda g: g("Einsum", *g.case.inputs, equation=equation)


def _transposed_first(g: Graph) -> str:
    return g("Gemm", *g.case.inputs, transA=1)


def _scores(g: Graph) -> str:
    return g("Softmax", g("Einsum", "q", "v", equation="bihd,bjhd->bhij"), axis=-1)


def _block_transform(g: Graph) -> str:
    return g("MatMul", g("MatMul", "t", "x"), g("Transpose", "t", perm=[1, 0]))


def _deflated(g: Graph) -> str:
    return g("Gemm", "base", g("Gemm", "base", "x", transA=1), "x", alpha=-1.0)


def _tucker(g: Graph) -> str:
    rows = g("Einsum", "a", "core", equation="xi,iqr->xqr")
    return g("Einsum", "c", g("Einsum", "b", rows, equation="yj,xjr->xyr"), equation="zk,xyk->xyz")


def _rms_projected(g: Graph) -> str:
    square = g("ReduceMean", g("Mul", "x", "x"), [1])
    scale = g("Reciprocal", g("Sqrt", g("Add", square, 1e-5)))
    return g("MatMul", g("Mul", g("Mul", "x", scale), "gain"), "w")


def _swiglu(g: Graph) -> str:
    gates = g("MatMul", "x", "gate")
    return g("Mul", g("Mul", gates, g("Sigmoid", gates)), g("MatMul", "x", "up"))


def _gelu_block(g: Graph) -> str:
    return g("Add", "x", g("MatMul", g("Gelu", g("MatMul", "x", "w")), "u"))


def _quantised_product(g: Graph) -> str:
    rounded = g("Clip", g("Round", g("Mul", g("Mul", "x", "step"), 64.0)), -127.0, 127.0)
    return g("Mul", g("MatMul", rounded, "w"), g("Mul", "step", 0.5))


def _four_bits(g: Graph) -> str:
    (width, depth), (_, groups) = g.shape("w"), g.shape("scale")
    rounded = g("Clip", g("Round", g("Mul", "w", 4.0)), -8.0, 7.0)
    scaled = g("Mul", g("Reshape", rounded, [width, groups, depth // groups]), g("Unsqueeze", "scale", [2]))
    return g("Gemm", "x", g("Reshape", scaled, [width, depth]), transB=1)


def _cross_covariance(g: Graph) -> str:
    gaps = [g("Sub", name, g("ReduceMean", name, [0])) for name in "xy"]
    return g("Gemm", *gaps, transA=1, alpha=1 / (g.shape("x")[0] - 1))


def _correlations(g: Graph) -> str:
    unit = g("LpNormalization", g("Sub", "x", g("ReduceMean", "x", [0])), axis=0, p=2)
    return g("Gemm", unit, unit, transA=1)


def _cosine(g: Graph) -> str:
    return g("Gemm", *(g("LpNormalization", name, axis=1, p=2) for name in "ab"), transB=1)


def _normalised(g: Graph) -> str:
    return g("MatMul", g("LpNormalization", "x", axis=1, p=2), "w")


def _mixture(g: Graph) -> str:
    share = g("Softmax", g("MatMul", "x", "gate"), axis=-1)
    return g("Einsum", share, g("MatMul", "x", "w"), equation="te,etd->td")


def _top_expert(g: Graph) -> str:
    share = g("Softmax", g("MatMul", "x", "gate"), axis=-1)
    own = g("GreaterOrEqual", share, g("ReduceMax", share, [1]))
    return g("Einsum", g("Where", own, share, 0.0), "x", "w", equation="te,td,edc->tc")


def _soft_assignment(g: Graph) -> str:
    share = g("Softmax", g("MatMul", "x", "w"), axis=-1)
    return g("Einsum", share, g("Sub", g("Unsqueeze", "x", [1]), "c"), equation="nk,nkd->kd")


def _squeezed(g: Graph) -> str:
    mean = g("ReduceMean", "x", [1])
    active = g("Relu", g("MatMul", "first", mean))
    return g("Mul", "x", g("Sigmoid", g("MatMul", "second", active)))


def _predicted_covariance(g: Graph) -> str:
    spread = g("MatMul", g("MatMul", "f", "p"), g("Transpose", "f", perm=[0, 2, 1]))
    return g("Add", spread, g("Mul", "q", np.eye(g.shape("q")[0], dtype=np.float32)))


def _corrected_covariance(g: Graph) -> str:
    seen = g("MatMul", "p", "h")
    spread = g("Add", g("Relu", g("MatMul", seen, "h")), 1.0)
    outer = g("Mul", g("Unsqueeze", seen, [2]), g("Unsqueeze", seen, [1]))
    return g("Sub", "p", g("Div", outer, g("Unsqueeze", spread, [1, 2])))


def _portfolio_risk(g: Graph) -> str:
    variance = g("Einsum", "weight", "covariance", "weight", equation="pi,ij,pj->p")
    return g("Sqrt", g("Add", g("Abs", variance), 0.25))


def _factorisation(g: Graph) -> str:
    sums = g("MatMul", "x", "v")
    squares = g("MatMul", g("Mul", "x", "x"), g("Mul", "v", "v"))
    pairs = g("ReduceSum", g("Sub", g("Mul", sums, sums), squares), [1], keepdims=0)
    return g("Add", g("Add", g("MatMul", "x", "w"), "bias"), g("Mul", pairs, 0.5))


def _separable(g: Graph) -> str:
    channels = g.shape("x")[2]
    image = g("Unsqueeze", g("Transpose", "x", perm=[2, 0, 1]), [0])
    kernel = g("Unsqueeze", g("Transpose", "w", perm=[2, 0, 1]), [1])
    positive = g("Relu", g("Conv", image, kernel, group=channels))
    return g("MatMul", g("Squeeze", g("Transpose", positive, perm=[0, 2, 3, 1]), [0]), "mix")


def _dots(g: Graph) -> str:
    return g("MatMul", "q", g("Transpose", "k", perm=[0, 2, 1]))


def _mixed(g: Graph, scores: str) -> str:
    return g("MatMul", g("Softmax", scores, axis=-1), "v")


def _past(length: int) -> np.ndarray:
    return np.tri(length, dtype=bool)


def _causal_attention(g: Graph) -> str:
    _, length, depth = g.shape("q")
    return _mixed(g, g("Where", _past(length), g("Mul", _dots(g), depth**-0.5), NEVER))


def _biased_attention(g: Graph) -> str:
    _, length, depth = g.shape("q")
    places = np.arange(length) - np.arange(length)[:, None] + length - 1
    return _mixed(g, g("Add", g("Mul", _dots(g), depth**-0.5), g("Gather", "offset", places, axis=1)))


def _alibi(g: Graph) -> str:
    heads, length, _ = g.shape("q")
    gap = (np.arange(length)[:, None] - np.arange(length)).astype(np.float32)
    rate = g("Mul", g("Reshape", g("Abs", "slope"), [heads, 1, 1]), gap)
    return _mixed(g, g("Where", _past(length), g("Sub", g("Mul", _dots(g), 0.125), rate), NEVER))


def _features(g: Graph) -> tuple[str, str]:
    """Queries and keys as exponential linear units plus one."""
    left, right = (g("Add", g("Elu", name), 1.0) for name in "qk")
    return left, right


def _linear_attention(g: Graph) -> str:
    left, right = _features(g)
    state = g("MatMul", g("Transpose", right, perm=[0, 2, 1]), "v")
    total = g("Einsum", left, g("ReduceSum", right, [1], keepdims=0), equation="hid,hd->hi")
    return g("Div", g("MatMul", left, state), g("Unsqueeze", total, [2]))


def _causal_features(g: Graph) -> str:
    left, right = _features(g)
    weight = g("Trilu", g("Einsum", left, right, equation="hid,hjd->hij"), upper=0)
    return g("Div", g("MatMul", weight, "v"), g("ReduceSum", weight, [2]))


PRODUCTS: Mapping[str, Build] = {
    **dict.fromkeys(("gmm_2_b1", "gmm_3_b1", "odd_long", "odd_wide"), _matmul),
    **dict.fromkeys(("new_odd_product", "new_matrix_vector", "new_vector_matrix"), _matmul),
    **dict.fromkeys(("new_small_products", "new_single_rows"), _matmul),
    **dict.fromkeys(("new_outer_sums", "new_tall"), _transposed_first),
    **dict.fromkeys((f"tbs_{number}_b1" for number in range(1, 5)), _scores),
    "abt_512": _einsum("bik,bjk->bij"),
    "new_gram": lambda g: g("Gemm", "x", "x", transB=1),
    "new_batch_at_b": _einsum("bki,bkj->bij"),
    "new_channels_gram": _einsum("bcn,bcm->bnm"),
    "new_moved_points": _einsum("oij,opj->opi"),
    "new_batch_matrix_vector": _einsum("bij,bj->bi"),
    "new_heads": _einsum("hqk,hkd->qhd"),
    "new_three_operands": _einsum("ik,jk,k->ij"),
    "new_routing": _einsum("ij,ijd->jd"),
    "new_agreement": _einsum("ijd,jd->ij"),
    "new_bilinear": _einsum("bi,ij,bj->b"),
    "new_trilinear": _einsum("ai,bi,ci->abc"),
    "new_contraction": _einsum("abcd,dceb->ae"),
    "new_quadratic_form": _einsum("ni,ij,nj->n"),
    "new_multi_query": _einsum("bhqd,bkd->bhqk"),
    "new_kronecker": _einsum("ab,cd->acbd"),
    "new_outer_product": _einsum("ir,jr->ijr"),
    "new_matrix_product_state": _einsum("lpr,rqs->lpqs"),
    "new_weighted_gram": _einsum("ki,k,kj->ij"),
    "new_triangular": lambda g: g("MatMul", g("Trilu", "x", upper=0), "y"),
    "new_gated": lambda g: g("Mul", g("MatMul", "x", "w"), g("Sigmoid", g("MatMul", "x", "gate"))),
    "new_block_transform": _block_transform,
    "new_rank_update": lambda g: g("Gemm", "a", "b", "c", transA=1, alpha=-1.0),
    "new_deflated": _deflated,
    "new_tucker": _tucker,
    "new_rms_projected": _rms_projected,
    "new_swiglu": _swiglu,
    "new_gelu_block": _gelu_block,
    "new_quantised_product": _quantised_product,
    "new_four_bits": _four_bits,
    "new_cross_covariance": _cross_covariance,
    "new_correlations": _correlations,
    "new_cosine": _cosine,
    "new_normalised": _normalised,
    "new_softmax_product": lambda g: g("MatMul", g("Softmax", "x", axis=-1), "y"),
    "new_mixture": _mixture,
    "new_top_expert": _top_expert,
    "new_soft_assignment": _soft_assignment,
    "new_squeezed": _squeezed,
    "new_predicted_covariance": _predicted_covariance,
    "new_corrected_covariance": _corrected_covariance,
    "new_portfolio_risk": _portfolio_risk,
    "new_factorisation": _factorisation,
    "new_separable": _separable,
    "new_causal_attention": _causal_attention,
    "new_biased_attention": _biased_attention,
    "new_alibi": _alibi,
    "new_linear_attention": _linear_attention,
    "new_causal_features": _causal_features,
}
