"""What a text in a program may be follows from its place: an evil one is found below any key, at any depth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.frontend.pytorch.program_check import complaints, is_size

_FIELDS = (
    *("graph_module", "graph", "nodes", "inputs", "outputs", "arg", "as_string", "as_strings", "metadata"),
    *("tensor_values", "sym_int_values", "custom_obj_values", "as_string_to_argument", "as_graph", "verifiers"),
    *("torch_version", "guards_code", "signature", "module_call_graph", "config", "tensor_meta", "expr_str", "x"),
)


def complains(document: Any) -> bool:
    return any(complaints(document, "program"))


@given(st.lists(st.sampled_from([*_FIELDS, "[]"]), max_size=12))
def test_code_in_a_size_is_found_below_any_key(path: list[str]) -> None:
    document: Any = {"expr_str": "__import__('os').system('id')"}
    for key in reversed(path):
        document = [document] if key == "[]" else {key: document}
    assert complains(document)


@pytest.mark.parametrize("escape", ["\\u005f_enum__", "\\\\u005F_enum__", "\\u005cu005f_enum__"])
def test_escapes_hide_no_class_of_an_enumeration(escape: str) -> None:
    def structure(context: str) -> dict[str, Any]:
        signature = {"in_spec": json.dumps([1, {"type": "builtins.dict", "context": "C"}]).replace("C", context)}
        return {"graph_module": {"module_call_graph": [{"signature": signature}]}}

    assert not complains(structure("\\u00fc"))
    assert complains(structure(escape))


SYMBOL = "Symbol('s48', positive=True, integer=True)"
_SIZES = st.recursive(
    st.sampled_from(["s77", "u0", "zf1", "12", "1.5", "True", SYMBOL, "Integer(-1)", "Float('1.5', precision=53)"]),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "//", "/", "%", "**", "<="]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["Max", "FloorDiv", "PythonMod", "Eq"]), inner, inner),
        st.builds("({})".format, inner),
    ),
)


@given(_SIZES)
def test_sizes_that_only_compute_are_known(text: str) -> None:
    assert is_size(text)


@given(_SIZES, st.sampled_from(["open", "exec", "getattr", "__import__", "S", "chr", "Symbol"]))
def test_a_size_with_any_other_name_is_refused(text: str, name: str) -> None:
    assert not is_size(f"{text} + {name}(1)")
    assert not is_size(text.replace("s77", name)) or "s77" not in text


@given(_SIZES, st.sampled_from([".", "'", '"', "[", "{", ";", ":", "\\", "@", "`", "$", "#"]))
def test_a_size_with_any_other_sign_is_refused(text: str, sign: str) -> None:
    assert not is_size(f"{text} {sign}")


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('os')",
        "Symbol('s1').func",
        "Symbol('s1', positive=open)",
        "Symbol('s1', x=True)('a')",
        "Symbol('s1'+'a')",
        "Symbol(Symbol('s1'))",
        "Float('open', precision=53)",
        "Float('1.5', precision=exit)",
    ],
)
def test_symbols_and_numbers_of_sympy_hold_nothing_else(text: str) -> None:
    assert not is_size(text)
