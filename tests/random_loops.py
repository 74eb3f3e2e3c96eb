"""Random models of Scan: loops after each other and in each other, with slices and concatenations around them.

All tensors are 2 x 3 floats, or a few of these. Parts of them lie in wider ones, states are passed on or emitted, and
all is read from several places.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.reader import OnnxModel
from tests.loop_samples import model_of, numbers

ONE = (2, 3)
_INTEGERS = {"halves": [1, 2], "zero": [0], "one": [1], "second": 1}
_TURNS = {1: [1, 0, 2], 2: [2, 0, 1]}
"""How axis 1 or 2 of a tensor of slices becomes the first."""


@dataclass
class _Writer:
    """Nodes of a graph, whose values begin with `prefix`."""

    random: random.Random
    prefix: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    made: int = 0

    def emit(self, operator: str, read: Sequence[str], results: int, **attributes: object) -> list[str]:
        self.made += 1
        names = [f"{self.prefix}v{self.made}_{number}" for number in range(results)]
        self.nodes.append(helper.make_node(operator, list(read), names, **attributes))
        return names

    def op(self, operator: str, *read: str, **attributes: object) -> str:
        return self.emit(operator, read, 1, **attributes)[0]

    def inner(self) -> _Writer:
        """A writer of a body."""
        self.made += 1
        return _Writer(self.random, f"{self.prefix}b{self.made}_")

    def pick(self, values: Sequence[str]) -> str:
        return self.random.choice(values)

    def flags(self, count: int) -> list[int]:
        return [self.random.randint(0, 1) for _ in range(count)]

    def value(self, known: Sequence[str], *, nests: bool) -> str:
        """Something made of known values."""
        kind = self.pick(["Add", "Mul", "Max", "MatMul", "turn", "same", *["scan"] * 2 * nests])
        if kind == "same":
            return self.pick(known)
        if kind == "turn":
            left, right = self.emit("Split", [self.pick(known), "halves"], 2, axis=1)
            return self.op("Concat", right, left, axis=1)
        if kind == "scan":
            return self._rows(self.pick(known), self.pick(known))
        other = "square" if kind == "MatMul" else self.pick(known)
        return self.op("Tanh", self.op(kind, self.pick(known), other))

    def _rows(self, first: str, scanned: str) -> str:
        """A scan over the rows or columns of a value, which begins with a row or column of another one."""
        (axis, backwards, reverse, passed), body = self.flags(4), self.inner()
        state, part = f"{body.prefix}s", f"{body.prefix}e"
        following = body.op("Tanh", body.op("Add", state, part))
        emitted = body.op("Identity", state if passed else following)
        extents = [ONE[1 - axis]]
        last, whole = self.emit(
            "Scan",
            [self.op("Gather", first, "second", axis=axis), scanned],
            2,
            body=_graph(body, [state, part], [following, emitted], extents),
            num_scan_inputs=1,
            scan_input_axes=[axis],
            scan_input_directions=[backwards],
            scan_output_axes=[axis],
            scan_output_directions=[reverse],
        )
        return self.op("Add", whole, self.op("Unsqueeze", last, "one" if axis else "zero"))

    def scan(self, known: Sequence[str], wholes: Sequence[str], *, nests: bool) -> tuple[list[str], list[str]]:
        """A scan of tensors of slices: its last states, and the tensors that it emits."""
        states, scanned, emitted = (self.random.randint(*limits) for limits in ((0, 2), (1, 2), (0, 2)))
        emitted = emitted or int(not states)
        body = self.inner()
        formal = [f"{body.prefix}i{number}" for number in range(states + scanned)]
        inside = [*formal, self.pick(known)]
        for _ in range(self.random.randint(1, 3)):
            inside.append(body.value(inside, nests=nests))
        results = [body.op("Identity", self.pick(inside)) for _ in range(states + emitted)]
        if states and emitted and self.flags(1)[0]:
            results[-1] = body.op("Identity", results[0])  # a state that is emitted as well
        axes = [self.random.choice([0, 0, 1]) for _ in range(scanned)]
        turned = [self.random.choice([0, 0, 1, 2]) for _ in range(emitted)]
        sequences = [self.pick(wholes) for _ in axes]
        read = [self.op("Transpose", s, perm=[1, 0, 2]) if a else s for s, a in zip(sequences, axes, strict=True)]
        more = {"scan_output_axes": turned, "scan_output_directions": self.flags(emitted)} if emitted else {}
        made = self.emit(
            "Scan",
            [*(self.pick(known) for _ in range(states)), *read],
            states + emitted,
            body=_graph(body, formal, results, ONE),
            num_scan_inputs=scanned,
            scan_input_axes=axes,
            scan_input_directions=self.flags(scanned),
            **more,
        )
        pairs = zip(made[states:], turned, strict=True)
        return made[:states], [self.op("Transpose", name, perm=_TURNS[axis]) if axis else name for name, axis in pairs]

    def end(self, lasts: Sequence[str], wholes: Sequence[str]) -> str:
        """An output of the model."""
        if not wholes or (lasts and self.flags(1)[0]):
            kind, one, other = self.pick(["same", "tanh", "join"]), self.pick(lasts), self.pick(lasts)
            if kind == "join":
                return self.op("Concat", one, other, axis=self.flags(1)[0])
            return self.op("Tanh", one) if kind == "tanh" else one
        kind, one, other = (self.pick(each) for each in (["same", "tanh", "join", "cut", "renew"], wholes, wholes))
        if kind == "join":
            return self.op("Concat", one, other, axis=self.random.randint(0, 2))
        if kind == "cut":
            ends = ["zero", "one"] if self.flags(1)[0] else ["before", "after"]
            return self.op("Tanh", self.op("Slice", one, *ends, "zero"))
        if kind == "renew":  # the first slice is another one, computed of what is before the loop
            rest, first = self.op("Slice", one, "one", "after", "zero"), self.op("Slice", "x", "zero", "one", "zero")
            joined = self.op("Concat", self.op("MatMul", first, "square"), rest, axis=0)
            return self.op("MatMul", joined, "square")
        return self.op("Tanh", one) if kind == "tanh" else one


def _graph(body: _Writer, read: Sequence[str], made: Sequence[str], shape: Sequence[int]) -> onnx.GraphProto:
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names] for names in (read, made)
    ]
    return helper.make_graph(body.nodes, f"{body.prefix}body", *infos)


@st.composite
def loop_models(draw: st.DrawFn) -> OnnxModel:
    """Models of up to three scans of two to four steps, with up to three outputs.

    Only the seed is drawn: models are as diverse as can be, and the first that fails is the one that is shown.
    """
    chance = draw(st.randoms(use_true_random=True))
    writer, steps = _Writer(chance), chance.randint(2, 4)
    known = ["k", writer.op("Tanh", "s"), *writer.emit("Split", ["wide"], 2, axis=1)]
    wholes = ["x", "rows", *writer.emit("Split", ["wide_rows"], 2, axis=2), writer.op("Tanh", "x")]
    lasts: list[str] = []
    emitted: list[str] = []
    nests = chance.random() < 0.5
    for _ in range(chance.randint(1, 3)):
        more, whole = writer.scan([*known, *lasts], [*wholes, *emitted], nests=nests)
        lasts += more
        emitted += whole
    outputs = dict.fromkeys(writer.end(lasts, emitted) for _ in range(chance.randint(1, 3)))
    ends = {"x": (steps, *ONE), "s": ONE, "wide": (2, 6), "wide_rows": (steps, 2, 6)}
    constants = {name: np.array(value) for name, value in _INTEGERS.items()}
    constants |= {"before": np.array([steps - 1]), "after": np.array([steps]), "square": numbers(3, 3)}
    constants |= {"k": numbers(*ONE, seed=1), "rows": numbers(steps, *ONE, seed=2)}
    graph = helper.make_graph(
        writer.nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return model_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
