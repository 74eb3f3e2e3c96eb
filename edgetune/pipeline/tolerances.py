"""Tolerances: how far each output of a package may be off, as the model itself says.

An output of quantisation may be off by a step, or by what evaluators of the model cannot settle. So may one that is
computed in float from quantised tensors, where a step is what one step of these makes of it. Any other output may be
off by four times what rounding each inner tensor once more does to it, and never by less than is usual for its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import Model, Rounding
from edgetune.package.golden import MOST_ALLOWED, Golden, OutputTolerance
from edgetune.package.reference_error import note

Events = Callable[[Event], None]


def tolerances_of(
    model: Model, cases: Sequence[Golden], events: Events, inner: Collection[str] = ()
) -> dict[str, OutputTolerance]:
    """The tolerance of each output of `cases`, in the layouts of `model`; events report those that are not usual.

    Nothing is reported of outputs that are `inner`, which a package does not have.
    """
    feeds, outputs = [case.inputs for case in cases], [case.outputs for case in cases]
    chosen: dict[str, OutputTolerance] = {}
    for name, one in model.quantised_outputs(feeds, outputs).items():
        chosen[name] = OutputTolerance.quantised(one.step, one.disagreement, one.disagreeing)
        if one.behind:
            dtype = str(outputs[0][name].dtype)
            chosen[name] = chosen[name].carried(dtype, one.behind, one.moving)
    for name, found in _rounding(model, feeds, outputs, events).items():
        if name not in chosen:
            chosen[name] = OutputTolerance.rounded(str(outputs[0][name].dtype), found.largest, found.share)
    limits = model.output_limits()
    for name, tolerance in chosen.items():
        dtype, smallest = str(outputs[0][name].dtype), _least_magnitude([case[name] for case in outputs])
        chosen[name] = tolerance.with_floor(dtype, limits.get(name, 0.0), smallest)
        if tolerance.behind and tolerance.relative and tolerance.absolute > MOST_ALLOWED * smallest > 0.0:
            chosen[name] = replace(tolerance, absolute=MOST_ALLOWED * smallest)
        if name not in inner and (said := note(name, chosen[name])):
            events(Event("warning", {"message": said}))
    return chosen


def wider(one: Mapping[str, OutputTolerance], other: Mapping[str, OutputTolerance]) -> dict[str, OutputTolerance]:
    """For each output of `one`: its tolerance, or that of `other` where that allows floats more by amplified rounding.

    Whatever else allows more on the very inputs that failed, such as ties and evaluators that differ, stays out.
    """
    found = {name: other.get(name, tolerance) for name, tolerance in one.items()}
    return {name: found[name] if _amplifies_more(found[name], one[name]) else one[name] for name in one}


def _amplifies_more(one: OutputTolerance, other: OutputTolerance) -> bool:
    """Whether `one` allows all that `other` does, and more, because the network amplifies rounding of floats."""
    return one.amplified and one.relative > other.relative and one.absolute >= other.absolute


def _rounding(
    model: Model, feeds: Sequence[Mapping[str, np.ndarray]], outputs: Sequence[Mapping[str, np.ndarray]], events: Events
) -> Mapping[str, Rounding]:
    try:
        return model.rounding(feeds, outputs)
    except ModelError as error:
        events(Event("warning", {"message": f"{error.message}: what rounding does to its outputs is unknown"}))
        return {}


def _least_magnitude(arrays: Sequence[np.ndarray]) -> float:
    """The largest finite magnitude of the array in which that is least; arrays of zeros do not count."""
    found = []
    for array in arrays:
        magnitudes = np.abs(array.astype(np.float64))
        found.append(float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes))))
    return min((one for one in found if one > 0.0), default=0.0)
