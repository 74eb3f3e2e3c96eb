"""Do two versions of a package compile to the same instructions? A line for each kernel, exit status 1 where not.

python benchmarks/objects.py BEFORE AFTER [--all]

BEFORE and AFTER are packages of one model for one board, or folders of such packages by the same names. The kernels are
compiled as each package does it, and compared function by function: what `objdump` prints of their instructions, with
the sections that they refer to, but neither addresses nor places of constants. Kernels are paired by what they compute
(their workload), for their names may differ. A kernel that calls a function `et_*` may differ, and the output names it;
with --all it may not. Cross-compiled packages need no board. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.errors import CompileFailed, EdgetuneError, ToolchainMissing, UsageError  # noqa: E402
from edgetune.package.manifest import MANIFEST  # noqa: E402
from edgetune.target.toolchain import install_command  # noqa: E402  the path comes first
from edgetune.verify.toolchain import PackageToolchain  # noqa: E402
from edgetune.verify.work_copy import make, run, work_copy  # noqa: E402

_TIMEOUT_S = 900.0
_HEADING = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
_LINE = re.compile(r"^\s*[0-9a-f]+:\s+(\S.*)$")
_PLACE = re.compile(r"\b(?:0x)?[0-9a-f]+ (?=<)")
_RELOCATION = re.compile(r"^(R_\w+\s+[^\s+-]+).*$")
_SYMBOL = re.compile(r"\b\w+?__k_\w+?(?=__part|__task|\W|$)")
_OWN_FUNCTION = re.compile(r"\b(?:et|ET)_\w+\(")


@dataclass(frozen=True)
class KernelObject:
    """What a compiler made of one kernel: the text of each of its functions, and whether the kernel calls `et_*`.

    A workload stands in place of the symbol of its kernel, in names of functions and in instructions.
    """

    name: str
    workload: str
    functions: Mapping[str, tuple[str, ...]]
    calls_own: bool


@dataclass(frozen=True)
class Comparison:
    """One kernel of a package in two versions: numbers of instructions, and whether all are the same."""

    package: str
    kernel: str
    before: int
    after: int
    same: bool
    calls_own: bool


def functions_of(listing: str) -> dict[str, tuple[str, ...]]:
    """Instructions by function, of what `objdump --disassemble --reloc --no-show-raw-insn` prints, without places."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in listing.splitlines():
        if heading := _HEADING.match(line):
            name = heading[1]
            found[name] = []
        elif name and (instruction := _LINE.match(line)):
            text = _RELOCATION.sub(r"\1", " ".join(instruction[1].split()))
            found[name].append(_PLACE.sub("", text))
    return {function: tuple(texts) for function, texts in found.items()}


def kernel_objects(package: Path) -> list[KernelObject]:
    """Compile the package's kernels as it would itself.

    Raises PackageInvalid, ToolchainMissing and CompileFailed.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest)
        tools.require(emulator=False)
        objdump = f"{manifest['target']['compiler']['cross_prefix']}objdump"
        if which(objdump) is None:
            raise ToolchainMissing(f"{objdump} is not on PATH: {install_command(tools.package)}")
        kernels = f"build/{manifest['prefix']}_kernels.o"
        make(copy, kernels, tools, _TIMEOUT_S)
        done = run([objdump, "--disassemble", "--reloc", "--no-show-raw-insn", kernels], copy, _TIMEOUT_S)
        if done.status:
            raise CompileFailed(f"{objdump} could not read {kernels} of {package}: {done.stderr.strip()}")
        source = (copy / f"src/{manifest['prefix']}_kernels.c").read_text(encoding="utf-8")
    found = functions_of(done.stdout)
    workloads = {kernel["symbol"]: str(kernel["provenance"]["workload"]) for kernel in manifest["kernels"]}
    made = []
    for kernel in manifest["kernels"]:
        # Parts that threads share, and what a compiler split off, carry the name of their kernel.
        own = re.compile(rf"{re.escape(kernel['symbol'])}(?:__part\w*|__task\w*)?(?:\..*)?")
        body = re.search(rf"\b{re.escape(kernel['symbol'])}\b[^;{{]*\{{.*?^\}}$", source, re.MULTILINE | re.DOTALL)
        if body is None:
            raise CompileFailed(f"{package} does not define {kernel['symbol']}: write it again with `edgetune build`")
        parts = {
            _by_workload(name, workloads): tuple(_by_workload(text, workloads) for text in texts)
            for name, texts in found.items()
            if own.fullmatch(name)
        }
        workload = workloads[kernel["symbol"]]
        made.append(KernelObject(kernel["name"], workload, parts, _OWN_FUNCTION.search(body[0]) is not None))
    return made


def _by_workload(text: str, workloads: Mapping[str, str]) -> str:
    """`text` with the workload of each kernel in place of its symbol, also where that begins the name of a part."""
    return _SYMBOL.sub(lambda found: workloads.get(found[0], found[0]), text)


def compare(before: Path, after: Path) -> list[Comparison]:
    """Compare the kernels of two versions of a package, in the order of the second.

    Raises UsageError where their kernels compute different things, and what `kernel_objects` raises.
    """
    first = {kernel.workload: kernel for kernel in kernel_objects(before)}
    second = kernel_objects(after)
    if set(first) != {kernel.workload for kernel in second}:
        raise UsageError(f"{before} and {after} hold different kernels: build one model for one board in both versions")
    return [
        Comparison(
            after.name,
            kernel.name,
            sum(map(len, first[kernel.workload].functions.values())),
            sum(map(len, kernel.functions.values())),
            first[kernel.workload].functions == kernel.functions,
            kernel.calls_own,
        )
        for kernel in second
    ]


def pairs(before: Path, after: Path) -> list[tuple[Path, Path]]:
    """The two packages, or those that lie in both folders by the same name; raises UsageError where there are none."""
    if (before / MANIFEST).is_file():
        return [(before, after)]
    found = [
        (path.parent, after / path.parent.relative_to(before))
        for path in sorted(before.rglob(MANIFEST))
        if (after / path.relative_to(before)).is_file()
    ]
    if not found:
        raise UsageError(
            f"{before} and {after} have no package in common: give two folders that `edgetune build` wrote"
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kernel that differs, a sum, and a JSON line; 1 where one differs that may not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--all", action="store_true", help="kernels that call et_* functions may not differ either")
    options = parser.parse_args(arguments)
    try:
        found = [one for before, after in pairs(options.before, options.after) for one in compare(before, after)]
    except EdgetuneError as error:
        print(f"objects: {error}", file=sys.stderr)
        return error.exit_code
    for kernel in found:
        if not kernel.same:
            why = " (calls et_*)" if kernel.calls_own else ""
            print(f"{kernel.package}: {kernel.kernel}: {kernel.before} instructions, then {kernel.after}{why}")
    own = [kernel for kernel in found if kernel.calls_own]
    others = [kernel for kernel in found if not kernel.calls_own]
    for kernels, what in ((others, "without et_*"), (own, "with et_*")):
        print(f"{sum(kernel.same for kernel in kernels)} of {len(kernels)} kernels {what}: the same instructions")
    print(json.dumps({"kernels": [asdict(kernel) for kernel in found]}))
    return int(any(not kernel.same and (options.all or not kernel.calls_own) for kernel in found))


if __name__ == "__main__":
    sys.exit(main())
