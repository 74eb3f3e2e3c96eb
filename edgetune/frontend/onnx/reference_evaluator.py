"""ONNX's reference evaluator, with the operators that it computes wrongly replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_max_pool import MaxPool
from onnx.reference.ops.op_stft import STFT

from edgetune.frontend.onnx.domains import opset_of

_OF_STATES = 9
"""The first opset whose Scan has no batch of its own."""
_BY_ATTRIBUTE = 14
"""The first opset whose BatchNormalization says by an attribute whether it takes its statistics from the batch."""


LACKS = (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, KeyError, ZeroDivisionError)
"""What the evaluator raises for operators, versions and attributes that it lacks, and for averages of nothing."""


def reference_evaluator(proto: onnx.ModelProto, operators: Sequence[type[OpRun]] = ()) -> ReferenceEvaluator:
    """The evaluator of `proto`, which uses `operators` in place of its own of the same names."""
    replaced = [
        _SHORT_TIME_FOURIER,
        _MAXIMUM_POOL,
        *([_SCAN] if opset_of(proto) >= _OF_STATES else []),
        *([_BATCH_NORMALIZATION] if opset_of(proto) < _BY_ATTRIBUTE else []),
    ]
    return ReferenceEvaluator(proto, new_ops=[*replaced, *operators])


class _BatchNormalization(OpRun):
    """Before opset 14, one output means inference; the evaluator takes the statistics of the batch all the same."""

    op_domain = ""

    def _run(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        **attributes: Any,
    ) -> tuple[np.ndarray]:
        if len(self.onnx_node.output) > 1:
            raise NotImplementedError("BatchNormalization of an opset before 14 computes statistics of a batch")
        along = (-1, *[1] * (x.ndim - 2))
        scale, bias, mean, variance = (value.reshape(along) for value in (scale, bias, mean, variance))
        result = scale * (x - mean) / np.sqrt(variance + attributes["epsilon"]) + bias
        return (result.astype(x.dtype),)


class _ShortTimeFourier(STFT):
    """A real signal may leave out its last axis, of one element; the evaluator takes its batch for the signal then."""

    op_domain = ""

    def _run(self, signal: np.ndarray, *operands: np.ndarray | None, **attributes: Any) -> tuple[np.ndarray]:
        whole = signal[..., np.newaxis] if signal.ndim < 3 else signal
        return (np.asarray(super()._run(whole, *operands, **attributes)[0]),)


class _MaximumPool(MaxPool):
    """The evaluator's own pads integers with NaN, and mixes up the axes of pads that differ."""

    op_domain = ""

    def _run(self, x: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
        pads = attributes.get("pads")
        plain = (attributes.get("auto_pad") or "NOTSET") == "NOTSET" and not attributes.get("ceil_mode")
        if len(self.onnx_node.output) > 1 or not plain:
            return tuple(super()._run(x, **attributes))
        window = attributes["kernel_shape"]
        pads = pads or [0] * (2 * len(window))
        axes = tuple(range(2, x.ndim))
        strides = attributes.get("strides") or [1] * len(window)
        dilations = attributes.get("dilations") or [1] * len(window)
        least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        around = [(0, 0), (0, 0), *zip(pads[: len(window)], pads[len(window) :], strict=True)]
        padded = np.pad(x, around, constant_values=least)
        reach = [(size - 1) * dilation + 1 for size, dilation in zip(window, dilations, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
        seen = seen[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
        taps: list[Any] = [..., *(slice(None, None, dilation) for dilation in dilations)]
        seen = seen[tuple(taps)]
        return (np.asarray(seen.max(axis=tuple(range(-len(window), 0)))),)


class _ScanAnyWay(OpRun):
    """Scan of opset 9 and later; the evaluator's own knows no axes and directions but the first ones."""

    op_domain = ""

    def need_context(self) -> bool:
        """The body reads what is around it by name."""
        return True

    def _run(
        self, *operands: np.ndarray, context: dict[str, Any] | None = None, bindings: Any = None, **attributes: Any
    ) -> tuple[np.ndarray, ...]:
        count = attributes["num_scan_inputs"]
        states, scanned = list(operands[: len(operands) - count]), operands[len(operands) - count :]
        names_in, names_out = self.body.input_names, self.body.output_names
        made = len(names_out) - len(states)
        slices = [
            np.moveaxis(array, axis, 0)[:: -1 if backwards else 1]
            for array, axis, backwards in zip(
                scanned,
                _each(attributes, "scan_input_axes", count),
                _each(attributes, "scan_input_directions", count),
                strict=True,
            )
        ]
        rows: list[list[np.ndarray]] = [[] for _ in range(made)]
        for each in zip(*slices, strict=True):
            inputs = (context or {}) | dict(zip(names_in, (*states, *each), strict=True))
            results = dict(zip(names_out, self._run_body(inputs, bindings=bindings), strict=True))
            states = [results[name] for name in names_out[: len(states)]]
            for row, name in zip(rows, names_out[len(states) :], strict=True):
                row.append(results[name])
        directions, axes = (_each(attributes, f"scan_output_{name}", made) for name in ("directions", "axes"))
        wholes = [
            np.stack(row[:: -1 if backwards else 1], axis)
            for row, backwards, axis in zip(rows, directions, axes, strict=True)
        ]
        return (*states, *wholes)


def _each(attributes: dict[str, Any], name: str, count: int) -> Sequence[int]:
    return attributes.get(name) or [0] * count


_SCAN = type("Scan", (_ScanAnyWay,), {"op_domain": ""})
_MAXIMUM_POOL = type("MaxPool", (_MaximumPool,), {"op_domain": ""})
_SHORT_TIME_FOURIER = type("STFT", (_ShortTimeFourier,), {"op_domain": ""})
_BATCH_NORMALIZATION = type("BatchNormalization", (_BatchNormalization,), {"op_domain": ""})
"""The evaluator finds operators by the name of their class."""
