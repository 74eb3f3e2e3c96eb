"""Sequences of tensors, as PyTorch writes them for `chunk` and lists, are wires where places are constant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

# The third of the parts of 12 columns is the shortest one.
MODEL = """
<ir_version: 8, opset_import: ["": {opset}]>
main (float[2, 12] x, float[2, 3] z, int64 when) => (float{shape} y)
<int64 size = {{5}}, int64[3] sizes = {{5, 0, 7}}, int64 zero = {{0}}, int64 one = {{1}}, int64 last = {{-1}}> {{
  {nodes}
}}
"""
PARTS = "s = SplitToSequence <axis = -1> (x, size) "


def read(nodes: str, shape: str = "[2, 5]", opset: int = 17) -> OnnxModel:
    proto = onnx.parser.parse_model(MODEL.format(nodes=nodes, shape=shape, opset=opset))
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


def compare(model: OnnxModel) -> None:
    """The values of the program are those of ONNX Runtime."""
    draw = np.random.default_rng(3)
    feed = {"x": draw.random((2, 12), "f4"), "z": draw.random((2, 3), "f4"), "when": np.array(1)}
    program = to_program(import_onnx(model))
    found = run_program(program, {spec.name: feed[spec.name] for spec in program.inputs})["y"]
    np.testing.assert_array_equal(found, evaluate_model(model, [feed], "onnxruntime")[0]["y"])


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (PARTS + "y = SequenceAt (s, one)", "[2, 5]"),
        (PARTS + "y = SequenceAt (s, last)", "[2, 2]"),
        ("s = SplitToSequence <axis = 1> (x, sizes) y = SequenceAt (s, last)", "[2, 7]"),
        ("s = SplitToSequence (x) y = SequenceAt (s, one)", "[1, 12]"),
        ("s = SplitToSequence <keepdims = 0, axis = 1> (x) y = SequenceAt (s, one)", "[2]"),
        (PARTS + "t = Identity (s) y = ConcatFromSequence <axis = -1> (t)", "[2, 12]"),
        ("s = SequenceConstruct (z, z) y = ConcatFromSequence <axis = 0> (s)", "[4, 3]"),
        ("s = SequenceConstruct (z, z) y = ConcatFromSequence <axis = -1, new_axis = 1> (s)", "[2, 3, 2]"),
        (PARTS + "n = SequenceLength (s) f = Cast <to = 1> (n) y = Mul (x, f)", "[2, 12]"),
        (PARTS + "t = SequenceInsert (s, z) y = SequenceAt (t, last)", "[2, 3]"),
        (PARTS + "t = SequenceInsert (s, z, zero) y = ConcatFromSequence <axis = 1> (t)", "[2, 15]"),
        (PARTS + "t = SequenceInsert (s, z, last) y = ConcatFromSequence <axis = 1> (t)", "[2, 15]"),
        (PARTS + "t = SequenceErase (s) y = ConcatFromSequence <axis = 1> (t)", "[2, 10]"),
        (PARTS + "t = SequenceErase (s, zero) y = ConcatFromSequence <axis = 1> (t)", "[2, 7]"),
        ("e = SequenceEmpty () s = SequenceInsert (e, z) y = SequenceAt (s, zero)", "[2, 3]"),
    ],
)
@pytest.mark.parametrize("opset", [11, 17])
def test_a_sequence_at_constant_places_has_the_values_of_onnx_runtime(nodes: str, shape: str, opset: int) -> None:
    """TVM ended with "'TupleGetItem' object has no attribute 'value'"."""
    if opset < 14 and "Identity" in nodes:
        nodes = nodes.replace("t = Identity (s)", "").replace("(t)", "(s)")
    compare(read(nodes, shape, opset))


def test_a_list_that_a_loop_fills_is_a_sequence() -> None:
    nodes = """
    yes = Constant <value = bool {1}> ()
    two = Constant <value = int64 {2}> ()
    e = SequenceEmpty ()
    s = Loop (two, yes, e) <body = step (int64 i, bool on, seq(float[2, 3]) had) => (bool go, seq(float[2, 3]) after) {
      go = Identity (on)
      f = Cast <to = 1> (i)
      row = Add (z, f)
      after = SequenceInsert (had, row)
    }>
    y = ConcatFromSequence <axis = 0> (s)
    """
    compare(read(nodes, "[4, 3]"))


def test_a_condition_at_run_time_chooses_between_sequences_of_one_length() -> None:
    """Element by element, as it chooses between tensors."""
    nodes = """
    total = ReduceSum <keepdims = 0> (z)
    none = Sub (total, total)
    yes = Greater (total, none)
    twice = Add (z, z)
    s, n = If (yes) <
      then_branch = a () => (seq(float[2, 3]) p, float[2, 3] u) { p = SequenceConstruct (z, twice) u = Neg (z) },
      else_branch = b () => (seq(float[2, 3]) q, float[2, 3] v) { q = SequenceConstruct (twice, z) v = Abs (z) }>
    first = SequenceAt (s, zero)
    y = Add (first, n)
    """
    compare(read(nodes, "[2, 3]"))


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (PARTS + "y = SequenceAt (s, when)", r"node 'y': operator SequenceAt computes its position at run time"),
        (
            PARTS + "far = Mul (size, size) y = SequenceAt (s, far)",
            r"node 'y': .*At names place 25 .* only 3",
        ),
        (
            "s = SplitToSequence <axis = -1> (x, when) y = SequenceAt (s, one)",
            r"node 's': .* computes its split",
        ),
        (
            """yes = Cast <to = 9> (when)
            s = If (yes) <then_branch = a () => (seq(float[2, 3]) p) { p = SequenceConstruct (z) },
                          else_branch = b () => (seq(float[2, 3]) q) { q = SequenceConstruct (z, z) }>
            y = SequenceAt (s, zero)""",
            r"node 'y': operator SequenceAt reads the sequence 's', whose elements are only known at run time",
        ),
    ],
)
def test_what_only_run_time_knows_is_refused_with_the_node(nodes: str, sentence: str) -> None:
    with pytest.raises(UnsupportedOperator, match=sentence):
        import_onnx(read(nodes))


def test_a_sequence_is_no_output() -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["": 17]>
        main (float[2, 3] z) => (seq(float[2, 3]) s) { s = SequenceConstruct (z, z) }
        """
    )
    with pytest.raises(ModelError, match=r"output 's' of m\.onnx is not a tensor"):
        model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
