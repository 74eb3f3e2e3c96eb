"""A package as a shared library with functions that need no knowledge of its types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import CompileFailed
from edgetune.package.diagnostics import first_diagnostic
from edgetune.package.manifest import in_arena, run_function
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import make, run, work_copy

TIMEOUT_S = 900.0

_SHIM = """#include "{p}.h"
static _Alignas(64) unsigned char workspace[{P}_WORKSPACE_BYTES + 64];
{buffers}
{weights}
static {p}_ctx ctx;
{structs}
static void *const input_places[] = {{{input_places}0}};
static void *const output_places[] = {{{output_places}0}};
void *shim_input(unsigned index) {{ return input_places[index]; }}
void *shim_output(unsigned index) {{ return output_places[index]; }}
int shim_run(void) {{ return (int){run}(&ctx{passed}); }}
int shim_start(void)
{{
    int status = (int){p}_init(&ctx, workspace, sizeof workspace);
{assignments}
{bind}
    return status;
}}
{threads}{states}"""
_STATES = """int shim_begin(const void *from)
{{
    return (int)(from == 0 ? {p}_reset(&ctx) : {p}_load_state(&ctx, from, {P}_STATE_BYTES));
}}
int shim_keep(void *to) {{ return (int){p}_save_state(&ctx, to, {P}_STATE_BYTES); }}
"""
_THREADS = "int shim_threads(int threads) {{ return (int){p}_set_threads(&ctx, threads); }}\n"


@dataclass(frozen=True)
class Library:
    """Where the library is, and what compiled it: the flags are those of the package's own Makefile, and -fPIC."""

    path: Path
    compiler: str
    flags: tuple[str, ...]


def build_library(package: Path, folder: Path) -> Library:
    """Build `package` with its own Makefile, and link it with a shim into `folder`.

    The package stays as it is. Raises PackageInvalid, ToolchainMissing and CompileFailed.
    """
    path = folder.resolve() / "package.so"
    # Of all its variables this is the one that replaces no flag that matters to the code.
    tools = _linked(package, path, shim, ["-fPIC", "-shared"], ["WARNINGS=-fPIC"])
    return Library(path, tools.cc, tools.cflags)


def build_program(
    package: Path, folder: Path, source: Callable[[Mapping[str, Any]], str], more: Sequence[str] = ()
) -> Path:
    """Build `package` and link it with the C text that `source` makes of its manifest, and the files `more`.

    The text may use what is in `shim`, if it holds it. Raises as `build_library` does.
    """
    path = folder.resolve() / "program"
    _linked(package, path, source, ["-march=native", *more], [])
    return path


def _linked(
    package: Path, path: Path, source: Callable[[Mapping[str, Any]], str], how: Sequence[str], variables: Sequence[str]
) -> PackageToolchain:
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest)
        tools.require()
        prefix = manifest["prefix"]
        make(copy, "lib", tools, TIMEOUT_S, tuple(variables))
        objects = []
        if _external(manifest):
            objects.append(f"build/{prefix}_test_weights.o")
            make(copy, objects[0], tools, TIMEOUT_S, tuple(variables))
        (copy / "beside.c").write_text(source(manifest), encoding="utf-8")
        command = [tools.cc, "-std=gnu11", "-O2", *how, "-Iinclude", "-o", str(path), "beside.c"]
        done = run([*command, *objects, f"lib/lib{prefix}.a", "-lm"], copy, TIMEOUT_S)
    if done.status:
        raise CompileFailed(f"{tools.cc} could not link {path.name}: {first_diagnostic(done.stderr or done.stdout)}")
    return tools


def shim(manifest: Mapping[str, Any]) -> str:
    """C text of the shim: buffers for the tensors that a run is passed, and functions without arguments that run.

    For a package with states, `shim_begin` makes it go on from what `shim_keep` has copied, or begin anew.
    """
    prefix = str(manifest["prefix"])
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    passed = () if in_arena(manifest) else (("inputs", inputs), ("outputs", outputs))
    tensors = [(kind, t["field"], t["bytes"]) for kind, side in passed for t in side]
    external = _external(manifest)
    weights = f"{prefix}__test_weights"
    binding = (
        f"    if (status == 0) status = (int){prefix}_bind_weights(&ctx, {weights}, {prefix.upper()}_WEIGHTS_BYTES);"
    )
    return _SHIM.format(
        p=prefix,
        P=prefix.upper(),
        run=run_function(manifest),
        structs="\n".join(f"static {prefix}_{kind} {kind};" for kind, _ in passed),
        passed="".join(f", &{kind}" for kind, _ in passed),
        buffers="\n".join(f"static _Alignas(64) unsigned char {kind}_{t}[{size} + 1];" for kind, t, size in tensors),
        weights=f"extern const unsigned char {weights}[];" if external else "",
        input_places="".join(f"{_place(manifest, 'input', t)}, " for t in inputs),
        output_places="".join(f"{_place(manifest, 'output', t)}, " for t in outputs),
        assignments="\n".join(f"    {kind}.{t} = (void *){kind}_{t};" for kind, t, _ in tensors),
        bind=binding if external else "",
        threads=_THREADS.format(p=prefix) if manifest.get("threads", 1) > 1 else "",
        states=_STATES.format(p=prefix, P=prefix.upper()) if manifest.get("states") else "",
    )


def _place(manifest: Mapping[str, Any], side: str, tensor: Mapping[str, Any]) -> str:
    """Where the shim has a tensor, as C text: in a buffer of its own, or in the workspace."""
    offset = f"{manifest['prefix']}_{side}_{tensor['field']}_OFFSET".upper()
    return f"workspace + {offset}" if in_arena(manifest) else f"{side}s_{tensor['field']}"


def _external(manifest: Mapping[str, Any]) -> bool:
    memory = manifest["memory"]
    return bool(memory["weights_placement"] == "external" and memory["weights_bytes"])
