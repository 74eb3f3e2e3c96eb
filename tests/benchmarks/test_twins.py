"""Twins: expressions of the corpus as ONNX nodes and as registered operators compute the same values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.oracle.corpus import LISTS, corpus
from benchmarks.oracle.doors import Door, DoorKernel, Doors, difference, doors_of, lines, summary
from benchmarks.oracle.facts import KernelFacts
from benchmarks.oracle.twins.said import COUNT, MOST_NODES, SAYABLE, onnx_twin, operator_twin, twins
from benchmarks.search.cases import expression_named, names_of
from edgetune.graph.evaluate import evaluate_program

SHARED = Path(__file__).parents[3] / "shared" / "models"
ERROR = 1e-5
IN_TURN = 5e-3
"""Of millions of squares that ONNX Runtime adds one after another in float32."""


def evaluated(subject: str) -> np.ndarray:
    """What the program of a subject of the corpus computes for the values of its expression."""
    case = expression_named(subject.removeprefix("onnx_").removeprefix("operator_"))
    (answer,) = evaluate_program(corpus(SHARED)[subject].read().program(), [case.values(case.inputs)])[0].values()
    return answer


def of_terms(name: str, answer: np.ndarray) -> float:
    """The error of an answer as a share of its terms; of a case without a definition in double, of its largest one.

    Such a case is evaluated as an expression, which sums in double.
    """
    case = expression_named(name)
    if case.reference is not None:
        return case.error(answer)
    wanted = evaluated(name)
    assert answer.shape == wanted.shape
    return float(np.max(np.abs(answer - wanted)) / np.max(np.abs(wanted)))


def test_the_forty_are_drawn_from_what_can_be_said() -> None:
    assert len(SAYABLE) >= 55
    assert len(set(twins())) == COUNT
    assert set(twins()) < SAYABLE.keys()
    assert SAYABLE.keys() <= {name for one in LISTS for name in names_of(one)}


def test_the_forty_are_in_the_corpus() -> None:
    subjects = corpus(SHARED)
    for name in twins():
        assert {f"onnx_{name}", f"operator_{name}", name} <= subjects.keys()


@pytest.mark.parametrize("name", sorted(SAYABLE))
def test_a_graph_is_short_and_valid(name: str) -> None:
    model = onnx_twin(name)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) <= MOST_NODES


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SAYABLE))
def test_onnx_runtime_computes_the_expression(name: str) -> None:
    case, content = expression_named(name), onnx_twin(name).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    error = IN_TURN if name.startswith("nrm_") else ERROR
    assert of_terms(name, session.run(None, case.values(case.inputs))[0]) < error


@pytest.mark.long
@pytest.mark.parametrize("name", twins())
def test_the_doors_compute_the_same_values(name: str) -> None:
    """Each as its own program: rewrites of expressions, the importer, and the import of the operator."""
    for subject in (name, f"onnx_{name}", f"operator_{name}"):
        assert of_terms(name, evaluated(subject)) < ERROR, subject


def test_an_operator_is_one_node_with_the_constants_of_the_expression() -> None:
    model = operator_twin("c1d_2_b1")
    (node,) = model.graph.node
    assert (node.op_type, list(node.input)) == ("OracleC1d2B1", ["x", "w"])
    assert [one.name for one in model.graph.initializer] == ["w"]


TEXT = "void p__f(const float *restrict x)\n{\n    x[0] = 1;\n}\n"
KERNEL = DoorKernel(KernelFacts("f", TEXT, "[]", 100.0), "hash", 1, 0)
DOOR = Door((KERNEL,))


def with_text(old: str, new: str) -> DoorKernel:
    return replace(KERNEL, facts=replace(KERNEL.facts, text=TEXT.replace(old, new)))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (DOOR, ""),
        (Door((with_text("p__f", "q__other"),)), ""),
        (Door((KERNEL, KERNEL)), "partition of the onnx makes 2 kernels: f, f"),
        (Door(failure="no such operator"), "the onnx fails: no such operator"),
        (
            Door((replace(with_text("1", "2"), scratch=1024),)),
            "f: the same function, with at most 1,024 bytes of scratch instead of 0",
        ),
        (Door((replace(with_text("1", "2"), workload="other", stages=3),)), "f: 3 stages instead of 1"),
        (
            Door((replace(with_text("1", "2"), workload="other"),)),
            "f: as many stages with other loops or operands",
        ),
    ],
)
def test_reasons(other: Door, reason: str) -> None:
    assert difference(DOOR, other, "onnx") == reason


def test_an_expression_that_is_divided_is_the_reason() -> None:
    assert difference(Door((KERNEL, KERNEL)), DOOR, "operator") == "the expression is divided into 2 kernels: f, f"


def test_a_summary_counts_equal_kernels_and_costs() -> None:
    dear = Door((replace(with_text("1", "2"), workload="other", facts=replace(KERNEL.facts, text="2", cycles=150.0)),))
    unknown = Door((replace(KERNEL, facts=replace(KERNEL.facts, text="3", cycles=None)),))
    found = [
        Doors("same", 128, {"expression": DOOR, "onnx": DOOR, "operator": DOOR}),
        Doors("dear", 128, {"expression": DOOR, "onnx": dear, "operator": DOOR}),
        Doors("unknown", 128, {"expression": DOOR, "onnx": unknown, "operator": unknown}),
    ]
    assert list(summary(found)) == [
        "128 bits: of 3 expressions, the three doors make the same kernels of 1",
        "  onnx as the expression: 1; of 2 with a prediction, 1 cost more and 0 less",
        "  operator as the expression: 2; of 2 with a prediction, 0 cost more and 0 less",
    ]
    assert list(lines(found[1]))[:2] == ["dear at 128 bits", "  expression 1 kernel, 100 cycles"]


@pytest.mark.long
def test_doors_of_a_division() -> None:
    """A square matrix product with one row has three equal kernels; distances lie across lanes, so one door divides."""
    found = doors_of(SHARED, "new_vector_matrix", 128)
    assert [found.reason(door) for door in ("onnx", "operator")] == ["", ""]
    found = doors_of(SHARED, "new_squared_distances", 128)
    assert len(found.doors["onnx"].kernels) == len(found.doors["operator"].kernels) == 1
    assert len(found.doors["expression"].kernels) == (2 if found.reason("onnx") else 1)
