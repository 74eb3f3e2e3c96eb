"""How near is each layer of a package to what this core can do? A table and a picture (SVG) per package.

python benchmarks/roofline.py PACKAGE ... [--core N] [-o DIR]

The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009): a layer does at most min(peak, intensity x
bandwidth) operations per second. Intensity is operations per byte of all tensors that it touches; bandwidth is that of
the level of memory that holds these. Both limits are measured in the same run. Layers without multiply-adds are in the
table alone. Times of layers are medians of samples during which nobody else was on the core, set against what the core
could do right before and behind them (`layer_times.py`). They include reading the clock, so layers of a few
microseconds look slower than they are. Multiply-adds are those of the model: algorithms that save some may pass 100 %,
and so may windows that leave the picture, where nothing is multiplied.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.layer_times import LayerTime, layer_times  # noqa: E402  the path comes first
from benchmarks.peaks import Peaks, measure_peaks  # noqa: E402
from benchmarks.roofline_picture import picture  # noqa: E402
from edgetune.boards.cores import confined, split_cores  # noqa: E402
from edgetune.boards.lock import TimingLock  # noqa: E402
from edgetune.errors import EdgetuneError, PackageInvalid  # noqa: E402
from edgetune.package.manifest import read_manifest  # noqa: E402
from edgetune.schedule.algorithms.schedule_text import DIRECT, WINOGRAD  # noqa: E402
from edgetune.target.target import Target, load_target  # noqa: E402


@dataclass(frozen=True)
class Layer:
    """One layer: `us` median microseconds, `bytes` of all its tensors, `level` of memory that holds them.

    `flops` and `limit` are operations per second, reached and possible; `bound` says what limits it. A layer that is
    not `direct` does fewer multiply-adds than the `macs` of the direct sum (Winograd).
    """

    index: int
    name: str
    kernel: str
    macs: int
    bytes: int
    us: float
    level: str
    limit: float
    bound: str
    direct: bool = True

    @property
    def flops(self) -> float:
        """Operations per second; 0 for a layer that only moves data."""
        return 2e6 * self.macs / self.us

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return 2 * self.macs / self.bytes


def layers_of(
    package: Path, target: Target, peaks: Peaks, core: int, seconds: float
) -> tuple[list[Layer], Peaks, list[LayerTime]]:
    """Measure the layers of `package` here, and the peak of `peaks` beside them; the samples of each layer come last.

    Raises what `layer_times` raises, and PackageInvalid.
    """
    manifest = read_manifest(package)
    if not all("bytes" in layer for layer in manifest["layers"]):
        raise PackageInvalid(f"{package} tells no bytes of its layers: write it again with `edgetune build`")
    times, flops = layer_times(package, target, core, seconds)
    peaks = replace(peaks, flops=flops)
    forms = {kernel["name"]: kernel["provenance"].get("form", DIRECT) for kernel in manifest["kernels"]}
    found = []
    for index, (time, facts) in enumerate(zip(times, manifest["layers"], strict=True)):
        size, macs, kernel = max(1, int(facts["bytes"])), int(facts["macs"]), str(facts["kernel"])
        level = peaks.level(size, target)
        by_memory = 2 * macs / size * peaks.bandwidth[level]
        bound = "compute" if by_memory >= peaks.flops and macs else level
        limit = min(peaks.flops, by_memory)
        direct = forms[kernel] not in WINOGRAD
        found.append(Layer(index, str(facts["label"]), kernel, macs, size, time.us, level, limit, bound, direct))
    return found, peaks, times


def calm(times: Sequence[LayerTime]) -> str:
    """A sentence on how many samples stand behind the times of layers."""
    fewest, most = min(t.undisturbed for t in times), max(t.undisturbed for t in times)
    none = sum(not t.undisturbed for t in times)
    lacking = f"; {none} layers had none, their times are medians of all" if none else ""
    return f"Undisturbed samples of a layer: {fewest} to {most} of {times[0].samples}{lacking}."


def table(name: str, layers: Sequence[Layer], peaks: Peaks) -> str:
    """Markdown: a row per layer, and the share of peak of all layers together, weighted by time."""
    total = sum(layer.us for layer in layers)
    rows = [
        f"# {name}",
        "",
        f"Peak of the core: {peaks.flops / 1e9:.1f} GFLOP/s; reading "
        + ", ".join(f"{level} {rate / 1e9:.1f} GB/s" for level, rate in peaks.bandwidth.items())
        + ". Limit: the smaller of peak and intensity x bandwidth.",
        "",
        "| layer | kernel | us | of all | GFLOP/s | of peak | FLOP/byte | bound | of its limit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for layer in layers:
        work = ["-"] * 5
        if layer.macs:
            work = [
                f"{layer.flops / 1e9:.1f}",
                f"{layer.flops / peaks.flops:.0%}",
                f"{layer.intensity:.1f}",
                layer.bound,
                f"{layer.flops / layer.limit:.0%}",
            ]
        else:
            work[3] = layer.bound
            work[4] = f"{layer.bytes / (layer.us * 1e-6) / peaks.bandwidth[layer.level]:.0%}"
        cells = [f"{layer.index} {layer.name}", layer.kernel, f"{layer.us:.2f}", f"{layer.us / total:.1%}", *work]
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    products = [layer for layer in layers if layer.macs]
    direct = [layer for layer in products if layer.direct]
    told = [("Layers with multiply-adds", products)] if products else []
    if direct and len(direct) < len(products):
        told.append(("Those that are computed directly", direct))
    for what, chosen in told:
        busy = sum(layer.us for layer in chosen)
        share = sum(2e6 * layer.macs for layer in chosen) / busy / peaks.flops
        rows += ["", f"{what}, weighted by time: {share:.1%} of peak in {busy / total:.1%} of the time."]
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write DIR/NAME.md and DIR/NAME.svg for each package, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", type=Path, nargs="+", metavar="PACKAGE")
    parser.add_argument(
        "--core", type=int, default=max(split_cores().measuring), help="core to measure on (default: the last one)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of measuring per package")
    parser.add_argument(
        "-o", "--out", type=Path, default=ROOT / "build" / "roofline", help="folder of tables and pictures"
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    target = load_target("host")
    lock = TimingLock()
    try:
        lock.acquire()
        with confined(frozenset({options.core})):
            peaks = measure_peaks(target, options.core)
            for package in options.packages:
                layers, beside, times = layers_of(package, target, peaks, options.core, options.seconds)
                name = package.resolve().name
                text = f"{table(name, layers, beside)}\n{calm(times)}\n"
                (options.out / f"{name}.md").write_text(text, encoding="utf-8")
                (options.out / f"{name}.svg").write_text(picture(name, layers, beside), encoding="utf-8")
                print(text)
    except EdgetuneError as error:
        print(f"roofline: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        lock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
