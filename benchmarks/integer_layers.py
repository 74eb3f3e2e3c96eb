"""Measures convolutions of 8-bit integers by dot products beside the direct form, and the peak of the dot product.

python benchmarks/integer_layers.py [--layers NAME,...] [--rounds N]

Both forms of a layer have default schedules and sums of 32 bits as results, and run in turns in one process, on the
core that measures. The peak is the instruction of the dot product on registers alone, which runs after each layer; the
fastest call counts, of the layers as well where these are compared with it. Other figures are medians, with the first
and the last tenth. Results are compared with plain loops, element by element.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median, quantiles
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402  the path comes first
from tvm import te  # noqa: E402

from benchmarks.command import run_command  # noqa: E402
from benchmarks.kernel_call import KernelCall, aligned, built, loaded, seconds_of  # noqa: E402
from edgetune.boards.cores import CoreSplit, confined  # noqa: E402
from edgetune.codegen import render_preamble  # noqa: E402
from edgetune.codegen.vector_snippets import either, instructions  # noqa: E402
from edgetune.errors import SelfTestFailed, UsageError  # noqa: E402
from edgetune.graph.evaluate import evaluate  # noqa: E402
from edgetune.graph.integer_products import ZeroPoints, integer_convolution  # noqa: E402
from edgetune.graph.kernels import with_free_layouts  # noqa: E402
from edgetune.pipeline.boards import load_board  # noqa: E402
from edgetune.schedule.algorithms.catalogue import direct_algorithm  # noqa: E402
from edgetune.schedule.algorithms.schedule_text import FORMS, schedule_text  # noqa: E402
from edgetune.schedule.default_algorithms import dot_algorithms  # noqa: E402
from edgetune.schedule.default_schedule import default_guess  # noqa: E402
from edgetune.target.dot_product import DotProduct  # noqa: E402
from edgetune.target.target import Target, with_cpu  # noqa: E402
from edgetune.tvm_types import PrimFunc  # noqa: E402

_BORDER = 5
_SCRATCH = 1 << 22
_ALIGNMENT = 64
_ROUNDS_OF_PEAK = 1 << 16
_CALLS_OF_PEAK = 40
_SHORTS = {"int8": "i8", "uint8": "u8", "int16": "i16"}

_DATA, _WEIGHTS = 4, 2
"""Vectors of factors in registers: each pair of them is a step of its own."""
_REGISTERS = {"x86_64": "v", "aarch64": "w"}
"""The constraint letter of vector registers, by instruction set."""

_PEAK = """
static inline __attribute__((always_inline)) void step({vector} *sums, const {vector} *x, const {vector} *w)
{{
{step}}}

void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers)
{{
    {vector} *memory = buffers[0];
    {vector} {factors};
    {vector} {sums};
    for (long round = 0; round < {rounds}; round++) {{
        __asm__ volatile("" : {opaque});
        {steps}
    }}
    memory[0] = {total};
}}
"""


@dataclass(frozen=True)
class Layer:
    """A convolution, channels last: height and width, channels (in, out), and taps and stride of both axes."""

    extent: int
    channels: tuple[int, int]
    taps: int
    stride: int = 1

    @property
    def function(self) -> PrimFunc:
        """Its unscheduled kernel: data, weights (free to be packed), what is subtracted of each channel, and sums."""
        pads = [self.taps // 2] * 4
        attrs = SimpleNamespace(
            strides=[self.stride] * 2,
            padding=pads,
            dilation=[1, 1],
            groups=1,
            data_layout="NHWC",
            kernel_layout="OHWI",
        )
        deep, wide = self.channels
        x = te.placeholder((1, self.extent, self.extent, deep), "int8", "x")
        w = te.placeholder((wide, self.taps, self.taps, deep), "int8", "w")
        b = te.placeholder((wide,), "int32", "b")
        y = integer_convolution(x, w, zeros=ZeroPoints(0, 0, _BORDER), attrs=attrs)
        sums = te.compute(y.shape, lambda *i: y(*i) - b[i[-1]], "sums")
        return with_free_layouts(te.create_prim_func([x, w, b, sums]), [1])

    @property
    def products(self) -> int:
        """Products of a run, those with the border included."""
        across = (self.extent + self.stride - 1) // self.stride
        results = across**2 * self.channels[1]
        return results * self.channels[0] * self.taps**2


LAYERS = {
    "1x1 64 to 64, 56x56": Layer(56, (64, 64), 1),
    "3x3 64 to 64, 56x56": Layer(56, (64, 64), 3),
    "1x1 64 to 256, 56x56": Layer(56, (64, 256), 1),
    "1x1 256 to 64, 56x56": Layer(56, (256, 64), 1),
    "3x3 128 to 128, 28x28": Layer(28, (128, 128), 3),
    "1x1 512 to 128, 28x28": Layer(28, (512, 128), 1),
    "1x1 256 to 512, 56x56, stride 2": Layer(56, (256, 512), 1, 2),
    "3x3 256 to 256, 14x14": Layer(14, (256, 256), 3),
    "1x1 256 to 1024, 14x14": Layer(14, (256, 1024), 1),
    "3x3 512 to 512, 7x7": Layer(7, (512, 512), 3),
    "1x1 2048 to 512, 7x7": Layer(7, (2048, 512), 1),
}
"""Shapes of ResNet-50."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the layers and prints a table; the code of an error, such as wrong sums."""
    options = _parser().parse_args(arguments)
    return run_command("benchmark", partial(_run, options))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    target = with_cpu(load_board("host").target)
    best = next(iter(target.dot_products), None)
    if best is None:
        raise UsageError(f"the core of board '{target.name}' has no dot product")
    core = frozenset({max(split.measuring)})
    names = options.layers.split(";") if options.layers else list(LAYERS)
    with tempfile.TemporaryDirectory() as folder:
        peak = _peak(target, _fitting(target, names), Path(folder))
        found, least = [], inf
        for name in names:
            found.append(_measured(name, target, Path(folder), options.rounds, core))
            with confined(core):
                least = min(least, *(seconds_of(peak.call) for _ in range(_CALLS_OF_PEAK)))
    print(_table(found, peak.products / least))
    return 0


