"""The hand-made package with a first kernel that threads share, and a way to run shared kernels without a pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetune.codegen.emit import declaration
from edgetune.codegen.kernel_source import KernelSource
from edgetune.graph.memory.plan import plan
from edgetune.package.emit import PackageSummary
from edgetune.package.inputs import Device
from edgetune.target.preferences import Io
from edgetune.target.target import Target
from tests import package_sample as sample

WORKERS = 3

_POOL = """
struct test__pool;
typedef void test__task(const void *work, int32_t begin, int32_t end, int32_t worker);
void test__parallel_for(struct test__pool *pool, test__task *task, const void *work, int32_t count, int32_t ranges);
void test__parallel_for(struct test__pool *pool, test__task *task, const void *work, int32_t count, int32_t ranges) {
  (void)pool;
%s
}

"""


_BACKWARDS = f"for (int32_t i = count; i-- > 0;) task(work, i, i + 1, i % {WORKERS});"
_RANGES = {
    "first": "task(work, 0, count / (%d * ranges), 0);",
    "last": "task(work, count - count / (%d * ranges), count, 0);",
}


def backwards(source: KernelSource) -> KernelSource:
    """A kernel that does what the shared kernel `source` does, its loops one iteration at a time from the last on."""
    return _without_pool(source, f"  (void)ranges;\n  {_BACKWARDS}")


def one_range(source: KernelSource, which: str, workers: int) -> KernelSource:
    """A kernel that does the first or last of the ranges that the shared kernel `source` gives to `workers` threads."""
    return _without_pool(source, f"  {_RANGES[which] % workers}")


def _without_pool(source: KernelSource, loop: str) -> KernelSource:
    symbol = f"{source.symbol}_alone"
    names = [p.name for p in source.params] + (["scratch"] if source.scratch_bytes else [])
    heads = [declaration(p) for p in source.params]
    heads += ["unsigned char *restrict scratch"] if source.scratch_bytes else []
    prototype = f"void {symbol}({', '.join(heads)})"
    call = f"{prototype} {{\n  {source.symbol}({', '.join([*names, 'NULL'])});\n}}\n"
    text = f"{_POOL.replace('%s', loop)}{source.prototype};\n{source.definition}\n{call}"
    return replace(source, symbol=symbol, prototype=prototype, definition=text, workers=1)


def emit(
    out: Path, *, name: str = "tiny", target: Target | None = None, io: Io = "caller", **options: Any
) -> PackageSummary:
    """Emit the sample for `WORKERS` threads; its first kernel is shared and has 64 bytes of scratch a thread."""
    model = sample.program(name).with_io(io)
    first, second = sample.sources(name, scratch=64)
    part = first.definition.replace(f"void {first.symbol}(", f"static void {first.symbol}__part(")
    part = part.replace("restrict scratch)", "restrict scratch, int32_t begin, int32_t end)")
    part = part.replace("int i = 0; i < 32", "int32_t i = begin; i < end")
    prototype = first.prototype.replace("restrict scratch)", f"restrict scratch, struct {name}__pool *pool)")
    work = f"{first.symbol}__part_work"
    text = f"""{part}
struct {work} {{
    const float *a, *w;
    float *out;
    unsigned char *scratch;
}};

static void {first.symbol}__part_task(const void *work, int32_t begin, int32_t end, int32_t worker)
{{
    const struct {work} *const w = work;

    {first.symbol}__part(w->a, w->w, w->out, w->scratch + 64 * (size_t)worker, begin, end);
}}

{prototype}
{{
    const struct {work} work = {{a, w, out, scratch}};

    {name}__parallel_for(pool, {first.symbol}__part_task, &work, 32, 8);
}}
"""
    shared = replace(first, prototype=prototype, definition=text, scratch_bytes=64 * WORKERS, workers=WORKERS)
    layout = plan(model, {0: shared.scratch_bytes})
    compiled = sample.compiled(model, [shared, second], sample.provenance(), plan=layout)
    device = Device(target or sample.generic_x86(), WORKERS)
    return sample.write(compiled, sample.goldens(model), out, device=device, **options)
