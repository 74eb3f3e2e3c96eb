"""Recurrent networks: unrolls RNN, GRU and LSTM step by step (ONNX operator specification).

Where the specification leaves something open, or says it otherwise than it is done, this is what ONNX Runtime does: the
parameters of activations and their defaults, and that `clip` does not bound the memory before its activation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised, rounded_to_range

# One step: (projected input, states) to new states; the first state is the output.
Step = Callable[[str, list[str]], list[str]]


class _Activation(NamedTuple):
    """An activation function of a cell, by its operator; alpha and beta are None where it has no such parameter."""

    operator: str
    alpha: float | None = None
    beta: float | None = None

    def given(self, alphas: Iterator[float], betas: Iterator[float]) -> _Activation:
        """With the next of each parameter that it has, and its default where no more are given."""
        alpha = self.alpha if self.alpha is None else next(alphas, self.alpha)
        beta = self.beta if self.beta is None else next(betas, self.beta)
        return _Activation(self.operator, alpha, beta)

    def __call__(self, b: Builder, value: str) -> str:
        """Its value: two functions are no operators of ONNX."""
        if self.operator == "Affine":
            return b.op("Add", _scaled(b, value, self.alpha), b.constant(self.beta, b.dtype(value)))
        if self.operator == "ScaledTanh":
            return _scaled(b, b.op("Tanh", _scaled(b, value, self.beta)), self.alpha)
        own = {name: given for name, given in (("alpha", self.alpha), ("beta", self.beta)) if given is not None}
        return b.op(self.operator, value, **own)


def _scaled(b: Builder, value: str, factor: float | None) -> str:
    return b.op("Mul", value, b.constant(factor, b.dtype(value)))


_KNOWN = [
    *(_Activation(name) for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")),
    _Activation("Affine", 0.0, 0.0),
    _Activation("Elu", 1.0),
    _Activation("HardSigmoid", 0.2, 0.5),
    _Activation("LeakyRelu", 0.01),
    _Activation("ScaledTanh", 0.0, 0.0),
    _Activation("ThresholdedRelu", 0.0),
]
_ACTIVATIONS = {one.operator.lower(): one for one in _KNOWN}


def rnn(b: Builder, _: onnx.NodeProto) -> None:
    """Elman networks."""
    _recurrent(b, 1, ["Tanh"], _rnn_step)


def gru(b: Builder, _: onnx.NodeProto) -> None:
    """Gated recurrent units."""
    _recurrent(b, 3, ["Sigmoid", "Tanh"], _gru_step)


def lstm(b: Builder, _: onnx.NodeProto) -> None:
    """Long short-term memory, peepholes included."""
    _recurrent(b, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step)


def dynamic_quantize_lstm(b: Builder, _: onnx.NodeProto) -> None:
    """ONNX Runtime's LSTM of weights in steps of scales; the whole input, and each state, in steps of their range."""
    _recurrent(b, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step, _QuantisedCell)


