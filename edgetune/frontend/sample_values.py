"""Sample values: seeded inputs of sensible scale, different enough that the outputs of a model differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgetune.graph.program import TensorSpec

_PATCH = 8
_PLANE_AXES = 2
_INTEGERS = 8


def sample_values(
    inputs: Sequence[TensorSpec], count: int, seed: int, limits: Mapping[str, int] | None = None
) -> list[dict[str, np.ndarray]]:
    """`count` feeds by input name.

    Floats have unit scale: coarse patches and some noise, because white noise alone looks the same to every network
    that pools. Integers are at least 0 and below `limits`, by input name, or below 8.
    """
    return [
        {s.name: _values(np.random.default_rng([seed, case, i]), s, limits or {}) for i, s in enumerate(inputs)}
        for case in range(count)
    ]


def _values(generator: np.random.Generator, spec: TensorSpec, limits: Mapping[str, int]) -> np.ndarray:
    if spec.dtype == "bool":
        return generator.integers(0, 2, spec.shape).astype(bool)
    if np.dtype(spec.dtype).kind in "iu":
        return generator.integers(0, limits.get(spec.name, _INTEGERS), spec.shape).astype(spec.dtype)
    noise = generator.standard_normal(spec.shape)
    if len(spec.shape) > _PLANE_AXES and min(spec.shape[-_PLANE_AXES:]) > 1:
        *lead, height, width = spec.shape
        coarse = generator.standard_normal([*lead, -(-height // _PATCH), -(-width // _PATCH)])
        patches = np.kron(coarse, np.ones((_PATCH, _PATCH)))[..., :height, :width]
        noise = patches + 0.3 * noise
    return np.asarray(noise).astype(spec.dtype)
