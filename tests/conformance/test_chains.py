"""Chains of operators through the emitted C: a slice of what `make conformance` runs, and that none is missing."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from edgetune.frontend.onnx.decompositions import DECOMPOSITIONS
from edgetune.frontend.onnx.importer import _has_converter
from tests.conformance.chains import BY_KEY, CHAINS
from tests.conformance.chains_decomposed import ALONE, DECOMPOSED, FUNCTIONS
from tests.conformance.judge import judge
from tests.conformance.report import runtime_section, support_text

_SLICE = """
QLinearConv; QLinearConv before 13; QLinearConv per channel with bias; QLinearConv of one axis; QLinearMatMul
ConvInteger through DynamicQuantizeLinear; QuantizeLinear, DequantizeLinear of float8e4m3fn
QuantizeLinear, DequantizeLinear of int4; QuantizeLinear, DequantizeLinear in blocks; Cast to float4e2m1 and back
GRU; OneHot; Pow of integers; Mod of floats; Celu; Attention; If; Loop; Scan
Conv between QuantizeLinear and DequantizeLinear, QLinearConv, QLinearMatMul
QLinearMatMul, Slice, Pad, Cast, Mod, Pow of two types
"""
_QUANTISED = {
    *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QuantizeLinear", "DequantizeLinear"),
    "DynamicQuantizeLinear",
}
_BY_NAME = {chain.name: chain.key for chain in CHAINS}


@pytest.mark.parametrize("name", [n.strip() for line in _SLICE.strip().splitlines() for n in line.split(";")])
def test_chain(name: str, tmp_path: Path) -> None:
    assert judge(_BY_NAME[name], tmp_path) == ("passed", "")


def _operators(texts: tuple[str, ...]) -> list[str]:
    return [onnx.parser.parse_node(text).op_type for text in texts]


def _in_chains() -> set[str]:
    """Operators that occur twice or more in one chain."""
    found = [_operators(chain.nodes) for chain in CHAINS]
    return {name for names in found for name in names if names.count(name) > 1}


def test_every_decomposed_operator_has_a_chain_or_a_reason() -> None:
    inlined = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if (schema.has_function or schema.has_context_dependent_function)
        and not _has_converter(helper.make_node(schema.name, [], [""] * schema.min_output, domain=schema.domain))
    }
    assert {"Celu", "Swish"} < inlined
    assert _in_chains() | set(ALONE) >= inlined | set(DECOMPOSITIONS) | _QUANTISED | {"If", "Loop", "Scan", "Cast"}
    assert not _in_chains() & set(ALONE)


def test_chains_go_by_the_operator_they_are_of() -> None:
    for chain in (*DECOMPOSED, *FUNCTIONS):
        assert chain.name.split()[0] in _operators(chain.nodes)
    assert len(BY_KEY) == len(CHAINS)


def test_chains_have_a_table_of_their_own() -> None:
    nodes = [{"name": "test_a", "status": "passed", "reason": ""}]
    refused = {"name": "chain_Celu", "status": "wrong", "reason": "1 | 2"}
    text = support_text(nodes, {"chain_Celu": refused, "chain_GRU": {"status": "passed", "reason": ""}})
    assert "\n1 of 1\n" in text
    assert "1 of 2 chains pass.\n" in text
    assert "| Celu | wrong | 1 / 2 |\n" in text
    assert "| STFT | cannot follow itself |" in text


def test_the_committed_table_has_every_chain() -> None:
    committed = (Path(__file__).parents[2] / "SUPPORT.md").read_text()
    for chain in CHAINS:
        assert f"\n| {chain.name} | " in committed, f"run `make conformance`: {chain.name} is not in SUPPORT.md"


def test_the_committed_table_has_every_operator_of_onnx_runtime() -> None:
    assert runtime_section() in (Path(__file__).parents[2] / "SUPPORT.md").read_text(), "run `make conformance`"
