"""Layers of a run: reads what each layer of a package writes, through the package's own profiler hook.

So the very kernels, calls and memory plan of the package are seen, wherever it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from edgetune.errors import PackageInvalid, SelfTestFailed, UsageError
from edgetune.package.golden import Golden
from edgetune.package.workspaces import PackageWorkspace
from edgetune.target.board_kind import BoardKind
from edgetune.verify.driver import last_words, run_driver
from edgetune.verify.notebook_table import table
from edgetune.verify.place import ExecutionPlace, Here
from edgetune.verify.probed import execution_place
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import work_copy

TIMEOUT_S = 1800.0
_LINE = re.compile(r"^layer (\d{1,9}): ([0-9a-f]*) end$", re.MULTILINE)


@dataclass(frozen=True)
class LayerError:
    """How far layer `index` is off, as shares of the largest magnitude of what is right.

    `alone` is its error for what it really read, `whole` that of all layers up to it. `departs`: `alone` is more than
    `allowed`.
    """

    index: int
    name: str
    kernel: str
    alone: float
    whole: float
    allowed: float
    departs: bool


class LayerErrors(tuple[LayerError, ...]):
    """The errors of all layers, in order; a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        departing = sum(error.departs for error in self)
        return table(f"{len(self)} layers, {departing} depart", [asdict(error) for error in self])


@dataclass(frozen=True)
class LayersRun:
    """What the layers of one run wrote, in order: for each of them, the bytes of each output.

    `ended` says how the run failed after the last of them, "" where it did not.
    """

    written: tuple[tuple[bytes, ...], ...]
    ended: str
    ran_on: str


def run_layers(
    package: Path,
    case: Golden,
    *,
    target: BoardKind | None = None,
    place: ExecutionPlace | None = None,
    timeout_s: float = TIMEOUT_S,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> LayersRun:
    """Run `package` once on the inputs of `case`; the arguments are those of `verify`.

    Raises what `verify` raises, but not where the run fails, PackageInvalid for a package of an earlier version, and
    UsageError for one whose tensors are in the memory of a GPU.
    """
    with work_copy(package) as (copy, manifest):
        require_readable_layers(package, manifest)
        places = [layer["written"] for layer in manifest["layers"]]
        tools = PackageToolchain.of(manifest, target)
        place = place or execution_place(tools, alone)
        tools.require(emulator=isinstance(place, Here))
        done = run_driver(copy, manifest, tools, place, [case], timeout_s, places)
    written = tuple(_written(done.stdout, places))
    if not done.status and len(written) < len(places):
        raise SelfTestFailed(f"the run printed {len(written)} of {len(places)} layers: run it again")
    return LayersRun(written, last_words(done.status, done.stderr) if done.status else "", place.where)


def require_readable_layers(package: Path, manifest: Mapping[str, Any]) -> None:
    """Raises UsageError where the tensors of `package` lie in a GPU's memory.

    Raises PackageInvalid where its manifest does not say where layers write, or names places outside of the workspace
    and the outputs.
    """
    if "instead" in manifest["target"]:
        raise UsageError(
            f"the tensors of {package} lie in the memory of a GPU, where single layers cannot be read: build the model "
            "for a board with a CPU"
        )
    if not all(layer.get("written") for layer in manifest["layers"]):
        raise PackageInvalid(
            f"{package} does not say where its layers write, because an earlier version of edgetune wrote it: build it "
            "again with `edgetune build`"
        )
    rooms = {(tensor["field"], "", False): tensor["bytes"] for tensor in manifest["outputs"]}
    rooms |= {("", one.field, False): one.nbytes for one in PackageWorkspace.all_of(manifest["memory"])}
    rooms["", "", True] = manifest["memory"].get("state_bytes", 0)
    for number, layer in enumerate(manifest["layers"]):
        for place in layer["written"]:
            key = (place["tensor"], place.get("workspace", ""), place.get("in_state", False))
            if place["offset"] + place["bytes"] > rooms.get(key, -1):
                raise PackageInvalid(
                    f"MANIFEST.json of {package} has layer {number} write outside of its memory: build the package "
                    "again with `edgetune build`"
                )


def _written(text: str, places: Sequence[Sequence[Mapping[str, int]]]) -> Iterator[tuple[bytes, ...]]:
    """The outputs of the layers in order, up to the first that was not printed whole; a board may print anything."""
    printed = {int(match[1]): match[2] for match in _LINE.finditer(text)}
    for number, outputs in enumerate(places):
        ends = list(accumulate((each["bytes"] for each in outputs), initial=0))
        if len(printed.get(number, "?")) != 2 * ends[-1]:
            return
        data = bytes.fromhex(printed[number])
        yield tuple(data[begin:end] for begin, end in pairwise(ends))
