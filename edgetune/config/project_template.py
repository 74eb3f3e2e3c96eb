"""``edgetune init``: writes a commented ``edgetune.yaml`` for a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from edgetune.config.naming import MAX_PREFIX, package_name
from edgetune.config.project import PROJECT_FILE
from edgetune.errors import OutputRefused

Shape = tuple[int | str, ...]

_TEMPLATE = """\
# Settings of edgetune for this model. `edgetune tune --board NAME` in this folder uses them.
# Flags and EDGETUNE_* variables override this file; this file overrides ~/.config/edgetune/config.yaml and the board.

model: {model}
name: {name}            # prefix of every C symbol and file of the package

# Boards that this model is for (`edgetune boards list`). With a single one, --board may be left out.
boards: [host]

{shapes}
# How long to search: a time, or a number of trials over all kernels (recorded ones count).
budget:
  time: 30m
  # trials: 2000

objective: latency     # what to minimize

# Refuse a package that needs more than this.
# memory:
#   ram: 256KiB        # workspace: activations and scratch
#   flash: 1MiB        # code and weights

# accuracy:
#   winograd: f4       # Winograd for 3x3 convolutions: f4 (fewest products, most rounding error), f2 or off

# seed: 0              # the same seed explores in the same order
# layout: model        # order of axes of image inputs and outputs: as in the model, or channels_last (N, H, W, C)
# layouts:             # the same for single inputs and outputs, by name
#   {first}: channels_last
# io: caller           # where inputs and outputs lie: in memory of the caller, or in the arena, which takes less RAM
# state:               # inputs that the package keeps from run to run, with the outputs that they become
#   {first}: "hn"
# stream:              # inputs that come frame by frame: the package computes one step of the model
#   {first}: {{axis: 1, hop: 1}}
# threads: 1           # threads that the package may use on the board
# rpc: agent           # transport to the boards: agent, tvm for a farm with a TVM tracker, or an installed one
# min_trust: D         # refuse times with a trust grade below this one: A, B, C or D
# package_version: 1.0.0  # in the header and the pkg-config file of the package
# flavours: [cmake]    # build systems that the package gets files for, beside make
# db: .edgetune/records.db
"""


def init_project(model: Path, signature: Mapping[str, Shape], out: Path | None = None, name: str | None = None) -> Path:
    """Write a commented ``edgetune.yaml`` for ``model`` and return its path.

    ``signature`` has the shapes of its inputs by name; an open dimension is its symbol, or ``"?"``. ``out`` is the
    file to write, ``edgetune.yaml`` in the working folder by default. ``name`` is that of the package, as
    `checked_package_name` returns it; by default, it is made from the name of the model's file. Raises OutputRefused
    where the file is there already: nothing is overwritten.
    """
    target = (out or Path.cwd() / PROJECT_FILE).absolute()
    text = _TEMPLATE.format(
        model=_quoted(_relative(model, target.parent)),
        name=name or package_name(model.stem, MAX_PREFIX),
        shapes=_shapes(signature),
        first=_quoted(next(iter(signature), "image")),
    )
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputRefused(f"{target} exists already: edit it, or remove it first") from None
    except FileNotFoundError:
        raise OutputRefused(f"the folder {target.parent} does not exist: create it first") from None
    return target


def _shapes(signature: Mapping[str, Shape]) -> str:
    lines = ["# Inputs: " + _one_line("; ".join(f"{name} {_text(shape)}" for name, shape in signature.items()))]
    still_open = {name: shape for name, shape in signature.items() if any(isinstance(dim, str) for dim in shape)}
    if not still_open:
        lines.append("# shapes:              # only for inputs whose shape the model leaves open")
        lines += [f"#   {_quoted(name)}: {_text(shape)}" for name, shape in list(signature.items())[:1]]
        return "\n".join(lines) + "\n"
    lines.append('# The model leaves these shapes open: replace each "?" by the size it has on the board.')
    lines.append("shapes:")
    for name, shape in still_open.items():
        # A symbolic first dimension is the batch, and a board runs one input at a time.
        fixed = [1 if index == 0 and isinstance(dim, str) else dim for index, dim in enumerate(shape)]
        written = ", ".join(str(dim) if isinstance(dim, int) else '"?"' for dim in fixed)
        lines.append(f"  {_quoted(name)}: [{written}]")
    named = {dim: None for shape in still_open.values() for dim in shape[1:] if isinstance(dim, str) and dim != "?"}
    if named:
        lines.append('# dims:                # sizes by the names of axes, for inputs that are not under "shapes"')
        lines += [f"#   {_quoted(name)}: 128" for name in named]
    return "\n".join(lines) + "\n"


def _text(shape: Sequence[int | str]) -> str:
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def _quoted(name: str) -> str:
    """Return outside text in double quotes on one line, with special characters escaped."""
    return str(yaml.dump(name, default_style='"', width=float("inf"))).strip()


def _one_line(text: str) -> str:
    """Make names of the model safe in a comment."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= 100 else clean[:97] + "..."  # noqa: PLR2004 (fits on a line)


def _relative(model: Path, folder: Path) -> str:
    absolute = model.absolute()
    return os.path.relpath(absolute, folder) if absolute.is_relative_to(folder.parent) else str(absolute)
