"""Names that the installed compilers and emulators know, asked of them: machines, CPUs, and the parts of a triple."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from edgetune.errors import ToolHung
from edgetune.target.tool_process import run_tool

_PATIENCE_S = 20.0
_FEW = 12  # names that a sentence can list
_CLOSE = 0.65
_EMULATOR = "qemu-"
# Options of QEMU whose value begins with a name, and the option with which it lists the names of that kind.
_NAMING = {"-machine": "machine", "-M": "machine", "-cpu": "cpu"}
_LISTED = re.compile(r"valid arguments(?: to \S+ switch)? are: (.*)")  # GCC's note on a value that it does not know


def unknown_name(word: str, tool: str, names: Collection[str], what: str = "") -> str:
    """Return that `tool` knows no `word`, with the nearest of the `names` that it knows, as the end of a sentence."""
    close = get_close_matches(word, sorted(names), n=1, cutoff=_CLOSE)
    if not close:  # also where only the case of letters differs
        by_small = {name.lower(): name for name in sorted(names)}
        close = [by_small[name] for name in get_close_matches(word.lower(), by_small, n=1, cutoff=_CLOSE)]
    some = sorted(names)[:_FEW]
    others = f"it knows {', '.join(some)}{' and others' if len(names) > len(some) else ''}"
    return f"says '{word}', which {tool} does not know{what}: {f'''did you mean '{close[0]}'?''' if close else others}"


def emulator_fault(words: Sequence[str]) -> str:
    """Return which machine or CPU in the command prefix `words` the emulator does not know, as the end of a sentence.

    "" where it knows all of them, is not installed, or is none that lists its names as QEMU does.
    """
    start = next((i for i, word in enumerate(words) if Path(word).name.startswith(_EMULATOR)), len(words))
    for option, value in zip(words[start + 1 :], words[start + 2 :], strict=False):
        kind = _NAMING.get(option.replace("--", "-", 1))
        name = value.split(",")[0].removeprefix("type=")
        if kind is None or "=" in name:
            continue
        listed = _listed(words[start], kind)
        if listed and name not in _names(listed) | _quoted(listed):
            return unknown_name(name, Path(words[start]).name, _names(listed))
    return ""


def _listed(emulator: str, kind: str) -> str:
    """What an emulator says of its machines or CPUs, one a line; "" where it lists none."""
    answer = _asked([emulator, f"-{kind}", "help"])  # the user-mode emulators end with 1
    listed = "" if answer is None else answer.stdout.partition("\nRecognized ")[0]  # before the features of x86 CPUs
    return listed if len(_names(listed)) > 1 else ""  # one line may be what a wrapper says


def _names(listed: str) -> frozenset[str]:
    """The names themselves: the first word of each line, or the second behind an architecture that most begin with."""
    rows = [words for line in listed.splitlines() if (words := line.split()) and not line.endswith(":")]
    most = max(Counter(row[0] for row in rows).values(), default=0)
    behind = 1 if 1 < len(rows) < 2 * most else 0
    return frozenset(row[min(behind, len(row) - 1)] for row in rows)


def _quoted(listed: str) -> frozenset[str]:
    """Words in quotes and parentheses: aliases, and names of Sparc CPUs."""
    return frozenset(word for part in re.findall(r"['\"(]([^'\"()]+)['\")]", listed) for word in (part, *part.split()))


def compiler_machine(cc: str) -> tuple[str, ...]:
    """Return the parts of the machine that the compiler `cc` compiles for, such as arm, none, eabi; () without it."""
    answer = _asked([cc, "-dumpmachine"])
    return tuple(answer.stdout.strip().split("-")) if answer is not None and not answer.returncode else ()


def compiler_cpus(cc: str) -> frozenset[str]:
    """Return the names of CPUs that the compiler `cc` knows; none without it, or where it does not list them."""
    for option in ("-mcpu", "-march"):  # x86 names CPUs with the second, and has no list for the first
        answer = _asked([cc, f"{option}=help", "-x", "c", "-E", os.devnull])
        found = _LISTED.search(answer.stderr) if answer is not None else None
        if found is not None:
            return frozenset(found[1].split(";")[0].split())
    return frozenset()


@cache
def _answer(command: tuple[str, ...]) -> subprocess.CompletedProcess[str] | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        return run_tool(command, timeout_s=_PATIENCE_S)
    except (OSError, ToolHung):
        return None


def _asked(command: Iterable[str]) -> subprocess.CompletedProcess[str] | None:
    """What a tool answers; None where it is not installed, cannot start, or does not answer in time."""
    return _answer(tuple(command))
