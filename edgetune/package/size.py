"""Package size: bytes known without a compiler, and code size and stack where a compiler is available."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program
from edgetune.package.constants import Weights
from edgetune.package.diagnostics import compile_failure
from edgetune.package.flags import split_flags
from edgetune.target.ptxas import KernelUsage
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

_COMPILE_SECONDS = 1800


@dataclass(frozen=True)
class StaticSize:
    """Bytes known from the model alone; `largest` holds (name, bytes) of the largest tensors in the arena."""

    arena_bytes: int
    bound_bytes: int
    weights_bytes: int
    io_bytes: int
    largest: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class FunctionStack:
    """Stack frame of one C function in bytes."""

    name: str
    stack_bytes: int


@dataclass(frozen=True)
class CodeSize:
    """Compiled size: code with its constants (no weights), and the stack of every function, deepest first.

    `call_stack_bytes` bounds the stack of the deepest call into the library: init with its check, or run with a
    kernel. Both include all helpers that the compiler did not inline, as if each called the next. `kernels` is what
    kernels of a GPU use there.
    """

    compiler: str
    code_bytes: int
    call_stack_bytes: int
    functions: tuple[FunctionStack, ...]
    kernels: tuple[KernelUsage, ...] = ()

    @property
    def stack_bytes(self) -> int:
        """Largest stack frame."""
        return self.functions[0].stack_bytes if self.functions else 0

    @property
    def deepest(self) -> str:
        """Function with the largest stack frame."""
        return self.functions[0].name if self.functions else ""


def static_size(program: Program, plan: MemoryPlan, weights: Weights) -> StaticSize:
    """Return the sizes known before compilation."""
    arena = [buffer for buffer in program.buffers if buffer.id in plan.offsets]
    largest = sorted(arena, key=lambda buffer: (-buffer.nbytes, buffer.id))[:5]
    return StaticSize(
        arena_bytes=plan.arena_bytes,
        bound_bytes=plan.bound_bytes,
        weights_bytes=weights.nbytes,
        io_bytes=sum(spec.nbytes for spec in (*program.inputs, *program.outputs)),
        largest=tuple((buffer.name, buffer.nbytes) for buffer in largest),
    )


def measure_code(folder: Path, prefix: str, target: Target, objects: Path, sources: Sequence[str]) -> CodeSize | None:
    """Compile `sources`, files of src/ of the package in `folder`, into the folder `objects`; None without a compiler.

    Raises CompileFailed with the first diagnostic.
    """
    cc = shutil.which(target.compiler.cc)
    size = shutil.which(f"{target.compiler.cross_prefix}size") or shutil.which("size")
    if cc is None or size is None:
        return None
    flags = split_flags(target)
    made: list[Path] = []
    frames: dict[str, list[FunctionStack]] = {}
    for source in sources:
        stem = Path(source).stem
        out = objects.resolve() / f"{stem}.o"
        extra = (*flags.kernel, *flags.strict) if stem == f"{prefix}_kernels" else ()
        _compile([cc, "-std=gnu11", *flags.arch, *flags.all, *extra], folder, f"src/{source}", out)
        made.append(out)
        frames[stem.removeprefix(prefix)] = _frames(out.with_suffix(".su"))
    code = _text_bytes([size, *map(str, made)])
    functions = sorted(
        (function for found in frames.values() for function in found),
        key=lambda function: (-function.stack_bytes, function.name),
    )
    interface, runtime, kernels = (frames.pop(part, []) for part in ("", "_rt", "_kernels"))
    deepest = deepest_call(
        prefix, interface, runtime, kernels, [function for rest in frames.values() for function in rest]
    )
    return CodeSize(_version(cc, target.compiler.cc), code, deepest, tuple(functions))


def _compile(command: Sequence[str], folder: Path, source: str, out: Path) -> None:
    words = [*command, "-fstack-usage", "-Iinclude", "-Isrc", "-c", source, "-o", str(out)]
    done = run_tool(words, timeout_s=_COMPILE_SECONDS, folder=folder)
    if done.returncode:
        raise compile_failure(command[0], source, done.stderr, out.parent, command[1:])


def _frames(path: Path) -> list[FunctionStack]:
    if not path.is_file():
        return []
    frames = []
    for line in path.read_text(encoding="utf-8").splitlines():
        place, nbytes, _ = line.split("\t")[:3]
        frames.append(FunctionStack(place.rsplit(":", 1)[-1], int(nbytes)))
    return frames


def deepest_call(
    prefix: str,
    interface: Sequence[FunctionStack],
    runtime: Sequence[FunctionStack],
    kernels: Sequence[FunctionStack],
    sharing: Sequence[FunctionStack] = (),
) -> int:
    """Bytes of stack of init with the whole runtime, or of run with one kernel and all helpers; there is no recursion.

    A kernel for threads includes its parts and tasks, `<kernel>__part...`, and everything that distributes loops.
    """
    frames = {function.name: function.stack_bytes for function in interface}
    profiling = frames.pop(f"{prefix}__profile_layers", 0)
    # A part that GCC split off has a dot in its name; it counts as a helper, whatever it was split from.
    public = re.compile(rf"{prefix}_[^_.][^.]*")
    ours = sum(nbytes for name, nbytes in frames.items() if public.fullmatch(name) is None)
    symbol = re.compile(rf"({prefix}__k_\w+?)(__part\w*)?")
    whole: dict[str, int] = {}
    helpers = sum(function.stack_bytes for function in sharing)
    for function in kernels:
        of = symbol.fullmatch(function.name)
        if of is None:
            helpers += function.stack_bytes
        else:
            whole[of[1]] = whole.get(of[1], 0) + function.stack_bytes
    checking = frames.get(f"{prefix}_init", 0) + sum(function.stack_bytes for function in runtime)
    run = max(frames.get(f"{prefix}_{verb}", 0) for verb in ("run", "step"))  # a package has one of them
    running = run + max(ours, profiling + max(whole.values(), default=0) + helpers)
    return max(checking, running)


def _text_bytes(command: Sequence[str]) -> int:
    done = run_tool(command, timeout_s=60, check=True)
    return sum(int(match[1]) for match in re.finditer(r"^\s*(\d+)\s+\d+\s+\d+\s", done.stdout, re.MULTILINE))


def _version(cc: str, name: str) -> str:
    done = run_tool([cc, "-dumpfullversion", "-dumpversion"], timeout_s=60)
    return f"{name} {done.stdout.split()[0] if done.stdout.split() else ''}".strip()
