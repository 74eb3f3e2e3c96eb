"""Forms in which exporters write attention: each is one kernel, and computes what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.program import Program
from edgetune.schedule.sketches.spaces import rows_of
from tests.codegen_run import wide_target
from tests.graph.test_program import assert_same

BATCH, HEADS, QUERIES, KEYS, DEPTH, GROUP = 2, 4, 10, 17, 8, 2
_SHARED = HEADS // GROUP
_OUTSIDE = [0, 2, 1, 3]
_INFINITY = np.float32(np.inf)


@dataclass
class Graph:
    """Nodes, each called by its result, and tensors: `inputs` by shape (boolean if in `conditions`), `constants`."""

    inputs: dict[str, Sequence[int]]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    conditions: Sequence[str] = ()
    opset: int = 17
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def __call__(self, operator: str, *operands: object, **attributes: object) -> str:
        names = [one if isinstance(one, str) else self.constant(one) for one in operands]
        self.nodes.append(helper.make_node(operator, names, [f"r{len(self.nodes)}"], **attributes))
        return f"r{len(self.nodes) - 1}"

    def constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def program(self, *results: str) -> Program:
        """The program, compared with ONNX's evaluator."""
        kinds = {name: TensorProto.BOOL if name in self.conditions else TensorProto.FLOAT for name in self.inputs}
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return assert_same(model_from_proto(proto, "0" * 64, "model", None, "model.onnx"))


def of_heads(heads: int = HEADS, **others: Sequence[int]) -> dict[str, Sequence[int]]:
    """Inputs q, k and v with heads behind positions; k and v have `heads` of them."""
    shared = [BATCH, KEYS, heads, DEPTH]
    return {"q": [BATCH, QUERIES, HEADS, DEPTH], "k": shared, "v": shared, **others}


def outside(g: Graph, *names: str) -> list[str]:
    return [g("Transpose", name, perm=_OUTSIDE) for name in names]


def weights(g: Graph, q: str, k: str) -> str:
    """The softmax of q times k, of which k has positions before its depth."""
    return g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)


def scale_on_both_operands() -> tuple[Graph, str]:
    g = Graph(of_heads())
    q, k, v = outside(g, "q", "k", "v")
    turned = g("Mul", g("Transpose", k, perm=[0, 1, 3, 2]), np.float32(0.6))
    shares = g("Softmax", g("MatMul", g("Mul", q, np.float32(0.6)), turned), axis=-1)
    return g, g("Transpose", g("MatMul", shares, v), perm=_OUTSIDE)


def undefined_weights_are_zero() -> tuple[Graph, str]:
    """As torch writes it for a condition: a query without keys has the result 0."""
    g = Graph(of_heads(mask=[BATCH, 1, QUERIES, KEYS]), conditions=["mask"])
    q, k, v = outside(g, "q", "k", "v")
    bias = g("Where", "mask", np.float32(0), -_INFINITY)
    shares = g("Softmax", g("Add", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), bias), axis=-1)
    defined = g("Where", g("IsNaN", shares), np.float32(0), shares)
    return g, g("Transpose", g("MatMul", defined, v), perm=_OUTSIDE)


def heads_share_keys() -> tuple[Graph, str]:
    """As most language models write it: keys and values of one head are repeated for several."""
    g = Graph(of_heads(_SHARED))
    q, *shared = outside(g, "q", "k", "v")
    shape = [BATCH, _SHARED, GROUP, KEYS, DEPTH]
    wide = [g("Expand", g("Unsqueeze", one, np.array([2])), np.array(shape)) for one in shared]
    k, v = (g("Reshape", one, np.array([BATCH, HEADS, KEYS, DEPTH])) for one in wide)
    return g, g("Transpose", g("MatMul", weights(g, q, k), v), perm=_OUTSIDE)


