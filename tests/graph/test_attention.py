"""Which parts of a model become one kernel of attention, and that the model still means the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import helper

from edgetune.events import Event
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.graph.memory.plan import MemoryPlan, plan, scratch_limits
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.pipeline.link import print_kernels
from edgetune.pipeline.select import choose
from edgetune.schedule.sketches.spaces import rows_of
from tests.codegen_run import wide_target
from tests.graph.test_program import assert_same, model_of, random

_HEADS = [0, 2, 1, 3]


@dataclass(frozen=True)
class Model:
    """Attention of (1, queries, heads, depth) and so on; `scores` are operators between the product and the softmax.

    Each of `scores` is its name and the other operands, "x" where the scores go; the first operand if it is nowhere.
    """

    queries: int = 8
    keys: int = 16
    width: int = 16
    scores: tuple[tuple[str, ...], ...] = ()
    axis: int = -1
    outputs: tuple[str, ...] = ("y",)
    inputs: dict[str, list[int]] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    transposed: bool = True

    def program(self) -> Program:
        """The program of the model, compared with ONNX's evaluator."""
        heads, depth = 3, 8
        nodes = [
            helper.make_node("Transpose", ["q"], ["qt"], perm=_HEADS),
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]),
            helper.make_node("Transpose", ["v"], ["vt"], perm=_HEADS),
            helper.make_node("MatMul", ["qt", "kt"], ["x0"]),
        ]
        for number, (operator, *operands) in enumerate(self.scores):
            names = [f"x{number}" if name == "x" else name for name in operands]
            names = names if f"x{number}" in names else [f"x{number}", *names]
            nodes.append(helper.make_node(operator, names, [f"x{number + 1}"]))
        nodes.append(helper.make_node("Softmax", [f"x{len(self.scores)}"], ["weights"], axis=self.axis))
        nodes.append(helper.make_node("MatMul", ["weights", "vt"], ["mixed" if self.transposed else "y"]))
        if self.transposed:
            nodes.append(helper.make_node("Transpose", ["mixed"], ["y"], perm=_HEADS))
        inputs = {
            "q": [1, self.queries, heads, depth],
            "k": [1, self.keys, heads, depth],
            "v": [1, self.keys, heads, self.width],
            **self.inputs,
        }
        given = {name: shape for name, shape in inputs.items() if name not in self.constants}
        return assert_same(model_of(nodes, given, list(self.outputs), self.constants))


def names_of(program: Program) -> list[str]:
    return [kernel.name for kernel in program.kernels]


def _constant(value: float, *shape: int) -> np.ndarray:
    return np.full(shape, value, "float32")


_MASK = {"mask": [1, 1, 1, 16]}
RECOGNISED = {
    "plain": Model(),
    "not transposed": Model(transposed=False),
    "scaled": Model(scores=(("Div", "scale"),), constants={"scale": _constant(3.0)}),
    "scale of one element": Model(scores=(("Mul", "scale", "x"),), constants={"scale": _constant(0.3, 1, 1)}),
    "masked": Model(scores=(("Mul", "scale"), ("Add", "mask")), inputs=_MASK, constants={"scale": _constant(0.3)}),
    "masked by a constant": Model(scores=(("Add", "mask"),), constants={"mask": np.triu(_constant(-1e4, 8, 16), 1)}),
    "biased for each head": Model(scores=(("Sub", "bias", "x"),), inputs={"bias": [1, 3, 8, 16]}),
    "chosen": Model(
        scores=(("Where", "allowed", "x", "low"),),
        constants={"allowed": np.tri(8, 16, dtype="bool"), "low": _constant(-np.inf)},
    ),
    "chosen otherwise": Model(
        scores=(("Where", "hidden", "low", "x"),),
        constants={"hidden": ~np.tri(8, 16, dtype="bool"), "low": _constant(-3.4e38)},
    ),
    "capped": Model(scores=(("Div", "cap"), ("Tanh",), ("Mul", "cap")), constants={"cap": _constant(5.0)}),
    "one query": Model(queries=1, keys=32),
    "few keys": Model(keys=4, width=8),
    "one key": Model(keys=1),
    "no whole vectors of keys": Model(keys=17),
    "no whole vectors of columns": Model(width=24),
    "no whole tiles of queries": Model(queries=17),
    "nothing divides anything": Model(queries=197, keys=50, width=9),
}


