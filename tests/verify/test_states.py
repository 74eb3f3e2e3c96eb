"""Packages with states in Python and in `verify`: runs go on from each other, and each layer is seen as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgetune
from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import WrongResult
from edgetune.package.golden import GoldenCases
from edgetune.package.rendering import render
from edgetune.verify.layers import run_layers
from edgetune.verify.verify import verify
from tests import package_sample, state_sample

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[edgetune.Package]:
    folder = tmp_path_factory.mktemp("keeping") / "package"
    package_sample.emit_keeping(folder)
    with edgetune.Package.open(folder) as opened:
        yield opened


def test_runs_in_python_go_on_until_a_reset(package: edgetune.Package) -> None:
    _, cases = package_sample.keeping()
    assert [(state.name_in, state.name_out) for state in package.states] == [("h", "h_next")]
    for again in range(2):
        package.reset()
        for number, case in enumerate(cases):
            if number and not case.goes_on:
                package.reset()
            if again:
                package.close()  # the next run needs another process
            np.testing.assert_allclose(package.run(x=case.inputs["x"])["y"], case.outputs["y"], rtol=1e-5)
    assert "state" in package._repr_html_()


def test_fresh_cases_are_sequences_too(package: edgetune.Package) -> None:
    _, cases = package_sample.keeping()
    assert verify(package.folder, fresh=GoldenCases(cases)).fresh_cases == len(cases)
    with pytest.raises(WrongResult, match="fresh case 1 is off"):
        verify(package.folder, fresh=GoldenCases([case._replace(goes_on=False) for case in cases]))


def test_a_layer_is_run_from_the_state_of_its_case(package: edgetune.Package) -> None:
    _, cases = package_sample.keeping()
    for case in cases[:2]:
        written = run_layers(package.folder, case).written
        found = [np.frombuffer(data[0], np.float32).reshape(4, 8) for data in written]
        np.testing.assert_allclose(found[0], case.outputs["y"], rtol=1e-5)
        np.testing.assert_allclose(found[1], case.outputs["h_next"], rtol=1e-5)


def test_a_model_is_built_verified_and_seen_layer_by_layer(tmp_path: Path) -> None:
    """Its copy at the end of a run is a layer as any other."""
    model = state_sample.cell(tmp_path / "cell.onnx")
    flags = CommandLineFlags(model=model, board="mps2-an500", states={"h0": "hn"}, out=tmp_path / "out")
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
    report = api.verify(tmp_path / "out", None, model, per_layer=lambda _: None)
    assert (report.golden_cases, report.fresh_cases) == (5, 4)
    assert [layer.name for layer in report.layers][-1] == "hn (copy)"
    assert not any(layer.departs for layer in report.layers)


def test_a_layer_that_is_wrong_for_a_state_alone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight is multiplied by the state, which is zero in the first case."""

    def changed(template: str, **context: Any) -> str:
        text = render(template, **context)
        return re.sub(r"(= \{\n *)[^,]+", r"\g<1>9.0f", text, count=1) if template == "core/weights.c.j2" else text

    model = state_sample.average(tmp_path / "average.onnx")
    monkeypatch.setattr("edgetune.package.package_file.render", changed)
    with pytest.raises(WrongResult, match=r"golden case \d is off .*; layer 0, multiply_add, .* departs first"):
        edgetune.load(model).build(states={"h0": "hn"}, out=tmp_path / "out")