def heads_in_groups() -> tuple[Graph, str]:
    g = Graph(of_heads(_SHARED))
    q, k, v = outside(g, "q", "k", "v")
    grouped = g("Reshape", q, np.array([BATCH, _SHARED, GROUP, QUERIES, DEPTH]))
    k, v = (g("Unsqueeze", one, np.array([2])) for one in (k, v))
    shares = g("Softmax", g("MatMul", grouped, g("Transpose", k, perm=[0, 1, 2, 4, 3])), axis=-1)
    joined = g("Reshape", g("MatMul", shares, v), np.array([BATCH, HEADS, QUERIES, DEPTH]))
    return g, g("Transpose", joined, perm=_OUTSIDE)


def heads_and_batch_are_one_axis() -> tuple[Graph, str]:
    """As torch's bmm has it, with a mask for each element of the batch."""
    g = Graph(of_heads(mask=[BATCH, 1, QUERIES, KEYS]))
    q, k, v = outside(g, "q", "k", "v")
    q = g("Reshape", q, np.array([BATCH * HEADS, QUERIES, DEPTH]))
    k, v = (g("Reshape", one, np.array([BATCH * HEADS, KEYS, DEPTH])) for one in (k, v))
    apart = g("Reshape", g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), np.array([BATCH, HEADS, QUERIES, KEYS]))
    scores = g("Reshape", g("Add", apart, "mask"), np.array([BATCH * HEADS, QUERIES, KEYS]))
    mixed = g("MatMul", g("Softmax", scores, axis=-1), v)
    return g, g("Transpose", g("Reshape", mixed, np.array([BATCH, HEADS, QUERIES, DEPTH])), perm=_OUTSIDE)


def windows_have_masks() -> tuple[Graph, str]:
    """As a Swin transformer has it: the batch is divided into windows, each with a mask of its own."""
    g = Graph(of_heads(bias=[1, HEADS, QUERIES, KEYS], mask=[1, 2, 1, QUERIES, KEYS]))
    q, k, v = outside(g, "q", "k", "v")
    scores = g("Add", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), "bias")
    windows = g("Add", g("Reshape", scores, np.array([BATCH // 2, 2, HEADS, QUERIES, KEYS])), "mask")
    joined = g("Reshape", windows, np.array([BATCH, HEADS, QUERIES, KEYS]))
    return g, g("Transpose", g("MatMul", g("Softmax", joined, axis=-1), v), perm=_OUTSIDE)


def weights_are_turned() -> tuple[Graph, str]:
    """As detectors write it on maps of channels before places: values times transposed weights."""
    maps = [BATCH, HEADS, DEPTH, KEYS]
    g = Graph({"q": maps, "k": maps, "v": [BATCH, HEADS, 12, KEYS]})
    scores = g("Mul", g("MatMul", g("Transpose", "q", perm=[0, 1, 3, 2]), "k"), np.float32(0.3))
    return g, g("MatMul", "v", g("Transpose", g("Softmax", scores, axis=-1), perm=[0, 1, 3, 2]))


def softmax_of_a_matrix() -> tuple[Graph, str]:
    """As before operator set 13, where softmax joins the axes before its own."""
    g = Graph(of_heads(), opset=11)
    q, k, v = outside(g, "q", "k", "v")
    shares = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), axis=3)
    return g, g("Transpose", g("MatMul", shares, v), perm=_OUTSIDE)


def queries_are_constant() -> tuple[Graph, str]:
    g = Graph({name: [BATCH, KEYS, DEPTH] for name in "kv"})
    latents = np.random.default_rng(1).standard_normal((1, QUERIES, DEPTH)).astype("float32")
    shares = g("Softmax", g("MatMul", latents, g("Transpose", "k", perm=[0, 2, 1])), axis=-1)
    return g, g("MatMul", shares, "v")


def masked(operator: str, shape: Sequence[int]) -> tuple[Graph, str]:
    g = Graph(of_heads(mask=shape), conditions=["mask"] if operator == "Where" else [])
    q, k, v = outside(g, "q", "k", "v")
    scores = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), np.float32(3))
    hidden = g("Add", "mask", scores) if operator == "Add" else g("Where", "mask", scores, np.float32(-1e9))
    return g, g("Transpose", g("MatMul", g("Softmax", hidden, axis=-1), v), perm=_OUTSIDE)