class _Cell:
    """Weights of one direction: `project` computes x W^T + Wb, `recur` computes h R^T + Rb."""

    def __init__(self, b: Builder, direction: int, gates: int, activations: list[_Activation]) -> None:
        self.b = b
        self.direction = direction
        self.activations = activations
        self.hidden = int(b.attributes["hidden_size"])
        self.weights, self.recurrence = self.matrices()
        self.input_bias = self.state_bias = ""
        if b.input(3):
            both = b.take(b.input(3), direction, 0)
            self.input_bias = b.part(both, 0, gates * self.hidden, 0)
            self.state_bias = b.part(both, gates * self.hidden, 2 * gates * self.hidden, 0)
        self.peepholes = b.take(b.input(7), direction, 0) if b.input(7) else ""

    def matrices(self) -> tuple[str, str]:
        """W^T and R^T."""
        first, second = (self.b.take(self.b.input(index), self.direction, 0) for index in (1, 2))
        return self.b.op("Transpose", first, perm=[1, 0]), self.b.op("Transpose", second, perm=[1, 0])

    @staticmethod
    def given(b: Builder, x: str) -> str:
        """The input of all steps, as each is computed from it: (length, batch, elements)."""
        del b
        return x

    def project(self, x: str) -> str:
        return self._biased(self.b.op("MatMul", x, self.weights), self.input_bias)

    def recur(self, state: str) -> str:
        return self._biased(self.b.op("MatMul", state, self.recurrence), self.state_bias)

    def _biased(self, value: str, bias: str) -> str:
        return self.b.op("Add", value, bias) if bias else value

    def gate(self, value: str, index: int) -> str:
        return self.b.part(value, index * self.hidden, (index + 1) * self.hidden, 1)

    def peephole(self, value: str, state: str, index: int) -> str:
        if not self.peepholes:
            return value
        weights = self.b.part(self.peepholes, index * self.hidden, (index + 1) * self.hidden, 0)
        return self.b.op("Add", value, self.b.op("Mul", weights, state))

    def activate(self, which: int, value: str) -> str:
        clip = self.b.attributes.get("clip")
        if clip is not None:
            low, high = (self.b.constant(v, self.b.dtype(value)) for v in (-clip, clip))
            value = self.b.op("Min", self.b.op("Max", value, low), high)
        return self.activations[which](self.b, value)


class _QuantisedCell(_Cell):
    """Weights of integers, which the operator takes as W^T and R^T; inputs 8 to 11 are scales and zero points."""

    def matrices(self) -> tuple[str, str]:
        """W^T and R^T, each with one scale, or one for each column."""
        return self._dequantised(1, 8), self._dequantised(2, 10)

    def _dequantised(self, index: int, first: int) -> str:
        scale, zero = (self.b.take(self.b.input(i), self.direction, 0) for i in (first, first + 1))
        return dequantised(self.b, self.b.take(self.b.input(index), self.direction, 0), scale, zero, axis=1)

    def recur(self, state: str) -> str:
        """The product with the state, rounded."""
        return super().recur(rounded_to_range(self.b, state))

    @staticmethod
    def given(b: Builder, x: str) -> str:
        """The whole input, rounded."""
        return rounded_to_range(b, x)


def _rnn_step(cell: _Cell, x: str, states: list[str]) -> list[str]:
    return [cell.activate(0, cell.b.op("Add", cell.project(x), cell.recur(states[0])))]


def _gru_step(cell: _Cell, x: str, states: list[str]) -> list[str]:
    b = cell.b
    state = states[0]
    projected, recurrent = cell.project(x), cell.recur(state)
    update = cell.activate(0, b.op("Add", cell.gate(projected, 0), cell.gate(recurrent, 0)))
    reset = cell.activate(0, b.op("Add", cell.gate(projected, 1), cell.gate(recurrent, 1)))
    if b.attributes.get("linear_before_reset", 0):
        hidden = b.op("Mul", reset, cell.gate(recurrent, 2))
    else:
        hidden = cell.gate(cell.recur(b.op("Mul", reset, state)), 2)
    candidate = cell.activate(1, b.op("Add", cell.gate(projected, 2), hidden))
    kept = b.op("Mul", update, state)
    fresh = b.op("Mul", b.op("Sub", b.constant(1, b.dtype(update)), update), candidate)
    return [b.op("Add", fresh, kept)]


def _lstm_step(cell: _Cell, x: str, states: list[str]) -> list[str]:
    b = cell.b
    memory = states[1]
    sums = b.op("Add", cell.project(x), cell.recur(states[0]))
    enter = cell.activate(0, cell.peephole(cell.gate(sums, 0), memory, 0))
    if b.attributes.get("input_forget", 0):
        forget = b.op("Sub", b.constant(1, b.dtype(enter)), enter)
    else:
        forget = cell.activate(0, cell.peephole(cell.gate(sums, 2), memory, 2))
    candidate = cell.activate(1, cell.gate(sums, 3))
    memory = b.op("Add", b.op("Mul", forget, memory), b.op("Mul", enter, candidate))
    leave = cell.activate(0, cell.peephole(cell.gate(sums, 1), memory, 1))
    return [b.op("Mul", leave, cell.activations[2](b, memory)), memory]


