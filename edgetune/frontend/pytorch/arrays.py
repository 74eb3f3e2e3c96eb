"""What the process that has PyTorch and its parent share: names of files, and arrays as both know them.

An array is its element type by PyTorch's name, its shape and its bytes: NumPy itself has no bfloat16.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

GIVEN = "given.pt2"
PROGRAM = "program.pt2"
ONNX = "model.onnx"

Written = tuple[str, tuple[int, ...], bytes]


def written(array: np.ndarray) -> Written:
    """An array of NumPy, written."""
    return array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes()


def as_array(one: Written) -> np.ndarray:
    """An array of NumPy, read."""
    kind, shape, data = one
    return np.frombuffer(data, np.dtype(getattr(ml_dtypes, kind, None) or kind)).reshape(shape).copy()


def as_tensor(torch: Any, one: Written) -> Any:
    """A tensor of `torch`, read; only its process has that module."""
    kind, shape, data = one
    element = getattr(torch, kind)
    return (torch.frombuffer(bytearray(data), dtype=element) if data else torch.empty(0, dtype=element)).reshape(shape)


def of_tensor(torch: Any, tensor: Any) -> Written:
    """A tensor of `torch`, written."""
    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return str(plain.dtype).removeprefix("torch."), tuple(plain.shape), data
