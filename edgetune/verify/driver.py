"""Test driver: runs a built package on new inputs, by a generated program that holds them and prints the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards.image.faults import fault_of_program
from edgetune.errors import SelfTestFailed, WrongResult
from edgetune.package.golden import Golden
from edgetune.package.manifest import in_arena, run_function
from edgetune.package.rendering import render
from edgetune.package.states import KeptState, state_bytes
from edgetune.package.workspaces import PackageWorkspace
from edgetune.verify.place import ExecutionPlace
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult

_INPUTS = "driver.in"  # of all cases, in the folder of the package


def run_cases(
    copy: Path,
    manifest: dict[str, Any],
    tools: PackageToolchain,
    place: ExecutionPlace,
    cases: Sequence[Golden],
    timeout_s: float,
) -> list[dict[str, np.ndarray]]:
    """Return the outputs by name that the package built in `copy` computes at `place` for the inputs of `cases`.

    After the last case of each sequence, the states that it leaves are there as well, by the names of their outputs.
    The package's own Makefile links the program. Raises what the place raises, SelfTestFailed (it crashed or refused)
    and WrongResult (inputs do not fit the package).
    """
    p = manifest["prefix"]
    done = run_driver(copy, manifest, tools, place, cases, timeout_s)
    if done.status:
        raise SelfTestFailed(f"{p}_run failed on fresh inputs: {last_words(done.status, done.stderr)}")
    ends = [not case.goes_on for case in cases[1:]] + [True]
    states = [KeptState.from_json(one) for one in manifest.get("states", [])]
    return _outputs(p, done.stdout, manifest["outputs"], states, ends)


def run_driver(
    copy: Path,
    manifest: dict[str, Any],
    tools: PackageToolchain,
    place: ExecutionPlace,
    cases: Sequence[Golden],
    timeout_s: float,
    layers: Sequence[Sequence[Mapping[str, Any]]] = (),
) -> ProgramResult:
    """Return how the program ended that runs the package built in `copy` at `place`, and what it printed.

    It prints the outputs, or with `layers` what each layer writes: for each layer, where that is, as in the manifest.
    States go on from case to case as the cases say; with `layers`, each case begins with its own.
    Raises what the place raises, and WrongResult where inputs do not fit the package.
    """
    p = manifest["prefix"]
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    states = manifest.get("states", [])
    external = manifest["memory"]["weights_placement"] == "external"
    threads = manifest.get("threads", 1)
    alignment = max([64, *(t["alignment"] for t in (*inputs, *outputs))])
    source = render(
        "core/driver.c.j2",
        p=p,
        run=run_function(manifest),
        inputs=inputs,
        outputs=outputs,
        external=external,
        in_arena=in_arena(manifest),
        alignment=alignment,
        cases=len(cases),
        allocates="instead" in manifest["target"],
        threads=threads,
        file=_INPUTS,
        layers=layers,
        states=states,
        workspaces=PackageWorkspace.all_of(manifest["memory"]),
        resets=[not case.goes_on for case in cases],
    )
    (copy / f"test/{p}_driver.c").write_text(source, encoding="ascii")
    begun = [KeptState.from_json(one) for one in states] if layers else []
    data = ([*(_input(tensor, case) for tensor in inputs), *(_state(one, case) for one in begun)] for case in cases)
    (copy / _INPUTS).write_bytes(b"".join(piece for pieces in data for piece in pieces))
    binary = f"build/{p}_driver"
    place.link(copy, binary, tools, timeout_s)
    return place.execute(copy / binary, (), timeout_s)


def last_words(status: int, text: str) -> str:
    """Return the last text that a program wrote, or how it died; a fault of an image in words."""
    lines = text.strip().splitlines()
    if lines:
        return fault_of_program(lines[-1]) or lines[-1][:300]
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def _input(tensor: dict[str, Any], case: Golden) -> bytes:
    array = case.inputs.get(tensor["name"])
    if array is None or str(array.dtype) != tensor["dtype"] or array.size != prod(tensor["shape"]):
        raise WrongResult(f"input '{tensor['name']}' of a fresh case is not {tensor['shape']} {tensor['dtype']}")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()


def _state(state: KeptState, case: Golden) -> bytes:
    """The memory of a state before a case."""
    value = case.inputs.get(state.name_in, state.first)
    if value.dtype != state.dtype or value.size != prod(state.shape):
        raise WrongResult(f"state '{state.name_in}' of a fresh case is not {list(state.shape)} {state.dtype}")
    memory = state.in_memory(value)
    return np.ascontiguousarray(memory.astype(memory.dtype.newbyteorder("<"), copy=False)).tobytes()


def _outputs(
    p: str, text: str, tensors: list[dict[str, Any]], states: Sequence[KeptState], ends: Sequence[bool]
) -> list[dict[str, np.ndarray]]:
    """The outputs of all cases from what the driver printed, and all states where a case `ends` a sequence.

    Raises SelfTestFailed where that is anything else.
    """
    kept = state_bytes(states)
    wanted = len(ends) * sum(tensor["bytes"] for tensor in tensors) + sum(ends) * kept
    printed = _printed(text)
    if len(printed) != 2 * wanted:
        raise SelfTestFailed(
            f"{p}_run on fresh inputs printed {len(printed) // 2} bytes of outputs, not {wanted}: run it again"
        )
    try:
        data = bytes.fromhex(printed)
    except ValueError:
        data = b""
    if len(data) != wanted:  # also where `fromhex` has skipped spaces
        raise SelfTestFailed(f"{p}_run on fresh inputs printed outputs that are not hexadecimal: run it again")
    results, offset = [], 0
    for is_last in ends:
        result = {}
        for tensor in tensors:
            dtype = np.dtype(tensor["dtype"])
            flat = np.frombuffer(data, dtype.newbyteorder("<"), prod(tensor["shape"]), offset)
            result[tensor["name"]] = flat.astype(dtype).reshape(tensor["shape"])
            offset += tensor["bytes"]
        if is_last and kept:
            copy = data[offset : offset + kept]
            result |= {state.name_out: state.value_in(copy, states) for state in states if state.of_model}
            offset += kept
        results.append(result)
    return results


def _printed(text: str) -> str:
    """The digits in the first whole line of outputs, "" for none; a board may print anything, and much of it."""
    begin, end = "outputs: ", " end"
    start = 0 if text.startswith(begin) else text.find(f"\n{begin}") + 1
    while text.startswith(begin, start):
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        if text.endswith(end, start + len(begin), stop):
            return text[start + len(begin) : stop - len(end)]
        start = text.find(f"\n{begin}", stop) + 1
        if not start:
            break
    return ""
