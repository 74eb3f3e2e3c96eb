"""``edgetune run PACKAGE -i x=x.npy -o out.npz``: runs a package with arrays from files of NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.output import Output, output_options
from edgetune.events import Event

if TYPE_CHECKING:
    import numpy as np

    from edgetune.graph.program import TensorSpec


@click.command("run")
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="NAME=FILE.npy, or FILE.npz with arrays by name; may be repeated.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="File to write: .npz with outputs by name, or .npy where there is only one.",
)
@output_options
def command(output: Output, package: Path, inputs: tuple[str, ...], out: Path | None) -> None:
    """Run PACKAGE once with arrays from files, and show the range of each output.

    NAME is the name of an input, or its field in C; it may be left out where there is only one. Arrays have the shapes
    and types of the package's interface. The package is compiled with its own flags, and called in a process of its
    own, on the CPU of this machine.
    """
    from edgetune.cli.progress import show_progress
    from edgetune.opened_package import Package
    from edgetune.verify.array_files import check_place, read_inputs, write_outputs

    with Package.open(package) as opened:
        if out is not None:
            check_place(out, [tensor.name for tensor in opened.outputs])
        feed = read_inputs(inputs, opened.inputs, opened.fields)
        with show_progress(output, f"run {package}") as events:
            events(Event("phase", {"name": "compile and run"}))
            found = opened.run(**feed)
    if out is not None:
        write_outputs(out, found)
    rows = [_row(tensor, found[tensor.name]) for tensor in opened.outputs]
    if output.as_json:
        output.result({"package": package, "outputs": rows, "written": out})
        return
    output.result(_columns(rows), title=f"outputs of {package}")
    if out is not None:
        output.line(f"wrote {out}")


def _row(tensor: TensorSpec, array: np.ndarray) -> dict[str, object]:
    """The range of an output without what is not finite, and that of the real numbers that its integers stand for."""
    import numpy as np

    numbers = array.astype(np.uint8) if array.dtype == bool else array
    finite = numbers if numbers.dtype.kind in "iu" else numbers.astype(np.float64)[np.isfinite(numbers)]
    least, most = (finite.min().item(), finite.max().item()) if finite.size else (None, None)
    row: dict[str, object] = {
        "name": tensor.name,
        "shape": list(array.shape),
        "type": str(array.dtype),
        "min": least,
        "max": most,
        "mean": float(finite.mean(dtype=np.float64)) if finite.size else None,
        "not_finite": int(array.size - finite.size),
    }
    found = tensor.quantisation
    if found is not None and least is not None and most is not None:
        row["real_min"], row["real_max"] = (found.scale * (end - found.zero_point) for end in (least, most))
    return row


def _columns(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows for people: shapes and numbers as text, and without a column that holds zeros alone."""
    finite = not any(row["not_finite"] for row in rows)
    return [{key: _cell(value) for key, value in row.items() if not (finite and key == "not_finite")} for row in rows]


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " x ".join(map(str, value)) or "scalar"
    return f"{value:.6g}" if isinstance(value, float) else value