def operator(heads: int = HEADS, mask: Sequence[int] = (), **attributes: object) -> tuple[Graph, str]:
    """The operator Attention of operator set 23."""
    shared = [BATCH, heads, KEYS, DEPTH]
    inputs = {"q": [BATCH, HEADS, QUERIES, DEPTH], "k": shared, "v": shared}
    g = Graph(inputs | ({"mask": mask} if mask else {}), opset=23, conditions=["mask"])
    return g, g("Attention", "q", "k", "v", *(["mask"] if mask else []), **attributes)


FORMS = {
    one.__name__: one
    for one in (
        scale_on_both_operands,
        undefined_weights_are_zero,
        heads_share_keys,
        heads_in_groups,
        heads_and_batch_are_one_axis,
        windows_have_masks,
        weights_are_turned,
        softmax_of_a_matrix,
        queries_are_constant,
    )
}
MASKS = [("Add", [BATCH, 1, 1, KEYS]), ("Add", [HEADS, 1, 1]), ("Where", [KEYS]), ("Where", [1, HEADS, QUERIES, KEYS])]
OPERATORS = {
    "plain": operator(),
    "shared keys, causal": operator(heads=_SHARED, is_causal=1),
    "condition": operator(mask=[BATCH, 1, QUERIES, KEYS]),
    "capped": operator(softcap=3.0),
}


def assert_one_kernel(program: Program) -> None:
    """No kernel is a softmax, and a schedule knows the one that is attention."""
    names = [kernel.name for kernel in program.kernels]
    assert names.count("attention") == 1
    assert not any("softmax" in name or "matmul" in name or "broadcast" in name for name in names)
    assert rows_of(program.kernels[names.index("attention")].function, wide_target()) is not None


@pytest.mark.parametrize("name", sorted(FORMS))
def test_forms_of_exporters_are_one_kernel(name: str) -> None:
    g, result = FORMS[name]()
    assert_one_kernel(g.program(result))


@pytest.mark.parametrize(("kind", "shape"), MASKS, ids=str)
def test_masks_broadcast_in_any_way(kind: str, shape: Sequence[int]) -> None:
    g, result = masked(kind, shape)
    assert_one_kernel(g.program(result))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_the_operator_is_one_kernel(name: str) -> None:
    g, result = OPERATORS[name]
    assert_one_kernel(g.program(result))


def test_no_head_is_stored_twice_for_those_that_share_it() -> None:
    g, result = heads_share_keys()
    program = g.program(result)
    assert max(buffer.nbytes for buffer in program.buffers if buffer.kind == "intermediate") == (
        4 * BATCH * _SHARED * KEYS * DEPTH
    )


def test_weights_that_are_a_result_are_stored() -> None:
    g = Graph(of_heads())
    q, k, v = outside(g, "q", "k", "v")
    shares = weights(g, q, k)
    program = g.program(g("MatMul", shares, v), shares)
    assert "softmax" in [kernel.name for kernel in program.kernels]


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [([DEPTH], [2, DEPTH, KEYS], [KEYS, 5]), ([4, DEPTH], [DEPTH], [4, 5]), ([DEPTH], [DEPTH, KEYS], [KEYS])],
)
def test_products_with_vectors_are_no_attention(q: list[int], k: list[int], v: list[int]) -> None:
    """An operand of one axis has no rows; whatever reads it stays a kernel of its own."""
    g = Graph({"q": q, "k": k, "v": v})
    program = g.program(g("MatMul", g("Softmax", g("MatMul", "q", "k"), axis=-1), "v"))
    assert "attention" not in [kernel.name for kernel in program.kernels]


def test_weights_whose_definedness_is_a_result_are_computed_once() -> None:
    g = Graph(of_heads())
    q, k, v = outside(g, "q", "k", "v")
    shares = weights(g, q, k)
    undefined = g("IsNaN", shares)
    defined = g("Where", undefined, np.float32(0), shares)
    program = g.program(g("MatMul", defined, v), g("Cast", undefined, to=TensorProto.FLOAT))
    names = [kernel.name for kernel in program.kernels]
    assert "attention" not in names
    assert sum("softmax" in name for name in names) == 1
