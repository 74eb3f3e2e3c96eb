"""Text and numbers as C: whatever a model says, the compiler reads back what was meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.errors import UnsupportedOperator
from edgetune.package import ctext

ATTACKS = [
    "*/ int x; /*",
    "??/",
    "a\\",
    "\\\n#error",
    '"; exit(1); "',
    "%s%n",
    "\0",
    "\x1b[31m",
    "模\u202e型",
    "/*/",
    "***//",
]


@given(st.one_of(st.text(max_size=200), st.sampled_from(ATTACKS)))
def test_comments_stay_comments(text: str) -> None:
    made = ctext.comment(text)
    assert all(" " <= char <= "~" for char in made)
    assert not any(trap in made for trap in ("*/", "/*", "??", "\\"))
    assert len(made) <= 96


@given(st.one_of(st.text(max_size=100), st.sampled_from(ATTACKS)))
def test_markdown_stays_in_its_cell(text: str) -> None:
    made = ctext.markdown(text)
    assert "\n" not in made
    assert "|" not in made.replace("\\|", "")


def test_strings_are_read_back_by_the_compiler(tmp_path: Path) -> None:
    texts = [text for text in ATTACKS if "\0" not in text] + ["plain", "é\u00ff", "\t\r", "0\x017"]
    lines = "\n".join(f"    puts({ctext.string(text)});" for text in texts)
    source = tmp_path / "s.c"
    source.write_text(f"#include <stdio.h>\nint main(void)\n{{\n{lines}\n}}\n", encoding="ascii")
    command = ["gcc", "-std=c11", "-trigraphs", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(tmp_path / "s")]
    subprocess.run(command, check=True)
    done = subprocess.run([str(tmp_path / "s")], capture_output=True, check=True)
    assert done.stdout == b"".join(text.encode() + b"\n" for text in texts)


def arrays() -> list[np.ndarray]:
    made: list[np.ndarray] = [
        np.array([0.0, -0.0, 1 / 3, 1e-45, 3.4e38, np.inf, -np.inf, np.nan], np.float32),
        np.array([0.1, 5e-324, -1.7e308, np.inf, -np.inf, np.nan, -0.0], np.float64),
        np.array([1.0, -65504, 6e-8, np.inf, -0.0], np.float16),
        np.array([True, False, True]),
        np.zeros((0, 3), np.float32),
    ]
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(name)
        made.append(np.array([info.min, 0, 1, info.max], name))
    return made


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_arrays_are_read_back_bit_by_bit(tmp_path: Path, compiler: str) -> None:
    lines = ["#include <stdint.h>", "#include <stdio.h>"]
    writes = []
    for index, array in enumerate(arrays()):
        size = max(1, array.size)
        lines.append(
            f"static const {ctext.c_type(str(array.dtype))} a{index}[{size}] = {{\n{ctext.initializer(array)}\n}};"
        )
        writes.append(f"    fwrite(a{index}, 1, {array.nbytes}, stdout);")
    source = tmp_path / "a.c"
    source.write_text("\n".join([*lines, "int main(void)", "{", *writes, "    return 0;", "}", ""]), encoding="ascii")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    subprocess.run([compiler, *flags, str(source), "-o", str(tmp_path / "a")], check=True)
    done = subprocess.run([str(tmp_path / "a")], capture_output=True, check=True)
    assert done.stdout == b"".join(array.tobytes() for array in arrays())


def test_unknown_element_types_are_named() -> None:
    with pytest.raises(UnsupportedOperator, match="complex64"):
        ctext.c_type("complex64")