def _recurrent(b: Builder, gates: int, default: list[str], step: Any, kind: type[_Cell] = _Cell) -> None:
    batch_first = b.attributes.get("layout", 0) == 1
    x = kind.given(b, b.op("Transpose", b.input(0), perm=[1, 0, 2]) if batch_first else b.input(0))
    length, batch, _ = b.shape(x)
    direction = b.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    activations = _activations(b, default * directions)
    per = len(default)
    initial = [b.input(5)] + ([b.input(6)] if len(default) == 3 else [])
    outputs: list[list[str]] = []
    finals: list[list[str]] = []
    for d in range(directions):
        cell = kind(b, d, gates, activations[d * per : (d + 1) * per])
        states = [_initial(b, s, d, batch, cell.hidden, batch_first) for s in initial]
        backwards = direction == "reverse" or d == 1
        steps: list[str] = [""] * length
        for t in range(length)[:: -1 if backwards else 1]:
            states = _masked(b, t, states, step(cell, b.take(x, t, 0), states))
            steps[t] = _valid(b, t, states[0])
        outputs.append(steps)
        finals.append(states)
    axis = 2 if batch_first else 1
    if length:
        whole = b.stack([b.stack([outputs[d][t] for d in range(directions)], 0) for t in range(length)], 0)
    else:
        whole = b.constant(np.zeros((0, directions, batch, int(b.attributes["hidden_size"]))), b.dtype(x))
    b.output(0, b.op("Transpose", whole, perm=[2, 0, 1, 3]) if axis == 2 else whole)
    for index in range(len(initial)):
        final = b.stack([finals[d][index] for d in range(directions)], 0)
        b.output(1 + index, b.op("Transpose", final, perm=[1, 0, 2]) if batch_first else final)


def _activations(b: Builder, default: list[str]) -> list[_Activation]:
    """Those of all directions, one after another; each takes the parameters that it has from the front of the lists."""
    names = [name.decode() for name in b.attributes.get("activations", [])] or default
    unknown = [name for name in names if name.lower() not in _ACTIVATIONS]
    if unknown or len(names) != len(default):
        wrong = f"does not know activation {unknown[0]!r}" if unknown else f"has {len(names)} activations"
        raise UnsupportedOperator(f"{b.shown} {wrong}; give {len(default)} of {', '.join(k.operator for k in _KNOWN)}")
    alphas, betas = (iter(b.attributes.get(f"activation_{name}", [])) for name in ("alpha", "beta"))
    return [_ACTIVATIONS[name.lower()].given(alphas, betas) for name in names]


def _initial(b: Builder, name: str, direction: int, batch: int, hidden: int, batch_first: bool) -> str:
    if name:
        return b.take(name, direction, 1 if batch_first else 0)
    return b.constant(np.zeros((batch, hidden)), b.dtype(b.input(0)))


def _running(b: Builder, t: int) -> str:
    """Which rows of the batch have a step `t`: (batch, 1), empty when all have."""
    if not b.input(4):
        return ""
    return b.reshape(b.op("Greater", b.input(4), b.constant(t, "int32")), -1, 1)


def _masked(b: Builder, t: int, old: list[str], new: list[str]) -> list[str]:
    running = _running(b, t)
    return [b.op("Where", running, n, o) for n, o in zip(new, old, strict=True)] if running else new


def _valid(b: Builder, t: int, output: str) -> str:
    running = _running(b, t)
    return b.op("Where", running, output, b.constant(0, b.dtype(output))) if running else output
