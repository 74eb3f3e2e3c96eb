"""Attention as graphs leave it, unscheduled, and what numpy makes of it in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tvm import te, tirx, topi

from edgetune.graph.attention import attend, where
from tests.sketch_samples import Array, prim_func

Mask = Literal["none", "scale", "keys", "scores", "where"]
_LOWEST = -3.4028234663852886e38  # what exporters write for "no key", besides minus infinity


@dataclass(frozen=True)
class Attention:
    """q of (1, queries, heads, depth), k (1, heads, depth, keys), v (1, keys, heads, width), the mask, the output.

    The mask is added to the scaled scores, one value for each key or for each score, or says where these count.
    """

    heads: int = 2
    queries: int = 16
    keys: int = 32
    depth: int = 16
    width: int = 16
    mask: Mask = "keys"

    def function(self) -> Any:
        """The unscheduled kernel."""
        tensors = [te.placeholder(shape, dtype, name=name) for name, shape, dtype in self._inputs()]
        q, k, v, *rest = tensors

        def change(x: te.Tensor) -> te.Tensor:
            if self.mask == "none":
                return x
            x = topi.multiply(x, tirx.const(self._scale, "float32"))
            if self.mask == "where":
                return where(rest[0], x, tirx.const(_LOWEST, "float32"))
            return topi.add(x, rest[0]) if rest else x

        heads_outside = [0, 2, 1, 3]
        result = attend(q, k, v, [heads_outside, [0, 1, 2, 3], heads_outside], change, heads_outside)
        return prim_func(tensors, result)

    def arguments(self, seed: int = 0) -> list[Array]:
        """Inputs, of which some masks hide keys, and an output that no kernel leaves."""
        random = np.random.default_rng(seed)
        arrays: list[Array] = []
        for name, shape, dtype in self._inputs():
            hidden = random.random(shape) < 0.3
            if dtype == "bool":
                arrays.append(~hidden)
            elif name == "mask":
                arrays.append(np.where(hidden, random.choice([-np.inf, _LOWEST, -1e4]), 0).astype(dtype))
            else:
                arrays.append((3 * random.standard_normal(shape)).astype(dtype))
        return [*arrays, np.full((1, self.queries, self.heads, self.width), 77, "float32")]

    def expected(self, q: Array, k: Array, v: Array, *mask: Array) -> Array:
        """The output; nan where all keys of a query are hidden by minus infinity."""
        x = np.einsum("bqhd,bhdk->bhqk", q.astype("f8"), k.astype("f8"))
        if self.mask != "none":
            x = x * self._scale
        if mask:
            x = np.where(mask[0], x, _LOWEST) if self.mask == "where" else (x + mask[0]).astype("f4").astype("f8")
        with np.errstate(invalid="ignore"):
            powers = np.exp(x - x.max(axis=-1, keepdims=True))
        result: Array = np.einsum("bhqk,bkhw->bqhw", powers / powers.sum(axis=-1, keepdims=True), v.astype("f8"))
        return result

    @property
    def _scale(self) -> float:
        return float(np.float32(1 / np.sqrt(self.depth)))

    def _inputs(self) -> list[tuple[str, tuple[int, ...], str]]:
        inputs: list[tuple[str, tuple[int, ...], str]] = [
            ("q", (1, self.queries, self.heads, self.depth), "float32"),
            ("k", (1, self.heads, self.depth, self.keys), "float32"),
            ("v", (1, self.keys, self.heads, self.width), "float32"),
        ]
        if self.mask == "keys":
            inputs.append(("mask", (1, 1, 1, self.keys), "float32"))
        elif self.mask == "scores":
            inputs.append(("mask", (1, 1, self.queries, self.keys), "float32"))
        elif self.mask == "where":
            inputs.append(("allowed", (1, 1, 1, self.keys), "bool"))
        return inputs
