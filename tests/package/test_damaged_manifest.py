"""Manifests whose states and streams were damaged: each is refused by the name of its key, before anything uses it."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import PackageInvalid
from edgetune.package.manifest import MANIFEST, read_manifest, states_of
from tests import package_sample as sample

Damage = Callable[[dict[str, Any]], object]

POSITION = {
    "input": "",
    "output": "position of 4 steps",
    "shape": [],
    "dtype": "int32",
    "zero": 0,
    "offset": 264,
    "bytes": 4,
    "copied": True,
}
STREAM = {
    "inputs": [{"name": "x", "axis": 0, "hop": 4, "window": 16}],
    "outputs": [{"name": "y", "settled": 1, "axis": 0, "frames": 4, "latency": 3}],
    "latency_frames": 4,
    "step_macs": 1,
    "window_macs": 4,
    "step_ram": 1,
    "window_ram": 4,
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "package"
    sample.emit_keeping(folder)
    return folder


@pytest.fixture(scope="module")
def whole(package: Path) -> dict[str, Any]:
    """The manifest of a package with a stream, a state, and a ring of it."""
    content: dict[str, Any] = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    ring = {"axis": 0, "rows": 8, "count": 2, "position": POSITION["output"]}
    content["states"] = [content["states"][0] | {"ring": ring, "bytes": 256}, POSITION]
    content["memory"]["state_bytes"] = 272
    return content | {"stream": STREAM}


def refusal(content: dict[str, Any], folder: Path) -> str:
    (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(PackageInvalid) as refused:
        read_manifest(folder)
    assert "\n" not in refused.value.message
    return refused.value.message


def state(**values: object) -> Damage:
    return lambda content: content["states"][0].update(values)


def ring(**values: object) -> Damage:
    return lambda content: content["states"][0]["ring"].update(values)


def streamed(**values: object) -> Damage:
    return lambda content: content["stream"]["inputs"][0].update(values)


def stepped(**values: object) -> Damage:
    return lambda content: content["stream"]["outputs"][0].update(values)


def twice(*keys: str) -> Damage:
    def doubled(content: dict[str, Any]) -> None:
        entries: Any = content
        for key in keys:
            entries = entries[key]
        entries.append(copy.deepcopy(entries[0]))

    return doubled


LONG = base64.b64encode(bytes(129)).decode("ascii")
DAMAGES: dict[str, tuple[Damage, str]] = {
    "another shape": (state(shape=[4, 9]), r"'states\.0' is wrong \(it has 256 bytes, which its shape \[4, 9\]"),
    "a negative extent": (state(shape=[-4, -8]), r"'states\.0\.shape\.0'"),
    "a huge extent": (state(shape=[1 << 62, 8]), r"'states\.0\.shape\.0'"),
    "huge extents of nothing": (state(shape=[4, 0, 1 << 30, 1 << 30], bytes=0), r"'states\.0'"),
    "many axes": (state(shape=[1] * 65), r"'states\.0\.shape'"),
    "another number of bytes": (state(bytes=255), r"'states\.0'"),
    "no type": (
        state(dtype="foo"),
        r"'states\.0\.dtype' is wrong \(it must be an element type of a package, not 'foo'",
    ),
    "objects": (state(dtype="O"), r"'states\.0\.dtype'"),
    "a larger type": (state(dtype="float64"), r"'states\.0'"),
    "a number outside of the type": (state(dtype="int8", zero=300, bytes=64), r"'states\.0'.*int8"),
    "a number that a float16 lacks": (state(dtype="float16", zero=2049, bytes=128), r"'states\.0'.*float16"),
    "a number that nothing holds": (state(zero=10**400), r"'states\.0'"),
    "a first value that is none": (state(first="!!!!"), r"'states\.0\.first' is wrong \(it must be in base64"),
    "a long first value": (state(first=LONG), r"'states\.0' is wrong \(it must have as many first bytes"),
    "an order without channels": (state(layout="channels_last"), r"'states\.0'.*no image"),
    "no name": (state(input=""), r"'states\.0' is wrong \(it lacks the name of an input"),
    "the name of an input": (state(input="x"), "'states' is wrong .*'x', which is an input or output"),
    "the layout's word": (state(offset=0), r"'states\.0\.offset'"),
    "another place": (state(offset=16), "'states' is wrong .*'position of 4 steps' at byte 264"),
    "a state that ends after the context": (lambda content: content["memory"].update(state_bytes=136), "'states'"),
    "a state twice": (twice("states"), "'states' is wrong .*'h' twice"),
    "a ring along no axis": (ring(axis=2), r"'states\.0' is wrong .*along axis 2"),
    "a short ring": (ring(rows=2), r"'states\.0' is wrong .*2 rows"),
    "a broken ring": (ring(count=3), r"'states\.0' is wrong"),
    "a long ring": (ring(rows=16), r"'states\.0' is wrong"),
    "a ring without position": (ring(position="h_next"), "'states' is wrong .*'h_next' is no state"),
    "an unknown input": (streamed(name="z"), "'stream' is wrong .*the input 'z', which the package does not have"),
    "an unknown output": (stepped(name="z"), "'stream' is wrong .*the output 'z', which the package does not have"),
    "an input twice": (twice("stream", "inputs"), "'stream' is wrong .*the input 'x' twice"),
    "an output twice": (twice("stream", "outputs"), "'stream' is wrong .*the output 'y' twice"),
    "an axis too many": (streamed(axis=2), "'stream' is wrong .*4 frames along axis 2"),
    "an axis too many of an output": (stepped(axis=2), "'stream' is wrong .*4 frames along axis 2"),
    "other frames": (streamed(hop=3), "'stream' is wrong .*3 frames along axis 0"),
    "other frames of an output": (stepped(frames=3), "'stream' is wrong .*3 frames along axis 0"),
    "a small window": (streamed(window=3), "'stream' is wrong .*4 frames of the input 'x'"),
    "a huge window": (streamed(window=1 << 40), r"'stream\.inputs\.0\.window'"),
    "an output that never counts": (stepped(settled=10**9), "'stream' is wrong .*'y' counts from step 1000000000 on"),
}


def test_the_manifest_is_whole(whole: dict[str, Any], package: Path) -> None:
    (package / MANIFEST).write_text(json.dumps(whole), encoding="utf-8")
    assert [one.first.shape for one in states_of(read_manifest(package))] == [(4, 8), ()]


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_refused_by_its_key(whole: dict[str, Any], package: Path, name: str) -> None:
    damage, said = DAMAGES[name]
    content = copy.deepcopy(whole)
    damage(content)
    assert re.search(said, refusal(content, package))
