"""Scan, Loop and recurrent layers that stay loops have the values of ONNX Runtime, and where they cannot stay one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.interpreter import run_program
from tests.loop_samples import numbers, parsed


def same_as_onnx_runtime(model: OnnxModel) -> Program:
    program = to_program(import_onnx(model))
    feed = sample_inputs(model, program.inputs, 1, seed=3)[0]
    (wanted,) = evaluate_model(model, [feed], "onnxruntime")
    found = run_program(program, feed)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    return program


def steps(program: Program) -> list[int]:
    return [loop.steps for loop in program.loops]


# As Keras exports a layer, by way of TensorFlow: a counter is a state, and the condition compares it with the length.
KERAS = """
g (float[1,{steps},8] x) => (float[1,16] y, float[{steps},1,16] all)
<int64 trips = {{{steps}}}, bool go = {{1}}, int64 n0 = {{0}}> {{
  hl, cl, nl, all = Loop (trips, go, h0, c0, n0) <body = b
    (int64 i, bool c, float[1,16] h, float[1,16] m, int64 n)
    => (bool goes, float[1,16] hn, float[1,16] mn, int64 nn, float[1,16] o)
    <int64 one = {{1}}, int64 last = {{{steps}}}> {{
    xt = Gather <axis = 1> (x, n)
    z1 = MatMul (xt, w)
    z2 = MatMul (h, u)
    z3 = Add (z1, z2)
    z = Add (z3, b)
    a0, a1, a2, a3 = Split <axis = 1> (z)
    gi = Sigmoid (a0)
    gf = Sigmoid (a1)
    gg = Tanh (a2)
    go2 = Sigmoid (a3)
    t1 = Mul (gf, m)
    t2 = Mul (gi, gg)
    mn = Add (t1, t2)
    t3 = Tanh (mn)
    hn = Mul (go2, t3)
    o = Identity (hn)
    nn = Add (n, one)
    more = Less (nn, last)
    goes = And (more, c)
  }}>
  y = Relu (hl)
}}
"""
WEIGHTS = {"w": numbers(8, 64), "u": numbers(16, 64, seed=1), "b": numbers(64, seed=2)}
ZEROS = {"h0": np.zeros((1, 16), "f4"), "c0": np.zeros((1, 16), "f4")}


@pytest.mark.parametrize("length", [2, 7])
def test_an_lstm_of_keras_is_a_loop(length: int) -> None:
    program = same_as_onnx_runtime(parsed(KERAS.format(steps=length), **WEIGHTS, **ZEROS))
    assert steps(program) == [length]


SCANS = {
    "two states": (
        [6],
        """
    g (float[6,3] x, float[3] s0, float[3] m0) => (float[3] s, float[3] m, float[6,3] a, float[6,3] b) {
      s, m, a, b = Scan <num_scan_inputs = 1, scan_output_directions = [0, 1], body = q
        (float[3] s_in, float[3] m_in, float[3] e) => (float[3] s_out, float[3] m_out, float[3] ao, float[3] bo) {
        s_out = Add (s_in, e)
        m_out = Max (m_in, s_out)
        ao = Mul (s_out, m_in)
        bo = Identity (m_out)
      }> (s0, m0, x)
    }""",
    ),
    "other axes and directions": (
        [6],
        """
    g (float[3,6] x, float[3] s0) => (float[3] s, float[3,6] a) {
      s, a = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [-1],
        scan_output_directions = [1], body = q (float[3] s_in, float[3] e) => (float[3] s_out, float[3] ao) {
        k = Mul (s_in, w)
        s_out = Add (k, e)
        ao = Identity (s_out)
      }> (s0, x)
    }""",
    ),
    "a loop in a loop": (
        [4, 5],
        """
    g (float[4,5,3] x, float[3] s0) => (float[3] s, float[4,5,3] a) {
      s, a = Scan <num_scan_inputs = 1, body = q (float[3] s_in, float[5,3] rows) => (float[3] s_out, float[5,3] ao) {
        half = Mul (s_in, w)
        s_out, ao = Scan <num_scan_inputs = 1, body = p (float[3] t_in, float[3] e) => (float[3] t_out, float[3] bo) {
          k = Mul (t_in, w)
          k2 = Add (k, s_in)
          t_out = Add (k2, e)
          bo = Tanh (t_out)
        }> (half, rows)
      }> (s0, x)
    }""",
    ),
    "a state of the outer loop that the inner one scans": (
        [3, 2],
        """
    g (float[3,2,3] x, float[2,3] s0, float[2,3] u0) => (float[2,3] s, float[3,2,3] a) {
      s, u, a = Scan <num_scan_inputs = 1, scan_output_directions = [1], body = q
        (float[2,3] s_in, float[2,3] u_in, float[2,3] e) => (float[2,3] s_out, float[2,3] u_out, float[2,3] ao)
        <int64 one = {1}> {
        row = Gather (s_in, one)
        last, made = Scan <num_scan_inputs = 1, scan_output_directions = [1], body = p
          (float[3] t_in, float[3] f) => (float[3] t_out, float[3] bo) {
          k = Add (t_in, f)
          t_out = Tanh (k)
          bo = Identity (t_out)
        }> (row, u_in)
        s_out = Identity (made)
        u_out = Sub (u_in, e)
        ao = Identity (s_out)
      }> (s0, u0, x)
    }""",
    ),
    "states that are passed through": (
        [4],
        """
    g (float[4,3] x, float[3] s0) => (float[3] s, float[3] u, float[4,3] a) {
      s, u, a = Scan <num_scan_inputs = 1, body = q
        (float[3] s_in, float[3] u_in, float[3] e) => (float[3] s_out, float[3] u_out, float[3] ao) {
        s_out = Identity (e)
        u_out = Identity (s_in)
        ao = Identity (u_in)
      }> (s0, s0, x)
    }""",
    ),
    "constants alone": (
        [4],
        """
    g (float[3] s0) => (float[3] s, float[4,3] a) {
      s, a = Scan <num_scan_inputs = 1, body = q (float[3] s_in, float[3] e) => (float[3] s_out, float[3] ao) {
        s_out = Mul (s_in, e)
        ao = Add (s_out, w)
      }> (s0, rows)
    }""",
    ),
    "parts of wider tensors": (
        [3, 3],
        """
    g (float[3,2,6] x, float[2,6] both) => (float[2,6] last, float[3,2,6] a) {
      s0, u0 = Split <axis = 1> (both)
      x0, x1 = Split <axis = 2> (x)
      s, a0 = Scan <num_scan_inputs = 1, body = q (float[2,3] s_in, float[2,3] e) => (float[2,3] s_out, float[2,3] ao) {
        k = Mul (s_in, u0)
        s_out = Add (k, e)
        ao = Tanh (s_out)
      }> (s0, x0)
      u, a1 = Scan <num_scan_inputs = 1, body = p (float[2,3] t_in, float[2,3] f) => (float[2,3] t_out, float[2,3] bo) {
        t_out = Mul (t_in, f)
        bo = Identity (t_out)
      }> (u0, x1)
      last = Concat <axis = 1> (s, u)
      a = Concat <axis = 2> (a0, a1)
    }""",
    ),
    "slices of which another tensor takes the place": (
        [4],
        """
    g (float[4,2,3] x, float[2,3] s0) => (float[4,2,3] y, float[2,3] z)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}> {
      s, a = Scan <num_scan_inputs = 1, body = q (float[2,3] s_in, float[2,3] e) => (float[2,3] s_out, float[2,3] ao) {
        h = Mul (s_in, e)
        s_out = Tanh (h)
        ao = Identity (s_out)
      }> (s0, x)
      kept = Slice (a, zero, three, zero)
      first = Slice (x, zero, one, zero)
      new = MatMul (first, square)
      joined = Concat <axis = 0> (kept, new)
      y = MatMul (joined, square)
      most = ReduceMax <keepdims = 0> (y)
      z = Mul (s, most)
    }""",
    ),
}
KNOWN = {"w": numbers(3), "rows": numbers(4, 3, seed=1), "square": numbers(3, 3, seed=2)}


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_is_a_loop(name: str) -> None:
    lengths, text = SCANS[name]
    used = {name: value for name, value in KNOWN.items() if re.search(rf"\b{name}\b", text)}
    assert steps(same_as_onnx_runtime(parsed(text, **used))) == lengths


LOOP = """
g (float[6,3] x, float[3] s0) => ({outputs}) <int64 trips = {{{trips}}}, bool go = {{1}}, int64 n0 = {{{first}}}> {{
  {made} = Loop ({limit}, {condition}, {states}) <body = b (int64 i, bool c, {formal}) => ({results})
    <int64 one = {{1}}, int64 two = {{2}}, int64 last = {{3}}> {{
    {body}
  }}>
}}
"""


def loop(
    body: str,
    *,
    trips: int = 5,
    first: int = 0,
    limit: str = "trips",
    condition: str = "go",
    emitted: str = "",
    counts: bool = True,
) -> OnnxModel:
    """A Loop with the state `s` of data, which becomes `t`, and `n`, which becomes `m`; `on` says if it goes on."""
    more = [f"float[{trips},3] all"] if emitted else []
    return parsed(
        LOOP.format(
            outputs=", ".join(["float[3] y", *(["int64 k"] if counts else []), *more]),
            trips=trips,
            first=first,
            made=", ".join(["y", *(["k"] if counts else []), *(["all"] if emitted else [])]),
            limit=limit,
            condition=condition,
            states=", ".join(["s0", *(["n0"] if counts else [])]),
            formal=", ".join(["float[3] s", *(["int64 n"] if counts else [])]),
            results=", ".join(
                [
                    "bool on",
                    "float[3] t",
                    *(["int64 m"] if counts else []),
                    *([f"float[3] {emitted}"] if emitted else []),
                ]
            ),
            body=body,
        )
    )


STEP = "e = Gather <axis = 0> (x, {place}) t0 = Add (s, e) t = Tanh (t0) "
LOOPS = {
    "no tensor of all steps": loop(STEP.format(place="i") + "on = Identity (c)", counts=False),
    "a tensor of all steps": loop(STEP.format(place="i") + "on = Identity (c) r = Neg (t)", counts=False, emitted="r"),
    "the places run backwards": loop(STEP.format(place="n") + "m = Sub (n, one) on = Identity (c)", first=4),
    "the places count from the end": loop(STEP.format(place="n") + "m = Add (n, one) on = Identity (c)", first=-6),
    "every other place": loop(STEP.format(place="n") + "m = Add (n, two) on = Identity (c)", trips=3),
    "the same place": loop(STEP.format(place="n") + "m = Identity (n) on = Identity (c)", first=2),
    "a condition that is computed": loop(STEP.format(place="n") + "m = Add (n, one) on = Less (m, last)"),
    "a condition alone": loop(STEP.format(place="n") + "m = Add (n, one) on = Less (m, last)", limit=""),
    "no condition": loop(STEP.format(place="n") + "m = Add (n, one) on = Identity (c)", condition=""),
    "a tensor of the counter": loop(
        "m = Add (n, one) f = Cast <to = 1> (m) t = Mul (s, f) r = Sub (t, f) on = Identity (c)", emitted="r"
    ),
    "what data makes of the counter": loop("m = Add (n, one) f = Cast <to = 1> (i) t = Pow (s, f) on = Identity (c)"),
    "a state that stays": loop("t = Identity (s) r = Neg (s) on = Identity (c)", counts=False, emitted="r"),
}
LENGTHS = {"every other place": 3, "a condition that is computed": 3, "a condition alone": 3}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_a_loop(name: str) -> None:
    assert steps(same_as_onnx_runtime(LOOPS[name])) == [LENGTHS.get(name, 5)]


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_one_iteration_and_none_are_no_loop(trips: int) -> None:
    model = loop(STEP.format(place="i") + "on = Identity (c)", trips=trips, counts=False)
    assert steps(same_as_onnx_runtime(model)) == [2] * (trips == 2)


def test_a_tensor_of_one_iteration_is_no_loop() -> None:
    model = loop(STEP.format(place="i") + "on = Identity (c) r = Neg (t)", trips=1, counts=False, emitted="r")
    assert steps(same_as_onnx_runtime(model)) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_loop_whose_end_depends_on_data_is_refused_by_name(known: bool) -> None:
    text = """
    g (float[3] x{limit}) => (float[3] y) <int64 {trips} = {{5}}, bool go = {{1}}, float top = {{4}}> {{
      y = Loop (trips, go, x) <body = b (int64 i, bool c, float[3] s) => (bool on, float[3] t) {{
        t = Add (s, s)
        most = ReduceMax <keepdims = 0> (t)
        on = {on}
      }}>
    }}
    """
    given = {"limit": "", "trips": "trips", "on": "Less (most, top)"}
    if not known:
        given = {"limit": ", int64 trips", "trips": "unused", "on": "Identity (c)"}
    with pytest.raises(
        UnsupportedOperator, match="node 'y': operator Loop has a number of iterations that is not known"
    ):
        import_onnx(parsed(text.format(**given)))


def test_a_state_that_grows_has_iterations_one_after_another() -> None:
    text = """
    g (float[1,3] x) => (float[4,3] y) <int64 trips = {3}, bool go = {1}, int64[1] first = {0}, int64[2] row = {1, 3}> {
      y = Loop (trips, go, x) <body = b (int64 i, bool c, float[p,3] s) => (bool on, float[q,3] t) {
        k = Mul (s, s)
        sum = ReduceSum <keepdims = 1> (k, first)
        more = Expand (sum, row)
        t = Concat <axis = 0> (k, more)
        on = Identity (c)
      }>
    }
    """
    assert steps(same_as_onnx_runtime(parsed(text))) == []


def test_a_loop_in_a_scan_in_a_branch_stays_one() -> None:
    text = """
    g (bool c, float[4,5,3] x, float[3] s0) => (float[3] y) <int64 trips = {5}, bool go = {1}> {
      y = If (c) <
        then_branch = scanned () => (float[3] a) {
          a = Scan <num_scan_inputs = 1, body = q (float[3] s, float[5,3] rows) => (float[3] t) {
            t = Loop (trips, go, s) <body = b (int64 i, bool on, float[3] u) => (bool still, float[3] v) {
              e = Gather <axis = 0> (rows, i)
              v0 = Mul (u, e)
              v1 = Add (v0, s)
              v = Tanh (v1)
              still = Identity (on)
            }>
          }> (s0, x)
        },
        else_branch = negated () => (float[3] b) { b = Neg (s0) }
      >
    }
    """
    assert steps(same_as_onnx_runtime(parsed(text))) == [4, 5]


LAYERS = """
g (float[5,2,3] x, float[1,2,4] h0, float[1,2,4] c0)
  => (float[5,1,2,4] b, float[1,2,4] bh, float[1,2,4] bc, float[1,2,4] ac) <int64[1] one = {1}> {
  a, ah, ac = LSTM <hidden_size = 4> (x, w, r, , , h0, c0)
  rows = Squeeze (a, one)
  b, bh, bc = LSTM <hidden_size = 4, direction = "reverse"> (rows, u, r, , , ah, ac)
}
"""


def test_a_layer_begins_with_the_last_state_of_another() -> None:
    weights = {"w": numbers(1, 16, 3), "r": numbers(1, 16, 4, seed=1), "u": numbers(1, 16, 4, seed=2)}
    program = same_as_onnx_runtime(parsed(LAYERS, **weights))
    assert steps(program) == [5, 5]


def test_layers_in_both_branches_are_loops() -> None:
    text = """
    g (bool c, float[5,1,3] x) => (float[1,1,4] y) {
      y = If (c) <
        then_branch = p () => (float[1,1,4] a) { u, a = LSTM <hidden_size = 4> (x, w, r) },
        else_branch = q () => (float[1,1,4] b) { v, b = GRU <hidden_size = 4, direction = "reverse"> (x, z, s) }
      >
    }
    """
    weights = {"w": (16, 3), "r": (16, 4), "z": (12, 3), "s": (12, 4)}
    drawn = {name: numbers(1, *shape, seed=n) for n, (name, shape) in enumerate(weights.items())}
    assert steps(same_as_onnx_runtime(parsed(text, **drawn))) == [5, 5]


def test_two_calls_of_one_kernel_in_a_step() -> None:
    text = """
    g (float[5,4] x, float[4] s0) => (float[4] s, float[5,4] all) {
      s, all = Scan <num_scan_inputs = 1, body = b (float[4] s_in, float[4] e) => (float[4] s_out, float[4] o) {
        s_out = Mul (s_in, e)
        o = Mul (s_out, e)
      }> (s0, x)
    }
    """
    assert steps(same_as_onnx_runtime(parsed(text))) == [5]


def test_large_weights_in_a_loop_in_a_loop() -> None:
    text = """
    g (float[3,4,160] x, float[160] s0) => (float[160] s) {
      s = Scan <num_scan_inputs = 1, body = b (float[160] s_in, float[4,160] rows) => (float[160] s_out) {
        s_out = Scan <num_scan_inputs = 1, body = c (float[160] t_in, float[160] e) => (float[160] t_out) {
          k = MatMul (t_in, w)
          t = Add (k, e)
          t_out = Tanh (t)
        }> (s_in, rows)
      }> (s0, x)
    }
    """
    assert steps(same_as_onnx_runtime(parsed(text, w=numbers(160, 160) / 8))) == [3, 4]


TABLES = """
g (float[{rows},3] x) => (float[3] y) <int64 trips = {{{steps}}}, bool go = {{1}}, int64 two = {{2}}> {{
  zero = Constant <value = float[3] {{0, 0, 0}}> ()
  y = Loop (trips, go, zero) <body = b (int64 i, bool c, float[3] s) => (bool on, float[3] t) {{
    on = Identity (c)
    {step}
  }}>
}}
"""


def test_elements_gathered_at_known_places_are_slices() -> None:
    step = "at = Mul (i, two) e = Gather (x, at) t = Add (s, e)"
    program = same_as_onnx_runtime(parsed(TABLES.format(rows=12, steps=6, step=step)))
    assert steps(program) == [6]
    (loop,) = program.loops
    inside = [program.kernels[call.kernel] for call in program.calls[loop.start : loop.stop]]
    assert {param.dtype for kernel in inside for param in kernel.params} == {"float32"}, "no place is read in a step"


def test_a_large_value_of_constants_and_the_counter_is_computed_in_each_iteration() -> None:
    step = "f = Cast <to = 1> (i) scaled = Mul (w, f) p = MatMul (s, scaled) e = Gather (x, i) t = Add (p, e)"
    program = same_as_onnx_runtime(parsed(TABLES.format(rows=20, steps=20, step=step), w=numbers(3, 3) / 8))
    assert program.constant_bytes < 20 * 9 * 4 + 200, "nine elements may be a table"
    wide = (
        TABLES.replace("float[3]", "float[64]").replace(",3]", ",64]").replace("{{0, 0, 0}}", "{{" + "0, " * 63 + "0}}")
    )
    program = same_as_onnx_runtime(parsed(wide.format(rows=20, steps=20, step=step), w=numbers(64, 64) / 64))
    assert steps(program) == [20]
    assert program.constant_bytes < 2 * 64 * 64 * 4, "a table would take 20 times the weights"


def test_a_counter_of_many_iterations_takes_little_time_to_follow() -> None:
    step = "a = Add (i, two) b = Mul (a, two) m = Mod (b, trips) f = Cast <to = 1> (m) q = Add (s, f)"
    step += " r = ReduceMax <keepdims = 0> (x) t = Mul (q, r)"
    program = to_program(import_onnx(parsed(TABLES.format(rows=1, steps=3000, step=step))))
    assert steps(program) == [3000]
