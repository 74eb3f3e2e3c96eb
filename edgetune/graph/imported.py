"""The imported model, independent of its file format: a Relax module with static shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tvm

from edgetune.graph.program import TensorSpec


@dataclass(frozen=True)
class Imported:
    """A Relax module whose `main` takes the model's inputs in order, then one parameter for each of `weights`.

    `weights` are constants that must not be folded: the integers of a quantised model. Each kernel widens those that it
    reads, whatever operators move and widen them in the module. `nodes` has name and operator of
    each node of the model; variables of the module carry their node's number (`edgetune.graph.layer_names`). `places`
    says where each is, for messages: its operator and its name in the model. `channels_last` names inputs and outputs
    whose axis order differs from the model's. `images` names those of them whose axis 1 the model's operators treat as
    channels. `channels_known` names all inputs and outputs that are (N, C, spatial...) in the model, because its
    operators show it or its user says so. `selections` names outputs that have a row for each box that may be selected,
    and -1 in the rows behind those that are. `loops` are those that the module calls, by name.
    """

    name: str
    sha256: str
    module: tvm.IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    weights: dict[str, np.ndarray]
    nodes: tuple[tuple[str, str], ...] = ()
    places: tuple[str, ...] = ()
    channels_last: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    channels_known: frozenset[str] = frozenset()
    selections: frozenset[str] = frozenset()
    loops: Mapping[str, ImportedLoop] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedLoop:
    """A loop of `steps` iterations over `body`, as `Scan` of ONNX is one, called by its name (`call_dps_packed`).

    The call passes the first values of the states, the tensors that are scanned along their first axis, and what the
    body reads besides; `body` takes the states, one slice of each scanned tensor, and the rest. The call returns the
    last values of the states, and the tensors whose slices are emitted.

    `state_outputs` has, for each state, which output of the body is its next value. `scanned_backwards` says for each
    scanned tensor if the last slice comes first. `emitted` has for each tensor that is made of slices which output of
    the body they are, and if the last comes first; no output is emitted twice. `label` names the operator.
    """

    body: Imported
    steps: int
    state_outputs: tuple[int, ...]
    scanned_backwards: tuple[bool, ...]
    emitted: tuple[tuple[int, bool], ...]
    label: str
