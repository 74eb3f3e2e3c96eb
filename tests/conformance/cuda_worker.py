"""A process that judges some node tests in CUDA: python -m tests.conformance.cuda_worker ANSWERS NAME...

ANSWERS is a file that gets a line of JSON for each test that begins, and one for each result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from edgetune.errors import EdgetuneError, KernelFailed
from edgetune.frontend.onnx.sub_byte_types import to_stored
from edgetune.graph.loops import without_loops
from edgetune.graph.program import Program, byte_size
from edgetune.graph.ways import Ways
from edgetune.pipeline.backends import backend_of
from edgetune.pipeline.link import pack_constants
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from tests.conformance.case import Case, UnfitError, load
from tests.conformance.judge import Status, difference, in_one_line, program_of, reaches
from tests.cuda.batch import FLAGS, Batch, BatchCase, BatchError, Step, compile_batch
from tests.cuda.cpu_check import gpu

_SECONDS = 300


@dataclass(frozen=True)
class Printed:
    """A test whose kernels are printed, and its buffers: those of the program, packed constants, scratch."""

    case: Case
    program: Program
    kernels: BatchCase
    buffers: tuple[np.ndarray, ...]


def printed(name: str, prefix: str) -> Printed:
    """A node test in CUDA; raises what the import and the printer raise."""
    case = load(name)
    target = gpu()
    backend = backend_of(target)
    program = without_loops(program_of(case, ways=Ways(joins_attention=backend.joins_attention)))
    texts = [default_gpu_schedule(kernel.function, target)[0] for kernel in program.kernels]
    found = backend.print_kernels(program, texts, target, prefix, lambda _: None, 1).kernels
    sources = tuple(one.source for one in found)
    packed = pack_constants(program, found)
    numbers = {where: len(program.buffers) + number for number, where in enumerate(packed)}
    scratch = len(program.buffers) + len(packed)
    steps = []
    for call_number, call in enumerate(program.calls):
        source = sources[call.kernel]
        places = [
            (
                numbers.get((call_number, place), buffer),
                byte_size((call.parts[place].offset,), param.dtype) if place in call.parts else 0,
            )
            for place, (param, buffer) in enumerate(zip(source.params, call.arguments, strict=True))
        ]
        steps.append(Step(source, (*places, (scratch + call.kernel, 0))))
    preamble = backend.preamble(frozenset().union(*(source.preamble for source in sources)), target, prefix)
    buffers = (
        *(_content(program, case, number) for number in range(len(program.buffers))),
        *packed.values(),
        *(np.zeros(source.scratch_bytes, np.uint8) for source in sources),
    )
    return Printed(case, program, BatchCase(preamble, sources, tuple(steps)), buffers)


def _content(program: Program, case: Case, number: int) -> np.ndarray:
    buffer = program.buffers[number]
    if buffer.kind == "input":
        return np.asarray(to_stored(case.inputs[buffer.name]))
    value = program.constants.get(buffer.id)
    return np.zeros(buffer.nbytes, np.uint8) if value is None else np.asarray(value)


def run(tests: Sequence[Printed], folder: Path) -> list[tuple[Status, str]]:
    """Compile tests together and run each; those of a half are tried alone where the whole does not compile."""
    if not tests:
        return []
    try:
        batch = compile_batch([test.kernels for test in tests], folder, (*FLAGS, "-DCUDA_ON_CPU_WORD=1"))
    except subprocess.CalledProcessError as error:
        if len(tests) > 1:
            half = len(tests) // 2
            return run(tests[:half], folder / "a") + run(tests[half:], folder / "b")
        said = next((line for line in error.stderr.splitlines() if "error:" in line), error.stderr)
        return [("not compiled", said[:200])]
    return [_judged(test, batch, number) for number, test in enumerate(tests)]


def _judged(test: Printed, batch: Batch, number: int) -> tuple[Status, str]:
    program = test.program
    try:
        held = batch.run(number, test.buffers, _SECONDS)
    except BatchError as error:
        return "crashed", str(error)
    outputs = [np.frombuffer(held[b.id], b.dtype).reshape(b.shape) for b in program.output_buffers()]
    if wrong := difference(test.case, program, outputs):
        return "wrong", wrong
    return ("passed", "") if reaches(program) else ("constant", "")


def judge_together(names: Sequence[str], folder: Path, answers: IO[str]) -> None:
    """Judge tests, and write an answer for each."""

    def tell(**facts: str) -> None:
        answers.write(json.dumps(facts) + "\n")
        answers.flush()

    ready: list[Printed] = []
    for number, name in enumerate(names):
        tell(begun=name)
        try:
            ready.append(printed(name, f"t{number}"))
        except UnfitError as error:
            tell(name=name, status="out of scope", reason=str(error))
        except KernelFailed as error:
            tell(name=name, status="not printed", reason=in_one_line(error))
        except EdgetuneError as error:
            tell(name=name, status="not imported", reason=in_one_line(error))
        except Exception as error:  # noqa: BLE001 - one test must not end the run; the report shows it
            traceback.print_exc()
            tell(name=name, status="crashed", reason=f"{type(error).__name__}: {in_one_line(error)}")
    for test, (status, reason) in zip(ready, run(ready, folder), strict=True):
        tell(name=test.case.name, status=status, reason=reason)


def main() -> None:
    """Run the command."""
    with tempfile.TemporaryDirectory() as folder, Path(sys.argv[1]).open("w") as answers:
        judge_together(sys.argv[2:], Path(folder), answers)


if __name__ == "__main__":
    main()
