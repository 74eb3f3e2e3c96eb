"""Test driver: runs a built package on new inputs, through a generated program that reads a file and prints outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.errors import SelfTestFailed, WrongResult
from edgetune.package.diagnostics import compile_failure
from edgetune.package.golden import Golden
from edgetune.package.rendering import render
from edgetune.verify.place import ExecutionPlace
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import run


def run_cases(
    copy: Path,
    manifest: dict[str, Any],
    tools: PackageToolchain,
    place: ExecutionPlace,
    cases: Sequence[Golden],
    timeout_s: float,
) -> list[dict[str, np.ndarray]]:
    """Return the outputs by name that the package built in `copy` computes at `place` for the inputs of `cases`.

    Raises the error of `compile_failure` when the compiler fails, SelfTestFailed (it crashed or refused) and
    WrongResult (inputs do not fit the package).
    """
    p = manifest["prefix"]
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    external = manifest["memory"]["weights_placement"] == "external"
    threads = manifest.get("threads", 1)
    alignment = max([64, *(t["alignment"] for t in (*inputs, *outputs))])
    source = render(
        "core/driver.c.j2",
        p=p,
        inputs=inputs,
        outputs=outputs,
        external=external,
        alignment=alignment,
        cases=len(cases),
        threads=threads,
    )
    (copy / "driver.c").write_text(source, encoding="ascii")
    (copy / "driver.in").write_bytes(b"".join(_input(tensor, case) for case in cases for tensor in inputs))
    objects = [f"build/{p}_test_weights.o"] if external and manifest["memory"]["weights_bytes"] else []
    command = [
        tools.cc,
        "-std=gnu11",
        *tools.cflags,
        "-Iinclude",
        "driver.c",
        *objects,
        f"build/lib{p}.a",
        *tools.ldflags,
        *(["-pthread"] if threads > 1 else []),
        *place.flags,
    ]
    built = run([*command, "-o", "build/driver"], copy, timeout_s)
    if built.status:
        raise compile_failure(tools.cc, "the test driver", built.stderr, copy, tools.cflags)
    done = place.execute(copy / "build/driver", [copy / "driver.in"], timeout_s)
    if done.status:
        raise SelfTestFailed(f"{p}_run failed on fresh inputs: {last_words(done.status, done.stderr)}")
    return _outputs(p, done.stdout, outputs, len(cases))


def last_words(status: int, text: str) -> str:
    """Return the last text that a program wrote, or how it died."""
    lines = text.strip().splitlines()
    if lines:
        return lines[-1][:300]
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def _input(tensor: dict[str, Any], case: Golden) -> bytes:
    array = case.inputs.get(tensor["name"])
    if array is None or str(array.dtype) != tensor["dtype"] or array.size != prod(tensor["shape"]):
        raise WrongResult(f"input '{tensor['name']}' of a fresh case is not {tensor['shape']} {tensor['dtype']}")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()


def _outputs(p: str, text: str, tensors: list[dict[str, Any]], cases: int) -> list[dict[str, np.ndarray]]:
    printed = re.search(r"^outputs: ((?:[0-9a-f]{2})*) end$", text, re.MULTILINE)
    data = bytes.fromhex(printed[1]) if printed else b""
    if len(data) != cases * sum(tensor["bytes"] for tensor in tensors):
        raise SelfTestFailed(
            f"{p}_run on fresh inputs printed {len(data)} bytes of outputs, not all of them: run it again"
        )
    results, offset = [], 0
    for _ in range(cases):
        result = {}
        for tensor in tensors:
            dtype = np.dtype(tensor["dtype"])
            flat = np.frombuffer(data, dtype.newbyteorder("<"), prod(tensor["shape"]), offset)
            result[tensor["name"]] = flat.astype(dtype).reshape(tensor["shape"])
            offset += tensor["bytes"]
        results.append(result)
    return results
