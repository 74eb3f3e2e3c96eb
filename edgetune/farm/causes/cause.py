"""The cause of a slower package: the factor that carries the change, by packages that run in the same turns.

From the accepted program to tonight's, one factor after the other is applied. All programs run in turns on the board,
so that what each factor carries is measured against its neighbour in the same minutes.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.errors import BoardUnavailable, DatabaseError, DiskFull, EdgetuneError
from edgetune.farm.archive import BUILT, PACKAGE
from edgetune.farm.causes.factors import FACTORS, Factor, SlowerPackage
from edgetune.farm.causes.kernels import diff, labels, shown
from edgetune.farm.gate import Comparison
from edgetune.package.manifest import sha256_file
from edgetune.verify.starts import Start

NOT_FOUND = "cause not found"
LEAST_SHARE = 0.15
"""A factor is named where it carries this share of all that became slower."""
LEAST_CHANGE = 0.0005
"""The smallest change that a factor carries: counts of equal code differ by less."""

InTurns = Callable[[Sequence[Path]], Sequence[Start]]
"""Starts the programs in these folders in turns, and returns the medians of each."""


@dataclass(frozen=True)
class Cause:
    """A sentence that begins with the factor, and the C of the layer that lost most as a diff ("" where equal).

    `factors` are those that it names, `shares` the changes that all factors carry, as ratios by name.
    """

    sentence: str
    diff: str
    factors: tuple[str, ...]
    shares: dict[str, float]


@dataclass(frozen=True)
class _Step:
    """A factor with the folders before and after it, and the starts of both programs."""

    factor: Factor
    before: Path
    after: Path
    starts: tuple[Start, Start]

    def change(self, layers: Sequence[int]) -> float:
        """What the factor carries, as a logarithm: of `layers`, or of the whole where there are none."""
        old, new = self.starts
        if layers and len(old.layers) == len(new.layers) > max(layers):
            costs = [sum(start.layers[i] for i in layers) for start in self.starts]
        else:
            costs = [old.cost, new.cost]
        return math.log(costs[1] / costs[0]) if min(costs) > 0 else 0.0

    def slower_layers(self) -> list[int]:
        """Indices of the layers that lost most time by it, the worst first."""
        old, new = (start.layers for start in self.starts)
        losses = [b - a for a, b in zip(old, new, strict=True)] if len(old) == len(new) else []
        worst = max(losses, default=0.0)
        chosen = [i for i, loss in enumerate(losses) if loss > 0 and loss >= worst / 2]
        return sorted(chosen, key=lambda i: -losses[i])


def cause_of(case: SlowerPackage, found: Comparison, build: Callable[[Path], None], in_turns: InTurns) -> Cause:
    """Return the cause of the change from the accepted package to tonight's.

    `build` builds the package of a folder by tonight's toolchain. Raises BoardUnavailable, DatabaseError, DiskFull;
    a factor that cannot be applied for another reason is named in the sentence, and its change counts to the next.
    """
    shutil.rmtree(case.folder, ignore_errors=True)
    folders, troubles = [case.old], []
    for factor in FACTORS:
        try:
            after = factor.applied(case, folders[-1])
            if not (after / BUILT).is_dir():
                build(after)
        except (BoardUnavailable, DatabaseError, DiskFull):
            raise
        except EdgetuneError as error:
            troubles.append(f"{factor.name} could not be told apart ({error.message})")
            after = folders[-1]
        folders.append(after)
    programs = {folder: sha256_file(folder / BUILT / "bench") for folder in folders}
    unique = {program: folder for folder, program in reversed(programs.items())}
    starts = dict(zip(unique, in_turns(list(unique.values())), strict=True))
    steps = [
        _Step(factor, before, after, (starts[programs[before]], starts[programs[after]]))
        for factor, before, after in zip(FACTORS, folders[:-1], folders[1:], strict=True)
    ]
    layers = [] if found.whole.word == "slower" else [i for i, one in found.layers.items() if one.word == "slower"]
    return _named(case, steps, layers, troubles)


def _named(case: SlowerPackage, steps: Sequence[_Step], layers: Sequence[int], troubles: Sequence[str]) -> Cause:
    changes = [step.change(layers) for step in steps]
    slower = sum(change for change in changes if change > 0)
    carrying = [
        (step, change)
        for step, change in zip(steps, changes, strict=True)
        if change > LEAST_CHANGE and change >= LEAST_SHARE * slower
    ]
    shares = {step.factor.name: math.exp(change) for step, change in zip(steps, changes, strict=True)}
    told = "".join(f"; {trouble}" for trouble in troubles)
    if not carrying:
        return Cause(NOT_FOUND + told, "", (), shares)
    words = [
        f"{step.factor.name}: {100 * math.expm1(change):+.1f} %, "
        + step.factor.said(case, step.before / PACKAGE, step.after / PACKAGE)
        for step, change in carrying
    ]
    heaviest = max(carrying, key=lambda item: item[1])[0]
    slow = heaviest.slower_layers()
    names = shown(labels(heaviest.after / PACKAGE, slow))
    where = f"; slower layers: {names}" if names else ""
    code = diff(heaviest.before / PACKAGE, heaviest.after / PACKAGE, slow[0]) if slow else ""
    several = "several: " if len(words) > 1 else ""
    named = tuple(step.factor.name for step, _ in carrying)
    return Cause(several + "; ".join(words) + where + told, code, named, shares)
