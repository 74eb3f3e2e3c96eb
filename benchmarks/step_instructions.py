"""What a step executes beside its window: `python -m benchmarks.step_instructions MODEL --stream INPUT:AXIS[=HOP]`.

Two packages are built for a Cortex-M under an emulator, one of the window and one of a step. Each runs `--runs` times,
on integers or floats at random, and counts its own instructions: under QEMU's `-icount`, time is instructions, and so
are ticks of the core's SysTick timer; a loop of known length says how many. Counts are the same each time, to two ticks
of five instructions; those of a step depend on where it is in the rings of its states. They are no cycles: they know no
caches, and no two instructions at a time. One line has the most of all runs of both packages, and the exit code is 1
where a step has more than `--most` of the window's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import edgetune
from edgetune.config.input_stream import InputStream, stream_of
from edgetune.errors import SelfTestFailed
from edgetune.package.manifest import run_function
from edgetune.verify.driver import last_words
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import work_copy

_SECONDS = 300.0
_ICOUNT = ("-icount", "shift=3")
"""An instruction takes 2^3 ns of the board's time."""
_PROGRAM = r"""
#include "@p@.h"
#include <stdint.h>
#include <stdio.h>

enum { RUNS = @runs@, KNOWN = 1000000, LAST = 0xffffff };

static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u; /* control, reload, value: ARMv7-M B3.3 */
static uint32_t seed = 1;

static void begin(void)
{
    systick[1] = LAST, systick[2] = 0, systick[0] = 5;
}

/* Ticks since begin(); LAST where there were more than the timer counts. */
static uint32_t ticks(void)
{
    const uint32_t left = systick[2];

    return systick[0] >> 16 & 1u ? LAST : LAST - left;
}

/* KNOWN instructions. */
static void known(void)
{
    uint32_t turns = KNOWN / 2;

    __asm__ volatile("1: subs %0, #1\n bne 1b" : "+l"(turns) : : "cc");
}

static int random_byte(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)(seed >> 24) - 128;
}

/* Stands for the function of the package in its example, and does all runs in the first call. */
static @p@_status counted(@p@_ctx *ctx, const @p@_inputs *inputs, const @p@_outputs *outputs)
{
    static uint32_t of_known;
    @p@_status status = @P@_OK;
    uint32_t found;

    if (of_known != 0)
        return status;
    begin(), known(), of_known = ticks();
    for (int run = 0; run < RUNS && status == @P@_OK; run++) {
@fill@
        begin(), status = @run@(ctx, inputs, outputs), found = ticks();
        printf("count %lu\n", found == LAST ? 0ul : (unsigned long)((uint64_t)found * KNOWN / of_known));
    }
    return status;
}

#define @run@ counted
#include "../examples/main.c"
"""
_FILL = """        for (unsigned i = 0; i < @P@_INPUT_@F@_ELEMENTS; i++)
            ((@type@ *)(uintptr_t)inputs->@f@)[i] = (@type@)random_byte()@scale@; /* an array of the example */
"""
_TYPES = {"float32": "float", "float64": "double", "bool": "unsigned char"}


@dataclass(frozen=True)
class Counts:
    """Instructions of each run of a package of the window, and of one of a step."""

    model: str
    window: tuple[int, ...]
    step: tuple[int, ...]

    @property
    def share(self) -> float:
        """The most of all steps, as a share of the most of all runs of the window."""
        return max(self.step) / max(self.window)

    def __str__(self) -> str:
        return (
            f"{self.model}: {max(self.window):,} instructions of the window, {max(self.step):,} of a step: "
            f"1/{1 / self.share:.2f}"
        )


def program(manifest: Mapping[str, Any], runs: int) -> str:
    """The program that runs the package of `manifest` so many times, and prints a line for each run."""
    p, run = manifest["prefix"], run_function(manifest)
    fill = "".join(
        _FILL.replace("@f@", one["field"])
        .replace("@F@", one["field"].upper())
        .replace("@type@", _TYPES.get(one["dtype"], f"{one['dtype']}_t"))
        .replace("@scale@", " / 64" if one["dtype"].startswith("float") else "")
        for one in manifest["inputs"]
    )
    values = {"fill": fill.rstrip("\n"), "p": p, "P": p.upper(), "run": run, "runs": str(runs)}
    text = _PROGRAM
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def instructions(package: Path, runs: int) -> tuple[int, ...]:
    """The instructions of each of so many runs of `package`, the first one after its start.

    Raises SelfTestFailed where a run fails, or takes more than the timer counts, and what the toolchain raises.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest)
        tools.require()
        first, *rest = tools.emulator
        place = Here(replace(tools, emulator=(first, *_ICOUNT, *rest)))
        p = manifest["prefix"]
        (copy / "test" / f"{p}_driver.c").write_text(program(manifest, runs), encoding="ascii")
        place.link(copy, f"build/{p}_driver", tools, _SECONDS)
        done = place.execute(copy / "build" / f"{p}_driver", (), _SECONDS)
    found = tuple(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("count "))
    if done.status or len(found) < runs:
        raise SelfTestFailed(f"{package} does not run: {last_words(done.status, done.stderr or done.stdout)}")
    if not all(found):
        raise SelfTestFailed(f"a run of {package} takes more instructions than the timer of the core counts")
    return found


def counts(model: Path, streams: Mapping[str, InputStream], board: str, runs: int, folder: Path) -> Counts:
    """Builds both packages of `model` in `folder`, and counts."""
    loaded = edgetune.load(model)
    found = []
    for name, streamed in (("window", {}), ("step", streams)):
        loaded.build(board=board, streams=streamed, out=folder / name)
        found.append(instructions(folder / name, runs))
    return Counts(model.name, *found)


def main(arguments: Sequence[str]) -> int:
    """The command."""
    summary = (__doc__ or "").split(":")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_instructions", description=summary)
    parser.add_argument("model", type=Path)
    parser.add_argument("--stream", action="append", required=True, type=stream_of, metavar="INPUT:AXIS[=HOP]")
    parser.add_argument("--board", default="mps2-an500")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--most", type=float, default=float("inf"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="edgetune-counts-") as folder:
        found = counts(asked.model, dict(asked.stream), asked.board, asked.runs, Path(folder))
    print(json.dumps(vars(found)) if asked.json else found)
    return int(found.share > asked.most)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