@pytest.mark.parametrize("name", sorted(RECOGNISED))
def test_attention_is_one_kernel(name: str) -> None:
    program = RECOGNISED[name].program()
    assert names_of(program)[-1] == "attention"
    assert names_of(program)[:-1] in ([], ["transpose"])  # of several keys
    assert program.kernels[-1].macs == 3 * RECOGNISED[name].queries * RECOGNISED[name].keys * (
        8 + RECOGNISED[name].width
    )


OTHERS = {
    "over queries": Model(axis=-2),
    "scores are an output": Model(outputs=("y", "x0")),
    "weights are an output": Model(outputs=("y", "weights")),
    "scores used twice": Model(scores=(("Mul", "x", "x"),)),
    "values are constant": Model(constants={"v": random(np.random.default_rng(1), 1, 16, 3, 16)}),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_everything_else_stays_kernels_of_its_own(name: str) -> None:
    program = OTHERS[name].program()
    assert "attention" not in names_of(program)
    assert any("softmax" in kernel for kernel in names_of(program))


def test_what_follows_elementwise_is_in_the_kernel() -> None:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["x"]),
        helper.make_node("Softmax", ["x"], ["weights"]),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("Add", ["mixed", "other"], ["y"]),
    ]
    inputs = {"q": [2, 8, 4], "k": [2, 4, 16], "v": [2, 16, 8], "other": [2, 8, 8]}
    assert names_of(assert_same(model_of(nodes, inputs, ["y"], {}))) == ["attention_add"]


@pytest.mark.parametrize("between", [[], ["Relu"], ["Sigmoid", "Neg"]])
@pytest.mark.parametrize(("other", "fused"), [([4, 3, 8, 16], False), ([2, 1, 3, 8, 16], False), ([3, 8, 16], True)])
def test_attention_has_schedules_whatever_is_added_to_its_result(
    other: list[int], between: list[str], *, fused: bool
) -> None:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["x"]),
        helper.make_node("Softmax", ["x"], ["weights"]),
        helper.make_node("MatMul", ["weights", "v"], ["z0"]),
        *(helper.make_node(operator, [f"z{n}"], [f"z{n + 1}"]) for n, operator in enumerate(between)),
        helper.make_node("Add", [f"z{len(between)}", "other"], ["y"]),
    ]
    inputs = {"q": [1, 3, 8, 4], "k": [1, 3, 4, 16], "v": [1, 3, 16, 16], "other": other}
    program = assert_same(model_of(nodes, inputs, ["y"], {}))
    assert rows_of(program.kernels[0].function, wide_target()) is not None
    assert len(program.kernels) == (1 if fused else 2)


def test_a_transposed_result_that_broadcasts_is_attention_s_all_the_same() -> None:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["x"]),
        helper.make_node("Softmax", ["x"], ["weights"]),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["z"], perm=_HEADS),
        helper.make_node("Add", ["z", "other"], ["y"]),
    ]
    inputs = {"q": [1, 3, 8, 4], "k": [1, 3, 4, 16], "v": [1, 3, 16, 16], "other": [4, 8, 3, 16]}
    program = assert_same(model_of(nodes, inputs, ["y"], {}))
    assert names_of(program) == ["attention", "add"]
    assert rows_of(program.kernels[0].function, wide_target()) is not None


def test_the_memory_plan_leaves_room_for_a_few_queries() -> None:
    """Even where attention is all there is: the tensors that it spares would have taken far more."""
    program = Model(queries=64, keys=64).program()
    number = names_of(program).index("attention")
    assert scratch_limits(program)[number] >= program.kernels[number].scratch >= 2 * 24 * 64 * 4
    assert [kernel.scratch for kernel in program.kernels if kernel.name != "attention"] == [0]


@pytest.mark.parametrize("threads", [2, 8])
def test_each_thread_has_room_for_a_few_queries(threads: int) -> None:
    program = Model(queries=64, keys=64).program()
    number = names_of(program).index("attention")
    alone = program.kernels[number].scratch
    assert scratch_limits(program)[number] < threads * alone, "the arena has no room for so many"
    assert scratch_limits(program, threads)[number] >= threads * alone


