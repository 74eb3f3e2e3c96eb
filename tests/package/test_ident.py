"""Identifiers out of names that nobody controls."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from edgetune.config.naming import MAX_PREFIX, RESERVED, RESERVED_PREFIXES
from edgetune.package.ident import kernel_symbol, package_prefix, unique_identifiers

NASTY = st.sampled_from(
    [
        "",
        "int",
        "class",
        "a b",
        "a_b",
        "a-b",
        "a_b_2",
        "A",
        "a",
        "9",
        "_",
        "__",
        "模型",
        "é",
        "*/",
        "\n",
        "\\",
        "linux",
        "x" * 99,
    ]
)
NAMES = st.lists(st.one_of(st.text(max_size=60), NASTY), max_size=12)


@given(NAMES)
def test_identifiers_are_valid_different_and_the_same_again(names: list[str]) -> None:
    made = unique_identifiers(names, "tensor")
    assert len(made) == len(names) == len(set(made))
    assert made == unique_identifiers(list(names), "tensor")
    for one in made:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", one)
        assert one not in RESERVED
        assert len(one) <= 63


@given(st.one_of(st.text(max_size=80), NASTY))
def test_prefixes_are_valid_and_shadow_no_header(name: str) -> None:
    prefix = package_prefix(name)
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", prefix)
    assert len(prefix) <= MAX_PREFIX
    assert prefix not in RESERVED_PREFIXES
    assert package_prefix(prefix) == prefix


@given(NAMES, NAMES)
def test_internal_symbols_of_two_packages_never_meet(kernels: list[str], others: list[str]) -> None:
    one = {kernel_symbol("kws", name) for name in unique_identifiers(kernels, "k")}
    two = {kernel_symbol("kws_k", name) for name in unique_identifiers(others, "k")}
    assert not one & two


def test_good_names_stay_and_others_give_way() -> None:
    assert unique_identifiers(["a b", "a_b", "A-B"], "t") == ("a_b_2", "a_b", "a_b_3")
    assert unique_identifiers(["int", "", "7", "été"], "input") == ("int_input", "input", "input_7", "ete")
    assert unique_identifiers(["x", "x"], "input") == ("x", "x_2")


def test_kernels_are_not_called_like_other_internal_symbols() -> None:
    others = {f"net__{word}" for word in ("cpu_supported", "w0", "weights", "test_weights", "vectors")}
    assert not others & {kernel_symbol("net", name) for name in ("cpu_supported", "w0", "weights", "vectors", "")}


def test_prefixes_that_cmake_or_the_linker_takes_for_something_else() -> None:
    assert [package_prefix(name) for name in ("all", "clean", "test", "m")] == [
        "all_net",
        "clean_net",
        "test_net",
        "m_net",
    ]


def test_prefixes_that_would_hide_a_standard_header() -> None:
    assert package_prefix("math") == "math_net"
    assert package_prefix("String.onnx") == "string_onnx"
    assert package_prefix("3d-net") == "net_3d_net"
