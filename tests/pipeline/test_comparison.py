"""Comparison of manifests: figures, how layers are matched, which times differ, what makes packages hard to compare."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetune.package.manifest import read_manifest
from edgetune.pipeline.comparison import PackageComparison, TimesInTurns, compare_manifests
from tests import package_sample

Manifest = dict[str, Any]
A, B = Path("old"), Path("new")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("comparison") / "tiny"
    package_sample.emit(folder, measure=False)
    return read_manifest(folder)


@pytest.fixture
def old(written: Manifest) -> Manifest:
    """A manifest of which all kernels were measured, with three layers named after nodes."""
    manifest = copy.deepcopy(written)
    for number, kernel in enumerate(manifest["kernels"]):
        kernel["provenance"] |= {"median_us": 1.0 + number, "low_us": 0.9 + number, "high_us": 1.1 + number}
    for layer, label in zip(manifest["layers"], ("/a (mul_add)", "/b (mul_add)", "/c (add)"), strict=True):
        layer["label"] = label
    manifest["memory"] |= {"code_bytes": 1000, "call_stack_bytes": 64, "weights_bytes": 96}
    return manifest


def compared(old: Manifest, new: Manifest, timing: TimesInTurns | None = None) -> PackageComparison:
    return compare_manifests((A, B), (old, new), timing)


def rows(found: PackageComparison) -> list[tuple[str, int | None, int | None, tuple[str, ...]]]:
    return [(layer.layer, layer.index_a, layer.index_b, layer.differs) for layer in found.layers]


def test_a_package_is_equal_to_itself(old: Manifest) -> None:
    found = compared(old, copy.deepcopy(old))
    assert (found.same_files, found.remarks, found.changed, found.layers, found.equal_layers) == (True, (), (), (), 3)
    assert {figure.name: figure.a for figure in found.figures} == {
        "workspace": 256,
        "arena": 256,
        "inputs and outputs": 256,
        "stack of a call": 64,
        "code": 1000,
        "weights": 96,
        "flash in all": 1096,
        "kernels": 2,
        "layers": 3,
        "multiply-adds": 64,
        "time of all layers": 4.0,
    }


def test_figures_differ_by_an_amount_and_in_percent(old: Manifest) -> None:
    new = copy.deepcopy(old)
    new["memory"] |= {"code_bytes": 1250, "arena_bytes": 0, "call_stack_bytes": None}
    new["kernels"][0]["provenance"] |= {"median_us": 0.5, "low_us": 0.5, "high_us": 0.5}
    found = {
        figure.name: (figure.a, figure.b, figure.difference, figure.percent) for figure in compared(old, new).changed
    }
    assert found == {
        "arena": (256, 0, -256, -100.0),
        "stack of a call": (64, None, None, None),
        "code": (1000, 1250, 250, 25.0),
        "flash in all": (1096, 1346, 250, 22.81),
        "time of all layers": (4.0, 3.0, -1.0, -25.0),
    }
    assert next(figure for figure in compared(new, old).changed if figure.name == "arena").percent is None


def test_times_differ_where_intervals_do_not_overlap(old: Manifest) -> None:
    new = copy.deepcopy(old)
    new["kernels"][0]["provenance"] |= {"median_us": 1.15, "low_us": 1.05, "high_us": 1.2}
    assert compared(old, new).layers == (), "the interval of the other record begins at 0.9 and ends at 1.1"
    new["kernels"][0]["provenance"]["low_us"] = 1.12
    found = compared(old, new)
    assert rows(found) == [("/a (mul_add)", 0, 0, ("time",)), ("/b (mul_add)", 1, 1, ("time",))]
    assert (found.layers[0].time.a, found.layers[0].time.b, found.layers[0].time.percent) == (1.0, 1.15, 15.0)


@pytest.mark.parametrize(
    ("change", "aspect"),
    [
        (lambda new: new["kernels"][1]["provenance"].update(schedule="unroll"), "schedule"),
        (lambda new: new["kernels"][1]["provenance"].update(trace_sha256="ee" * 32), "schedule"),
        (lambda new: new["kernels"][1]["provenance"].update(form="winograd_f2"), "schedule"),
        (lambda new: new["kernels"][1]["provenance"].update(workload="33" * 32), "computation"),
        (lambda new: new["layers"][2].update(output=[1, 32]), "shape"),
        (lambda new: new["layers"][2].update(bytes=1), "bytes"),
        (lambda new: new["layers"][2].update(label="/c (add_relu)"), "name"),
    ],
)
def test_a_layer_is_listed_with_what_differs(change: Callable[[Manifest], None], aspect: str, old: Manifest) -> None:
    new = copy.deepcopy(old)
    change(new)
    assert rows(compared(old, new)) == [(new["layers"][2]["label"], 2, 2, (aspect,))]


def test_layers_are_matched_by_name_wherever_they_are(old: Manifest) -> None:
    new = copy.deepcopy(old)
    new["layers"] = [new["layers"][2], {**new["layers"][0], "label": "/new (mul_add)"}, new["layers"][0]]
    found = compared(old, new)
    assert rows(found) == [("/b (mul_add)", 1, None, ()), ("/new (mul_add)", None, 1, ())]
    assert (found.layers[0].bytes.a, found.layers[0].bytes.b, found.layers[1].time.a) == (288, None, None)
    assert found.equal_layers == 2


def test_a_node_that_became_other_layers_is_not_guessed_at(old: Manifest) -> None:
    new = copy.deepcopy(old)
    new["layers"][0]["label"], new["layers"][1]["label"] = "/a (mul)", "/a (add)"
    assert [row[1:3] for row in rows(compared(old, new))] == [(0, None), (1, None), (None, 0), (None, 1)]
    old["layers"][1]["label"] = "/a (mul_add) #2"
    assert [row[1:] for row in rows(compared(old, new))] == [(0, 0, ("name",)), (1, 1, ("name",))]
    old["layers"][0]["label"], new["layers"][0]["label"] = "mul", "add"  # operators alone name no node
    assert [row[1:3] for row in rows(compared(old, new))][::2] == [(0, None), (None, 0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda new: new["model"].update(sha256="cd" * 32, file="b.onnx"), "the models differ: A is from  (abab"),
        (lambda new: new["target"].update(name="rpi5"), "the boards differ: A is for plain-x86, B for rpi5"),
        (lambda new: new.update(threads=4), "the threads differ: A is for 1, B for 4"),
        (lambda new: new["generator"].update(version="9"), "the versions of edgetune differ: 0."),
        (lambda new: new["outputs"][0].update(scale=0.5), "the interfaces differ"),
        (
            lambda new: new["kernels"][1]["provenance"].update(median_us=None),
            "3 of 3 layers of A and 2 of 3 layers of B",
        ),
        (lambda new: new["kernels"][0]["provenance"].update(clock="instructions"), "no times are compared: of one"),
        (lambda new: new["memory"].update(measured_with="gcc 9"), ""),  # nothing is known of A's
    ],
)
def test_what_makes_packages_hard_to_compare_is_said_in_one_line(
    change: Callable[[Manifest], None], words: str, old: Manifest
) -> None:
    new = copy.deepcopy(old)
    change(new)
    remarks = compared(old, new).remarks
    assert len(remarks) == bool(words)
    assert words in "".join(remarks)


def test_counts_are_exact(old: Manifest) -> None:
    for kernel in old["kernels"]:
        kernel["provenance"] |= {"clock": "instructions", "instructions": 100}
    new = copy.deepcopy(old)
    new["kernels"][1]["provenance"]["instructions"] = 101
    found = compared(old, new)
    assert rows(found) == [("/c (add)", 2, 2, ("time",))]
    assert (found.layers[0].time.unit, found.layers[0].time.difference) == ("instructions", 1)
    assert [(f.name, f.a, f.b) for f in found.changed] == [("instructions of all layers", 300, 301)]


def test_times_in_turns_stand_in_for_those_of_records(old: Manifest) -> None:
    timing = TimesInTurns(
        unit="us",
        a=10.0,
        b=8.0,
        ratio=0.8,
        low=0.79,
        high=0.81,
        coverage=0.99,
        turns=6,
        ran_on="here",
        layers_a=(5.0, 3.0, 2.0),
        layers_b=(3.0, 3.0, 2.0),
        changed_layers=(0,),
    )
    new = copy.deepcopy(old)
    new["kernels"][1]["provenance"]["median_us"] = None
    found = compared(old, new, timing)
    assert found.remarks == ()
    assert rows(found) == [("/a (mul_add)", 0, 0, ("time",))]
    assert (found.layers[0].time.a, found.layers[0].time.b, found.layers[0].time.percent) == (5.0, 3.0, -40.0)
    assert not [figure for figure in found.figures if "time" in figure.name]


def test_a_package_of_an_earlier_version_has_fewer_figures(old: Manifest) -> None:
    new = copy.deepcopy(old)
    new["memory"] = {key: new["memory"][key] for key in ("weights_bytes", "weights_placement")}
    for layer in new["layers"]:
        del layer["bytes"], layer["output"]
    for kernel in new["kernels"]:
        kernel["provenance"] = {}
    found = compared(new, copy.deepcopy(new))
    assert [figure.name for figure in found.figures] == ["weights", "kernels", "layers", "multiply-adds"]
    assert (found.layers, found.equal_layers) == ((), 3)


@pytest.fixture
def looped(old: Manifest) -> Manifest:
    """Its first layer is a loop of four steps: the first kernel once, the second twice in each."""
    names = [kernel["name"] for kernel in old["kernels"]]
    calls = [
        {"kernel": names[number], "label": f"/a ({number})", "macs": 1, "times": times}
        for number, times in ((0, 4), (1, 8))
    ]
    old["layers"][0] |= {"kernel": "", "label": "/a (4 steps)", "steps": 4, "calls": calls}
    return old


def test_the_time_of_a_loop_is_that_of_all_its_calls(looped: Manifest) -> None:
    new = copy.deepcopy(looped)
    new["kernels"][1]["provenance"] |= {"median_us": 1.5, "low_us": 1.4, "high_us": 1.6, "schedule": "unroll"}
    first = compared(looped, new).layers[0]
    assert (first.layer, first.differs) == ("/a (4 steps)", ("schedule", "time"))
    assert (first.time.a, first.time.b) == (4 * 1 + 8 * 2, 4 * 1 + 8 * 1.5)
    assert first.kernel_a == ", ".join(kernel["name"] for kernel in looped["kernels"])
    assert (first.schedule_a, first.schedule_b) == ("vectorize(i, 8); ", "vectorize(i, 8); unroll")
    new["kernels"][1]["provenance"] |= {"low_us": 1.4, "high_us": 2.0}
    assert compared(looped, new).layers[0].differs == ("schedule",), "4 * 0.9 + 8 * 1.9 is less than 4 * 1.1 + 8 * 2"


def test_a_loop_with_a_kernel_that_was_not_measured_has_no_time(looped: Manifest) -> None:
    new = copy.deepcopy(looped)
    new["kernels"][1]["provenance"] |= {"median_us": None, "low_us": None, "high_us": None}
    found = compared(looped, new)
    assert "3 of 3 layers of A and 1 of 3 layers of B" in "".join(found.remarks)
    new["layers"][0]["bytes"] = 1
    first = compared(looped, new).layers[0]
    assert (first.time.a, first.time.b, first.differs) == (20.0, None, ("bytes",))


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda layer: layer["calls"][1].update(times=4), ("computation", "time")),
        (lambda layer: layer["calls"].pop(), ("computation", "schedule", "time")),
        (lambda layer: layer.update(label="/a (5 steps)"), ("name",)),
    ],
)
def test_a_loop_differs_in_what_its_steps_call(
    change: Callable[[Manifest], object], differs: tuple[str, ...], looped: Manifest
) -> None:
    new = copy.deepcopy(looped)
    change(new["layers"][0])
    assert rows(compared(looped, new)) == [(new["layers"][0]["label"], 0, 0, differs)]


def test_a_layer_that_became_a_loop_is_computed_otherwise(looped: Manifest) -> None:
    new = copy.deepcopy(looped)
    new["layers"][0] |= {"kernel": new["kernels"][0]["name"], "label": "/a (mul)", "calls": [], "steps": 1}
    found = compared(new, looped).layers[0]
    assert found.differs == ("name", "computation", "schedule", "time")
    assert (found.kernel_a, found.time.a) == (new["kernels"][0]["name"], 1.0)