@pytest.mark.long
def test_eight_threads_score_as_many_queries_at_a_time_as_one() -> None:
    program, board = Model(queries=64, keys=256).program(), wide_target().model_copy(update={"handover_cycles": 0})
    number = names_of(program).index("attention")
    events: list[Event] = []
    alone, shared = (choose(program, board, None, events.append, threads=threads) for threads in (1, 8))
    assert "blocks of 16 queries" in alone[number].provenance.why
    assert shared[number] == alone[number]
    assert print_kernels(program, shared, board, "p", events.append, 8).kernels[number].source.workers == 8
    assert events == []


def test_a_batch_that_broadcasts_is_read_once() -> None:
    nodes: list[onnx.NodeProto] = [
        helper.make_node("MatMul", ["q", "k"], ["x"]),
        helper.make_node("Softmax", ["x"], ["weights"]),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    inputs = {"q": [2, 3, 8, 4], "k": [2, 1, 4, 16], "v": [1, 3, 16, 8]}
    assert names_of(assert_same(model_of(nodes, inputs, ["y"], {}))) == ["attention"]


def speech_encoder(positions: int = 1500, channels: int = 384, heads: int = 6, *results: str) -> Program:
    """Self-attention between its four products with weights; `results` may name its "weights", as a second result."""
    random_numbers = np.random.default_rng(3)
    split = np.array([1, positions, heads, channels // heads])
    constants = {
        name: random(random_numbers, channels, channels) * np.float32(0.05) for name in ("wq", "wk", "wv", "wo")
    }
    nodes = []
    for name in "qkv":
        nodes.append(helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}1"]))
        nodes.append(helper.make_node("Reshape", [f"{name}1", "split"], [f"{name}2"]))
        axes = [0, 2, 3, 1] if name == "k" else _HEADS
        nodes.append(helper.make_node("Transpose", [f"{name}2"], [f"{name}t"], perm=axes))
    nodes += [
        helper.make_node("Mul", ["qt", "scale"], ["qs"]),
        helper.make_node("MatMul", ["qs", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"]),
        helper.make_node("MatMul", ["weights", "vt"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=_HEADS),
        helper.make_node("Reshape", ["turned", "joined"], ["flat"]),
        helper.make_node("MatMul", ["flat", "wo"], ["y"]),
        helper.make_node("ReduceMax", ["weights"], ["largest"], axes=[2]),
    ]
    shapes = {"split": split, "joined": np.array([1, positions, channels]), "scale": np.array(0.125, np.float32)}
    model = model_of(nodes, {"x": [1, positions, channels]}, ["y", *results], constants | shapes)
    return to_program(import_onnx(model))


def planned(program: Program, threads: int) -> tuple[MemoryPlan, dict[str, int]]:
    """The memory plan under default schedules, and the bytes of scratch by kernel's name."""
    board = wide_target().model_copy(update={"handover_cycles": 0})
    events: list[Event] = []
    choices = choose(program, board, None, events.append, threads=threads)
    printed = print_kernels(program, choices, board, "p", events.append, threads)
    scratch = {number: one.source.scratch_bytes for number, one in enumerate(printed.kernels)}
    assert events == []
    memory = plan(program, scratch, printed.in_place)
    return memory, {kernel.name: scratch[number] for number, kernel in enumerate(program.kernels)}


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 4])
def test_the_scores_of_1500_positions_are_never_in_memory_at_once(threads: int) -> None:
    """All of them once would be 54 MB."""
    memory, scratch = planned(speech_encoder(), threads)
    assert memory.arena_bytes <= 10_000_000
    assert 0 < scratch["attention"] <= 1_000_000


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 3])
def test_softmax_takes_the_place_of_scores_where_weights_are_read_again(threads: int) -> None:
    program = speech_encoder(150, 64, 4, "largest")
    assert "attention" not in names_of(program)
    scores = 4 * 4 * 150 * 150
    memory, _ = planned(program, threads)
    assert scores < memory.arena_bytes < 2 * scores
    assert any(program.buffers[one].nbytes == scores for one in memory.in_place)
