"""What do compilers make of a package's innermost loops? A table by kernel, and exit status 1 for faults.

python benchmarks/loops.py PACKAGE ...

Faults are told of kernels with multiply-adds: one without vector multiply-adds in any innermost loop, and a loop with
multiply-adds that touches the stack (its register tile did not fit). Cross-compiled packages need no board.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.disassembly import INSTRUCTION_SETS, Loop, loops_of  # noqa: E402  the path comes first
from edgetune.errors import CompileFailed, EdgetuneError, PackageInvalid, ToolchainMissing, UsageError  # noqa: E402
from edgetune.target.toolchain import install_command  # noqa: E402
from edgetune.verify.toolchain import PackageToolchain  # noqa: E402
from edgetune.verify.work_copy import make, run, work_copy  # noqa: E402

_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class KernelLoops:
    """The innermost loops of one kernel that does `macs` multiply-adds a call."""

    kernel: str
    macs: int
    loops: tuple[Loop, ...]

    @property
    def tiles(self) -> tuple[Loop, ...]:
        """Loops with vector multiply-adds."""
        return tuple(loop for loop in self.loops if loop.multiply_adds)

    @property
    def integer(self) -> bool:
        """Whether it sums integers; their scaling may be multiply-adds of floats."""
        return any(loop.integer for loop in self.loops)

    @property
    def fault(self) -> str:
        """What is wrong with the kernel, empty if nothing is."""
        if self.macs and not self.tiles:
            return "no vector multiply-add in any innermost loop"
        spilling = [loop for loop in self.tiles if loop.stack] if self.macs else []
        if spilling:
            first = " ".join(spilling[0].stack[0].split())
            return f"{len(spilling[0].stack)} stack accesses in a loop with multiply-adds, such as {first}"
        return ""


def kernel_loops(package: Path) -> list[KernelLoops]:
    """Compile the package's kernels as it would itself and find their innermost loops.

    Raises PackageInvalid, ToolchainMissing, CompileFailed, and UsageError for an ISA without known instructions.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest)
        if tools.isa not in INSTRUCTION_SETS:
            raise UsageError(f"{package} is for {tools.isa}: loops are known of {', '.join(INSTRUCTION_SETS)}")
        tools.require(emulator=False)
        objdump = f"{manifest['target']['compiler']['cross_prefix']}objdump"
        if which(objdump) is None:
            raise ToolchainMissing(f"{objdump} is not on PATH: {install_command(tools.package)}")
        make(copy, "lib", tools, _TIMEOUT_S)
        kernels = f"build/{manifest['prefix']}_kernels.o"
        done = run([objdump, "--disassemble", "--no-show-raw-insn", kernels], copy, _TIMEOUT_S)
        if done.status:
            raise CompileFailed(f"{objdump} could not read {kernels} of {package}: {done.stderr.strip()}")
    found = loops_of(done.stdout, tools.isa)
    try:
        return [KernelLoops(k["name"], k["macs"], _of_kernel(found, k["symbol"])) for k in manifest["kernels"]]
    except KeyError as error:
        raise PackageInvalid(f"{package} has no kernel {error}: write it again with `edgetune build`") from error


def _of_kernel(found: Mapping[str, tuple[Loop, ...]], symbol: str) -> tuple[Loop, ...]:
    """Loops of a kernel, and of its parts where threads share it: those are functions of their own."""
    parts = re.compile(rf"{re.escape(symbol)}__part\d*")
    shared = [loop for name, loops in found.items() if parts.fullmatch(name) for loop in loops]
    return (*found[symbol], *shared)


def table(name: str, kernels: Sequence[KernelLoops]) -> str:
    """Markdown: a row per innermost loop of kernels with multiply-adds."""
    rows = [
        f"# {name}",
        "",
        "| kernel | loop at | instructions | multiply-adds | loads | stack accesses |",
        "|---|---|---|---|---|---|",
    ]
    for kernel in kernels:
        for loop in kernel.loops if kernel.macs else ():
            counts = (len(loop.instructions), loop.multiply_adds, loop.loads, len(loop.stack))
            cells = (kernel.kernel, hex(loop.offset), *map(str, counts))
            rows.append(f"| {' | '.join(cells)} |")
    tiles = [loop for kernel in kernels if kernel.macs for loop in kernel.tiles]
    multiply_adds, stack = sum(loop.multiply_adds for loop in tiles), sum(len(loop.stack) for loop in tiles)
    rows += ["", f"{len(tiles)} loops with {multiply_adds} multiply-adds, {stack} stack accesses in them."]
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of each package, then what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", type=Path, nargs="+", metavar="PACKAGE")
    options = parser.parse_args(arguments)
    faults = []
    try:
        for package in options.packages:
            kernels = kernel_loops(package)
            print(table(package.resolve().name, kernels))
            faults += [f"{package}: {kernel.kernel}: {kernel.fault}" for kernel in kernels if kernel.fault]
    except EdgetuneError as error:
        print(f"loops: {error}", file=sys.stderr)
        return error.exit_code
    for fault in faults:
        print(f"loops: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
