"""Every operator that is built, in all its forms and types, against LiteRT's kernels: one file for each type."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.double import evaluate_exactly
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.content import TfliteContent
from edgetune.frontend.tflite.operators import TRANSLATORS, translate
from edgetune.frontend.tflite.reader import read_content
from tests.frontend.tflite.branches import Branches
from tests.frontend.tflite.cases_hybrid import HYBRID
from tests.frontend.tflite.operator_table import CASES, HEADING, built_in, operators_section, refused
from tests.frontend.tflite.writer import Writer

_FLOAT = 1e-5
_LEAST_EQUAL = 0.95
_LEAST = {"FLOAT32": 75, "INT8": 45, "INT16": 15, "UINT8": 45}


def _branches(type_: str, names: Sequence[str]) -> Branches:
    branches = Branches(type_)
    for name in names:
        branches.random = np.random.default_rng(zlib.crc32(name.encode()))
        CASES[name][0](branches)
    return branches


def _read(path: Path, writer: Writer) -> TfliteContent:
    path.write_bytes(writer.content())
    return read_content(path)


def _translated(content: TfliteContent, type_: str, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    proto = translate(content).model({content.tensors[n].name: content.tensors[n].shape for n in content.inputs})
    model = model_from_proto(proto, content.sha256, "operators", {}, str(content.path))
    if type_ == "FLOAT32":
        return evaluate_model(model, [feeds], "onnxruntime")[0]
    return evaluate_exactly(model, [feeds])[0]


def difference(found: np.ndarray, right: np.ndarray, *, exact: bool) -> str:
    """What is wrong; "" where nothing is."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return f"{found.dtype}{found.shape} in place of {right.dtype}{right.shape}"
    if right.dtype == np.float32:
        largest = np.abs(right).max(initial=1e-30)
        most = np.abs(found.astype(np.float64) - right).max(initial=0.0) / largest
        return "" if most <= _FLOAT else f"differs by {most:.2g} of the largest"
    steps = np.abs(found.astype(np.int64) - right.astype(np.int64))
    equal = np.mean(steps == 0)
    right_enough = steps.max(initial=0) <= (0 if exact else 1) and equal >= (1.0 if exact else _LEAST_EQUAL)
    return "" if right_enough else f"differs by {steps.max()} steps, {equal:.1%} are equal"


def _wrong(branches: Branches, folder: Path) -> list[str]:
    """What differs from LiteRT, form by form."""
    (right,) = litert.evaluate(_read(folder / "shapeless.tflite", branches.writer), [branches.feeds])
    writer = branches.writer.reshaped({name: value.shape for name, value in right.items()})
    found = _translated(_read(folder / "operators.tflite", writer), branches.type, branches.feeds)
    wrong = []
    for form in branches.forms:
        for name in form.outputs:
            what = difference(found[name], right[name], exact=form.exact)
            wrong += [f"{name} {form.options} {what}"] if what else []
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("type_", ["FLOAT32", "INT8", "INT16", "UINT8"])
def test_every_operator_of_a_type_is_right(type_: str, tmp_path: Path) -> None:
    names = built_in(type_)
    assert len(names) >= _LEAST[type_]
    optimised = [name for name in names if type_ in litert.WITHOUT_REFERENCE.get(name, ())]
    groups = [name for name in names if name not in optimised], optimised
    wrong = [one for group in groups for one in _wrong(_branches(type_, group), tmp_path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_operators_of_floats_round_them_before_weights_of_integers(tmp_path: Path) -> None:
    branches = Branches("FLOAT32")
    for cases in HYBRID:
        cases(branches)
    wrong = _wrong(branches, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_every_translator_has_forms_that_are_compared() -> None:
    assert set(CASES) == set(TRANSLATORS)


def test_all_operators_that_are_not_built_are_named_at_once(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.input((2, 3), "FLOAT32")
    names = [name for name in refused() if name != "CUSTOM"]
    for name in names:
        writer.outputs.append(writer.tensor((2, 3), "FLOAT32", name=f"made by {name}"))
        writer.operator(name, [x], writer.outputs[-1:])
    with pytest.raises(UnsupportedOperator) as caught:
        translate(_read(tmp_path / "refused.tflite", writer))
    lost = [name for name in names if f"{name} (operator {names.index(name)}, which" not in caught.value.message]
    assert not lost
    assert all(f"'made by {name}'" in caught.value.message for name in names)


def test_the_table_of_operators_is_current() -> None:
    support = (Path(__file__).parents[3] / "SUPPORT.md").read_text()
    _, heading, rest = support.partition(HEADING)
    assert (heading + rest).startswith(operators_section())
