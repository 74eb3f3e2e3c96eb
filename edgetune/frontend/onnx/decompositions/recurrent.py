"""Recurrent networks: writes RNN, GRU and LSTM as loops over their steps (ONNX operator specification).

Where the specification leaves something open, or says it otherwise than it is done, this is what ONNX Runtime does: the
parameters of activations and their defaults, and that `clip` does not bound the memory before its activation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised, rounded_to_range

# One step: (cell, projected input, states) to new states; the first state is the output.
Step = Callable[["_Cell", str, list[str]], list[str]]


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
    _recurrent(b, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step, _QuantisedWeights)


class _Weights:
    """Weights of one direction as the operator has them: R^T, biases of the input and of the state, and peepholes."""

    def __init__(self, b: Builder, direction: int, gates: int) -> None:
        self.b = b
        self.direction = direction
        self.hidden = int(b.attributes["hidden_size"])
        self.weights, self.recurrence = self.matrices()
        self.input_bias = self.state_bias = self.peepholes = ""
        if b.input(3):
            both = b.take(b.input(3), direction, 0)
            self.input_bias = b.part(both, 0, gates * self.hidden, 0)
            self.state_bias = b.part(both, gates * self.hidden, 2 * gates * self.hidden, 0)
        if b.input(7):
            self.peepholes = b.take(b.input(7), direction, 0)

    def matrices(self) -> tuple[str, str]:
        """W^T and R^T."""
        first, second = (self.b.take(self.b.input(index), self.direction, 0) for index in (1, 2))
        return self.b.op("Transpose", first, perm=[1, 0]), self.b.op("Transpose", second, perm=[1, 0])

    @staticmethod
    def given(b: Builder, x: str) -> str:
        """The input of all steps, as each is computed from it: (length, batch, elements)."""
        del b
        return x

    @staticmethod
    def read(b: Builder, state: str) -> str:
        """A state as the product reads it; `b` writes the body."""
        del b
        return state

    def projected(self, x: str, added: str) -> str:
        """The product of the whole input with W^T, and the bias `added`: (length, batch, gates x hidden)."""
        length, batch, width = self.b.shape(x)
        product = self.b.op("MatMul", self.b.reshape(x, length * batch, width), self.weights)
        product = self.b.op("Add", product, added) if added else product
        return self.b.reshape(product, length, batch, self.b.shape(product)[1])


class _QuantisedWeights(_Weights):
    """Weights of integers, which the operator takes as W^T and R^T; inputs 8 to 11 are scales and zero points."""

    def matrices(self) -> tuple[str, str]:
        """W^T and R^T, each with one scale, or one for each column."""
        return self._dequantised(1, 8), self._dequantised(2, 10)

    def _dequantised(self, index: int, first: int) -> str:
        scale, zero = (self.b.take(self.b.input(i), self.direction, 0) for i in (first, first + 1))
        return dequantised(self.b, self.b.take(self.b.input(index), self.direction, 0), scale, zero, axis=1)

    @staticmethod
    def given(b: Builder, x: str) -> str:
        """The whole input, rounded."""
        return rounded_to_range(b, x)

    @staticmethod
    def read(b: Builder, state: str) -> str:
        """The state, rounded."""
        return rounded_to_range(b, state)


class _Cell:
    """One step of one direction: `b` writes it, `besides` gives the name in it of a value from around it."""

    def __init__(
        self, b: Builder, weights: _Weights, activations: list[_Activation], besides: Callable[[str], str]
    ) -> None:
        self.b = b
        self.hidden = weights.hidden
        self.activations = activations
        self._weights = weights
        self._besides = besides
        self._peepholes = besides(weights.peepholes) if weights.peepholes else ""

    def recur(self, state: str, first: int, stop: int) -> str:
        """The product of a state with R^T, of the gates from `first` to `stop` - 1."""
        columns = self._weights.b.part(self._weights.recurrence, first * self.hidden, stop * self.hidden, 1)
        return self.b.op("MatMul", self._weights.read(self.b, state), self._besides(columns))

    def state_bias(self, gate: int) -> str:
        """Rb of a gate, "" without biases."""
        if not self._weights.state_bias:
            return ""
        return self._besides(
            self._weights.b.part(self._weights.state_bias, gate * self.hidden, (gate + 1) * self.hidden, 0)
        )

    def gate(self, value: str, index: int) -> str:
        return self.b.part(value, index * self.hidden, (index + 1) * self.hidden, 1)

    def peephole(self, value: str, state: str, index: int) -> str:
        if not self._peepholes:
            return value
        weights = self.b.part(self._peepholes, index * self.hidden, (index + 1) * self.hidden, 0)
        return self.b.op("Add", value, self.b.op("Mul", weights, state))

    def activate(self, which: int, value: str) -> str:
        clip = self.b.attributes.get("clip")
        if clip is not None:
            low, high = (self.b.constant(v, self.b.dtype(value)) for v in (-clip, clip))
            value = self.b.op("Min", self.b.op("Max", value, low), high)
        return self.activations[which](self.b, value)


def _rnn_step(cell: _Cell, projected: str, states: list[str]) -> list[str]:
    return [cell.activate(0, cell.b.op("Add", projected, cell.recur(states[0], 0, 1)))]


def _gru_step(cell: _Cell, projected: str, states: list[str]) -> list[str]:
    b = cell.b
    state = states[0]
    linear = bool(b.attributes.get("linear_before_reset", 0))
    recurrent = cell.recur(state, 0, 3 if linear else 2)
    update = cell.activate(0, b.op("Add", cell.gate(projected, 0), cell.gate(recurrent, 0)))
    reset = cell.activate(0, b.op("Add", cell.gate(projected, 1), cell.gate(recurrent, 1)))
    if linear:
        hidden, bias = cell.gate(recurrent, 2), cell.state_bias(2)
        hidden = b.op("Mul", reset, b.op("Add", hidden, bias) if bias else hidden)
    else:
        hidden = cell.recur(b.op("Mul", reset, state), 2, 3)
    candidate = cell.activate(1, b.op("Add", cell.gate(projected, 2), hidden))
    kept = b.op("Mul", update, state)
    fresh = b.op("Mul", b.op("Sub", b.constant(1, b.dtype(update)), update), candidate)
    return [b.op("Add", fresh, kept)]


def _lstm_step(cell: _Cell, projected: str, states: list[str]) -> list[str]:
    b = cell.b
    memory = states[1]
    sums = b.op("Add", projected, cell.recur(states[0], 0, 4))
    enter = cell.activate(0, cell.peephole(cell.gate(sums, 0), memory, 0))
    if b.attributes.get("input_forget", 0):
        forget = b.op("Sub", b.constant(1, b.dtype(enter)), enter)
    else:
        forget = cell.activate(0, cell.peephole(cell.gate(sums, 2), memory, 2))
    candidate = cell.activate(1, cell.gate(sums, 3))
    memory = b.op("Add", b.op("Mul", forget, memory), b.op("Mul", enter, candidate))
    leave = cell.activate(0, cell.peephole(cell.gate(sums, 1), memory, 1))
    return [b.op("Mul", leave, cell.activations[2](b, memory)), memory]


def _recurrent(b: Builder, gates: int, default: list[str], step: Step, kind: type[_Weights] = _Weights) -> None:
    """Emits both directions: the projection of the whole input is one product, and the rest a loop over its steps."""
    batch_first = b.attributes.get("layout", 0) == 1
    x = kind.given(b, b.op("Transpose", b.input(0), perm=[1, 0, 2]) if batch_first else b.input(0))
    length, batch, _ = b.shape(x)
    direction = b.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    activations = _activations(b, default * directions)
    per = len(default)
    initial = [b.input(5)] + ([b.input(6)] if len(default) == 3 else [])
    wholes: list[str] = []
    finals: list[list[str]] = []
    for d in range(directions):
        weights = kind(b, d, gates)
        states = [_initial(b, s, d, batch, weights.hidden, batch_first) for s in initial]
        if not length:
            wholes.append(b.constant(np.zeros((0, batch, weights.hidden)), b.dtype(x)))
            finals.append(states)
            continue
        projected = weights.projected(x, _bias_of_all_steps(b, weights, gates))
        direct = _Direction(b, weights, activations[d * per : (d + 1) * per], step, direction == "reverse" or d == 1)
        whole, last = direct.run(projected, states)
        wholes.append(whole)
        finals.append([_of_sequences(b, one) for one in last])
    whole = b.stack(wholes, 1)
    b.output(0, b.op("Transpose", whole, perm=[2, 0, 1, 3]) if batch_first else whole)
    for index in range(len(initial)):
        final = b.stack([finals[d][index] for d in range(directions)], 0)
        b.output(1 + index, b.op("Transpose", final, perm=[1, 0, 2]) if batch_first else final)


def _of_sequences(b: Builder, final: str) -> str:
    """The last states, which ONNX Runtime makes 0 in rows without a step, whatever their first states are."""
    if not b.input(4):
        return final
    has_steps = b.reshape(b.op("Greater", b.input(4), b.constant(0, "int32")), -1, 1)
    return b.op("Where", has_steps, final, b.constant(0, b.dtype(final)))


def _bias_of_all_steps(b: Builder, weights: _Weights, gates: int) -> str:
    """Wb, and what of Rb is added as well: all but that of the gate that a GRU resets after its product."""
    if not weights.state_bias:
        return ""
    if not b.attributes.get("linear_before_reset", 0):
        return b.op("Add", weights.input_bias, weights.state_bias)
    first = b.part(weights.state_bias, 0, (gates - 1) * weights.hidden, 0)
    rest = b.constant(np.zeros(weights.hidden), b.dtype(weights.state_bias))
    return b.op("Add", weights.input_bias, b.op("Concat", first, rest, axis=0))


class _Direction(NamedTuple):
    """The steps of one direction."""

    b: Builder
    weights: _Weights
    activations: list[_Activation]
    step: Step
    backwards: bool

    def run(self, projected: str, states: list[str]) -> tuple[str, list[str]]:
        """The output of all steps (length, batch, hidden), and the last states."""
        b, length = self.b, self.b.shape(projected)[0]
        if length == 1:
            cell = _Cell(b, self.weights, self.activations, lambda name: name)
            count = b.constant(0, "int32") if b.input(4) else ""
            last, output = self._next(cell, b.take(projected, 0, 0), states, count, b.input(4))
            return b.stack([output], 0), last
        body = b.loop(length)
        own = [body.state(one) for one in states]
        one = body.scanned(projected, backwards=self.backwards)
        count = ""
        if b.input(4):
            count = body.scanned(b.constant(np.arange(length), "int32"), backwards=self.backwards)
        cell = _Cell(body.builder, self.weights, self.activations, body.besides)
        lengths = body.besides(b.input(4)) if b.input(4) else ""
        following, output = self._next(cell, one, own, count, lengths)
        last, (whole,) = body.close(following, [(output, self.backwards)])
        return whole, last

    def _next(self, cell: _Cell, projected: str, states: list[str], count: str, lengths: str) -> tuple[list[str], str]:
        """The states after a step, and its output: rows of the batch that are shorter than `count` stand still."""
        found = self.step(cell, projected, states)
        if not lengths:
            return found, found[0]
        b = cell.b
        running = b.reshape(b.op("Greater", lengths, count), -1, 1)
        following = [b.op("Where", running, new, old) for new, old in zip(found, states, strict=True)]
        return following, b.op("Where", running, found[0], b.constant(0, b.dtype(found[0])))


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
