"""RAM, stack and code: the arena against its lower bound, stack frames as the compiler states them, code size."""

from __future__ import annotations

import re

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.acceptance.case import Case, run

ARENA_FACTOR = 1.10
STACK_LIMIT_BYTES = 4096
CODE_LIMIT_BYTES = 100_000
CODE_LIMITED = {"ds_cnn"}


def arena(case: Case) -> str:
    """The workspace, scratch included, is at most 1.10 times the largest sum of live tensors.

    What is written over an operand makes the manifest's own bound smaller than that.
    """
    shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in case.manifest["inputs"]}
    program = to_program(import_onnx(read_onnx(case.model, shapes)))
    bound = largest_live_sum(program, {})
    memory = case.manifest["memory"]
    stated = memory["arena_bound_bytes"]
    least = largest_live_sum(program, written_over(case))
    assert stated == least, f"the manifest's bound {stated} is not {least}"
    header = (case.package / "include" / f"{case.prefix}.h").read_text(encoding="utf-8")
    size = re.search(r"_WORKSPACE_BYTES (\d+)u", header)
    assert size is not None, "the header does not state the size of the workspace"
    workspace = int(size[1])
    # Even one tensor takes a whole unit of alignment.
    limit = max(bound * ARENA_FACTOR, memory["workspace_align"])
    assert workspace <= limit, f"the workspace of {workspace} bytes is {workspace / bound:.3f} times the bound {bound}"
    return f"{workspace} = {workspace / max(bound, 1):.3f} x bound"


def written_over(case: Case) -> dict[int, int]:
    """Tensors that the package says to be written over an operand, and that operand."""
    text = (case.package / "src" / f"{case.prefix}.c").read_text(encoding="utf-8")
    macro = rf"#define {case.prefix.upper()}__AT_(\d+) (\d+)u "
    found = re.findall(macro + r"/\* .*?(?:, written over AT_(\d+))?: ", text)
    assert len(found) == len(re.findall(r"#define \w*AT_\d+ ", text)), "a line of the arena has another form"
    places = {int(tensor): place for tensor, place, _ in found}
    over = {int(tensor): int(operand) for tensor, _, operand in found if operand}
    assert all(places[tensor] == places[operand] for tensor, operand in over.items()), "they lie in two places"
    return over


def largest_live_sum(program: Program, over: dict[int, int]) -> int:
    """The lower bound by its definition: outputs of kernels that are alive at once; no model inputs and outputs.

    What is written `over` an operand lies in its memory.
    """
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    for step, call in enumerate(program.calls):
        for tensor in call.arguments:
            if program.buffers[tensor].kind == "intermediate":
                buffer = tensor
                while buffer in over:
                    buffer = over[buffer]
                written.setdefault(buffer, step)
                read[buffer] = step
    alive = (
        sum(program.buffers[b].nbytes for b in written if written[b] <= step <= read[b])
        for step in range(len(program.calls))
    )
    return max(alive, default=0)


def stack(case: Case) -> str:
    """No function of the library has a frame of more than 4 KiB."""
    folder = case.copy("stack")
    flags = " ".join(flag for flag in case.manifest["target"]["compiler"]["cflags"] if not flag.startswith("-m"))
    run("make", "-s", "lib", f"CFLAGS={flags} -fstack-usage", cwd=folder)
    frames = []
    for file in folder.rglob("*.su"):
        for line in file.read_text(encoding="utf-8").splitlines():
            place, nbytes, kind = line.split("\t")
            assert kind in {"static", "dynamic,bounded"}, f"{place} has a frame of unknown size"
            frames.append((int(nbytes), place.rsplit(":", 1)[-1]))
    assert frames, "the compiler wrote no stack usage"
    largest, name = max(frames)
    assert largest <= STACK_LIMIT_BYTES, f"{name} takes {largest} bytes of stack"
    return f"{largest} bytes"


def code(case: Case) -> str:
    """Code and constants without weights, as `size` counts them at the target's own flags."""
    folder = case.copy("code")
    run("make", "-s", "lib", cwd=folder)
    tool = f"{case.manifest['target']['compiler']['cross_prefix']}size"
    objects = [path for path in (folder / "build").glob("*.o") if not path.stem.endswith("_weights")]
    listing = run(tool, *objects, cwd=folder)
    total = sum(int(line.split()[0]) for line in listing.splitlines()[1:])
    assert case.model.stem not in CODE_LIMITED or total <= CODE_LIMIT_BYTES, f"{total} bytes of code"
    return f"{total} bytes"