def _fitting(target: Target, names: Sequence[str]) -> DotProduct:
    """The dot product that the first layer uses."""
    used = [algorithm.name for algorithm in dot_algorithms(LAYERS[names[0]].function, FORMS, target)]
    return next(one for one in target.dot_products if f"dot_{one.data}_{one.elements}" == used[0])


@dataclass(frozen=True)
class Measured:
    """A layer: the name of its form, products in a second of each round, and the direct form's time over its own."""

    name: str
    form: str
    rates: list[float]
    ratios: list[float]


def _measured(name: str, target: Target, folder: Path, rounds: int, core: frozenset[int]) -> Measured:
    layer = LAYERS[name]
    function = layer.function
    forms = [dot_algorithms(function, FORMS, target)[0], direct_algorithm(function)]
    random = np.random.default_rng(1)
    shapes = [tuple(int(extent) for extent in param.shape) for param in function.params]
    arrays: list[np.ndarray] = [random.integers(-128, 128, shape, np.int8) for shape in shapes[:2]]
    arrays.append(random.integers(-9999, 9999, shapes[2], np.int32))
    (wanted,) = evaluate(function, arrays, [(shapes[3], "int32")])
    texts = [schedule_text(one.name, default_guess(one.function, target, _SCRATCH).trace) for one in forms]
    calls = [loaded(function, one, target, [*arrays, np.zeros(shapes[3], np.int32)], folder) for one in texts]
    with confined(core):
        for call, out in calls:
            call()
            if not np.array_equal(out, wanted):
                raise SelfTestFailed(f"layer {name} has wrong sums")
        times = [[seconds_of(call) for call, _ in calls] for _ in range(rounds)]
    rates = [layer.products / ours for ours, _ in times]
    return Measured(name, forms[0].name, rates, [direct / ours for ours, direct in times])


def _table(found: Sequence[Measured], peak: float) -> str:
    """One row per layer: the share of the peak is that of the fastest call."""
    rows = [
        f"The peak of the dot product is {peak * 1e-9:.1f} G products a second.",
        "",
        "| layer | form | G products a second | fastest | of the peak | direct / this |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        rates = _spread([rate * 1e-9 for rate in one.rates], 1)
        most = max(one.rates)
        share = f"{most * 1e-9:.1f} | {most / peak:.0%}"
        rows.append(f"| {one.name} | {one.form} | {rates} | {share} | {_spread(one.ratios, 2)} |")
    return "\n".join(rows)


def _spread(values: Sequence[float], digits: int) -> str:
    """Median, and first and last decile."""
    low, *_, high = quantiles(values, n=10)
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


@dataclass(frozen=True)
class _Peak:
    """A call that adds so many products as fast as the core can."""

    call: KernelCall
    products: int


def _peak(target: Target, dot: DotProduct, folder: Path) -> _Peak:
    """The steps of a dot product with all factors in registers."""
    letter = _REGISTERS.get(target.isa)
    if letter is None:
        raise UsageError(f"the registers of {target.isa} are not known: add the letter of GCC's constraint")
    lanes, data = target.vector_bits // 32, _SHORTS[dot.data]
    name, vector = f"dot_{data}_{'i16' if data == 'i16' else 'i8'}_{dot.elements}", f"i32x{lanes}"
    words = {"rest": vector, "wide": f"u32x{lanes}", "halves": f"i16x{2 * lanes}"}
    words |= {"some": "(*x)[0]", "all": "*x", "own": "*w"}
    rows = list(instructions(lambda isa: isa.dot.get(name, {}), lanes))
    factors = [*(f"x{n}" for n in range(_DATA)), *(f"w{n}" for n in range(_WEIGHTS))]
    pairs = [(f"x{n}", f"w{m}") for n in range(_DATA) for m in range(_WEIGHTS)]
    body = _PEAK.format(
        vector=vector,
        step=either([(row.condition(**words), row.code(**words)) for row in rows], "#error no dot product\n"),
        factors=", ".join(f"{one} = memory[{n}]" for n, one in enumerate(factors)),
        sums=", ".join(f"s{n} = {{0}}" for n in range(len(pairs))),
        rounds=_ROUNDS_OF_PEAK,
        opaque=", ".join(f'"+{letter}"({one})' for one in factors),
        steps="\n        ".join(f"step(&s{n}, &{x}, &{w});" for n, (x, w) in enumerate(pairs)),
        total=" ^ ".join(f"s{n}" for n in range(len(pairs))),
    )
    types = [f"type:{one}" for one in (vector, words["wide"], words["halves"])]
    unit = f"#include <stdint.h>\n{render_preamble(types, target, 'peak')}{body}"
    library = built(unit, "", target, folder)
    call = KernelCall(library, [aligned(np.ones(lanes * len(factors), np.int32))])
    return _Peak(call, len(pairs) * _ROUNDS_OF_PEAK * lanes * dot.elements)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/integer_layers.py")
    parser.add_argument("--layers", help=f"of {'; '.join(LAYERS)}, separated by semicolons (default: all)")
    parser.add_argument("--rounds", type=int, default=40)
    return parser


if __name__ == "__main__":
    sys.exit(main())
