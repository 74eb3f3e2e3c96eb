"""Packages in somebody's program: two at once, several instances of each, the header from C++."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.case import Case, run

CPP = (("g++", "c++11"), ("g++", "c++20"), ("clang++-19", "c++17"))

# One package: instances with memory of their own, and a run of one of them on its own input.
_PACKAGE = """
#include "{p}.h"
static {p}_ctx {p}_at[2];
static _Alignas({P}_WORKSPACE_ALIGN) unsigned char {p}_memory[2][{P}_WORKSPACE_BYTES];
static _Alignas(64) float {p}_in[2][{inputs}], {p}_out[3][{outputs}];
static int {p}_step(int instance, int out)
{{
    const {p}_inputs inputs = {{ {p}_in[instance] }};
    const {p}_outputs outputs = {{ {p}_out[out] }};
    return {p}_run(&{p}_at[instance], &inputs, &outputs);
}}
static int {p}_start(void)
{{
    for (int i = 0; i < {inputs}; i++) {{
        {p}_in[0][i] = (float)(i % 17) / 8.0f - 1.0f;
        {p}_in[1][i] = (float)(i % 5) / 4.0f - 0.25f;
    }}
    for (int i = 0; i < 2; i++)
        if ({p}_init(&{p}_at[i], {p}_memory[i], {P}_WORKSPACE_BYTES)) return 1;
    return 0;
}}
static int {p}_judge(void)
{{
    /* The third output is the first instance's again, after all others ran. */
    return memcmp({p}_out[0], {p}_out[2], sizeof {p}_out[0]) != 0
        || memcmp({p}_out[0], {p}_out[1], sizeof {p}_out[0]) == 0;
}}
"""
_MAIN = """
int main(void)
{{
    if ({a}_start() || {b}_start()) return 1;
    if ({a}_step(0, 0) || {b}_step(0, 0) || {a}_step(1, 1) || {b}_step(1, 1)) return 2;
    if ({a}_step(0, 2) || {b}_step(0, 2)) return 2;
    return {a}_judge() || {b}_judge() ? 3 : 0;
}}
"""


def two_in_one(case: Case, other: Case) -> str:
    """Two packages, two instances of each, run in turn: none disturbs another."""
    folder = case.scratch / "two"
    folder.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "both.c"]
    for one in (case, other):
        copy = one.copy("linked")
        run("make", "-s", "lib", cwd=copy)
        command += [f"-I{copy / 'include'}", copy / "lib" / f"lib{one.prefix}.a"]
    text = "#include <string.h>\n" + "".join(_filled(_PACKAGE, one.manifest) for one in (case, other))
    (folder / "both.c").write_text(text + _MAIN.format(a=case.prefix, b=other.prefix), encoding="ascii")
    run(*command, "-lm", "-o", "both", cwd=folder)
    run("./both", cwd=folder)
    return f"{case.prefix} and {other.prefix}"


def _filled(text: str, manifest: Mapping[str, Any]) -> str:
    p = manifest["prefix"]
    counts = [tensor["bytes"] // 4 for tensor in (manifest["inputs"][0], manifest["outputs"][0])]
    return text.format(p=p, P=p.upper(), inputs=counts[0], outputs=counts[1])


_WRONG_USE = """
#include "{p}.h"
static _Alignas({P}_WORKSPACE_ALIGN) unsigned char memory[{P}_WORKSPACE_BYTES + {P}_WORKSPACE_ALIGN];
static _Alignas(64) float in[{inputs} + 1], out[{outputs} + 1];
int main(void)
{{
    {p}_ctx ctx = {{ {{ 0 }} }};
    const {p}_inputs inputs = {{ in }};
    const {p}_outputs outputs = {{ out }};
    const {p}_outputs inside = {{ (void *)memory }};
    const {p}_inputs nothing = {{ 0 }};
    if ({p}_run(&ctx, &inputs, &outputs) != {P}_ERR_NOT_READY) return 1;
    if ({p}_init(&ctx, memory, {P}_WORKSPACE_BYTES - 1) != {P}_ERR_WORKSPACE_SIZE) return 2;
    if ({p}_init(&ctx, memory, 0) != {P}_ERR_WORKSPACE_SIZE) return 3;
    if ({p}_init(&ctx, memory + 4, {P}_WORKSPACE_BYTES) != {P}_ERR_WORKSPACE_ALIGN) return 4;
    if ({p}_run(&ctx, &inputs, &outputs) != {P}_ERR_NOT_READY) return 5;
    if ({p}_init(&ctx, memory, {P}_WORKSPACE_BYTES) != {P}_OK) return 6;
    if ({p}_run(&ctx, &nothing, &outputs) != {P}_ERR_NULL) return 7;
    if ({p}_run(&ctx, &inputs, &inside) != {P}_ERR_TENSOR_OVERLAP) return 8;
    if ({p}_run(&ctx, &inputs, &outputs) != {P}_OK) return 9;
    {p}_deinit(&ctx);
    return {p}_run(&ctx, &inputs, &outputs) != {P}_ERR_NOT_READY;
}}
"""


def wrong_use(case: Case) -> str:
    """A workspace too small or misaligned, missing tensors, calls out of turn: a status each, and no crash."""
    folder = case.copy("wrong-use")
    flags = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    run("make", "-s", "lib", f"CFLAGS={flags}", cwd=folder)
    (folder / "main.c").write_text(_filled(_WRONG_USE, case.manifest), encoding="ascii")
    words = ("gcc", "-std=gnu11", "-Iinclude", *flags.split(), "main.c", f"lib/lib{case.prefix}.a", "-lm", "-o", "use")
    run(*words, cwd=folder)
    run("./use", cwd=folder)
    return "a status each"


def header_as_cpp(case: Case) -> str:
    """The public header is C++ too, without a warning."""
    header = case.package / "include" / f"{case.prefix}.h"
    for compiler, standard in CPP:
        warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
        run(compiler, f"-std={standard}", *warnings, "-fsyntax-only", "-x", "c++", header, cwd=case.package)
    return ", ".join(f"{compiler} {standard}" for compiler, standard in CPP)
