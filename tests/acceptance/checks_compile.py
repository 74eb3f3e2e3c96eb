"""Does the C compile silently and in little memory, what does it need from outside, and do sanitizers find anything?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.acceptance.case import STRICT, Case, last_line, run

COMPILERS = ("gcc", "clang-19")
MEMORY_LIMIT_BYTES = 2_000_000_000
# Emitted by position-independent code for the linker; nothing has to be supplied for it.
OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_"}
MEMORY_FUNCTIONS = {"memcpy", "memset", "memmove", "memcmp"}
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
# GCC takes minutes over UBSan's checks in unrolled kernels with -O1, and many more with -g.
SANITIZED_AT = {"gcc": "-O0", "clang-19": "-O1"}


def no_warning(case: Case) -> str:
    """Every C file compiles under both compilers with warnings as errors, and the self-test passes."""
    seen = []
    for compiler in COMPILERS if case.board == "host" else (case.manifest["target"]["compiler"]["cc"],):
        folder = case.copy(f"strict-{compiler}")
        peak = _make_measured(folder, f"CC={compiler}", f"WARNINGS={STRICT}", "lib")
        assert peak < MEMORY_LIMIT_BYTES, f"{compiler} took {peak / 1e9:.2f} GB"
        said = run("make", "-s", f"CC={compiler}", f"WARNINGS={STRICT}", "selftest", "example", cwd=folder)
        assert "PASS" in said.splitlines(), f"{compiler}: {last_line(said)}"
        run("make", "-s", f"CC={compiler}", f"WARNINGS={STRICT}", f"build/{case.prefix}_bench", cwd=folder)
        seen.append(f"{compiler} {peak / 1e6:.0f} MB")
    return ", ".join(seen)


def undefined_symbols(case: Case) -> str:
    """The library links nothing but libm and mem* functions, and holds nothing that can be written."""
    folder = case.copy("symbols")
    run("make", "-s", "lib", cwd=folder)
    tool = f"{case.manifest['target']['compiler']['cross_prefix']}nm"
    listing = run(tool, "-P", f"lib/lib{case.prefix}.a", cwd=folder)
    pairs = re.findall(r"^(\S+) (\w)", listing, re.MULTILINE)
    defined = {name for name, kind in pairs if kind not in "Uw"}
    needed = {name for name, kind in pairs if kind in "Uw"} - defined - OF_THE_LINKER
    foreign = needed - MEMORY_FUNCTIONS - mathematical_functions()
    assert not foreign, f"undefined symbols {sorted(foreign)}"
    writable = [name for name, kind in pairs if kind in "dDbBCcsS"]
    assert not writable, f"writable globals {writable}"
    loud = [name for name, kind in pairs if kind in "TRV" and not name.startswith(f"{case.prefix}_")]
    assert not loud, f"global symbols without the prefix {loud}"
    return " ".join(sorted(needed)) or "none"


def sanitizers(case: Case) -> str:
    """ASan and UBSan, with gcc's runtime and with clang's, find nothing in a self-test."""
    for compiler in COMPILERS:
        folder = case.copy(f"sanitized-{compiler}")
        flags = f"CFLAGS={SANITIZED_AT[compiler]} {SANITIZE}"
        said = run("make", "-s", f"CC={compiler}", flags, "selftest", cwd=folder)
        assert last_line(said) == "PASS", f"{compiler}: {last_line(said)}"
    return "clean"


def mathematical_functions() -> set[str]:
    """What libm exports, and not what it takes from libc itself."""
    found = subprocess.run(["gcc", "-print-file-name=libm.so.6"], capture_output=True, text=True, check=True)
    listing = run("nm", "-D", "-P", "--defined-only", found.stdout.strip(), cwd=Path("/"))
    return {line.split("@")[0].split(" ")[0] for line in listing.splitlines()}


# In a process of its own: what a process needed before it became make would count as well.
_MEASURE = """
import resource, subprocess, sys
done = subprocess.run(["make", "-s", *sys.argv[1:]], stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
sys.stdout.buffer.write(b"%d\\n" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss + done.stdout)
sys.exit(done.returncode)
"""


def _make_measured(folder: Path, *words: str) -> int:
    """Runs make, which must be silent; the largest resident set, in bytes, of any process below it."""
    kilobytes, _, said = run(sys.executable, "-c", _MEASURE, *words, cwd=folder).partition("\n")
    assert not said.strip(), f"make {' '.join(words)} is not silent: {said.strip()[:1500]}"
    return int(kilobytes) * 1024
