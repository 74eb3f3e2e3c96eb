"""Multiply-adds of a frame in a step of ours, and in a pulse of tract's: `python -m benchmarks.pulse [NETWORK...]`.

tract (Sonos) makes of a network of a window one of a pulse of frames, as `--stream` makes one of a step. For each
network of `NETWORKS`, one line has the multiply-adds of a frame in both, and after how many frames results count. Those
of tract are what it states itself of the convolutions and matrix products in the graph that it runs; functions such as
tanh count in neither. The exit code is 1 where a step has more than `--most` times those of a pulse (1.05 unless said
otherwise). A network that tract refuses, or of which its pulses compute something else than the window, is named with
the reason. `pip install tract` installs it (no dependency
of edgetune, so best in an environment of its own); without, the exit code is 2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.streaming import InputStream, StepModel, step_model
from edgetune.graph.module_costs import costs_of
from tests.frontend.onnx.streamed import feeds_of, in_runtime, part, read
from tests.frontend.onnx.test_streaming import dilated, encoder, keyword
from tests.frontend.onnx.test_streaming_attention import conformer
from tests.frontend.onnx.test_streaming_layers import upsampled
from tests.frontend.onnx.test_streaming_recurrent import denoiser

PRODUCTS = frozenset({"Conv", "DepthWiseConv", "EinSum", "OptMatMul"})
"""tract's operators that are sums of products."""
_SYMBOL = "T"


@dataclass(frozen=True)
class Network:
    """A network of a window: `build` makes it of a number of frames, `axis` is the time axis of its input `x`."""

    build: Callable[[int], onnx.ModelProto]
    window: int
    axis: int = 2
    hop: int = 1


NETWORKS: Mapping[str, Network] = {
    "tcn": Network(partial(dilated, left=2, right=0), 128),
    "tcn_late": Network(partial(dilated, left=1, right=1), 64, hop=4),
    "gru": Network(partial(denoiser, pads=(2, 0), operator="GRU"), 16),
    "gru_late": Network(partial(denoiser, pads=(1, 1), operator="GRU"), 16),
    "lstm": Network(partial(denoiser, pads=(2, 0), operator="LSTM"), 16),
    "encoder": Network(encoder, 32, hop=4),
    "upsampled": Network(partial(upsampled, kernel=4, pads=(1, 1), inner=(1, 0)), 16, hop=2),
    "ds_cnn": Network(keyword, 49),
    "conformer": Network(partial(conformer, last=32), 64, axis=1),
}


@dataclass(frozen=True)
class Pulse:
    """What tract makes of a network: multiply-adds of a pulse, and after how many frames its results count."""

    products: int
    delay: int


@dataclass(frozen=True)
class Row:
    """Multiply-adds of `hop` frames, and latencies in frames; `refused` says why tract does not take the network."""

    network: str
    hop: int
    step: int
    latency: int
    pulse: Pulse | None
    refused: str = ""

    @property
    def ratio(self) -> float:
        """Ours as a multiple of tract's; 0 where tract has none."""
        return self.step / self.pulse.products if self.pulse else 0.0

    def __str__(self) -> str:
        ours = f"{self.network}: {self.step / self.hop:,.0f} multiply-adds of a frame, after {self.latency} frames"
        if self.pulse is None:
            return f"{ours}; tract does not stream it: {self.refused}"
        theirs = f"tract has {self.pulse.products / self.hop:,.0f}, after {self.pulse.delay}"
        return f"{ours}; {theirs}: {self.ratio:.3f} of it"


class RefusedError(Exception):
    """tract makes no pulse of a network, for the reason that is said."""


def pulsed(tract: Any, path: Path, network: Network) -> Pulse:
    """The network at `path`, whose time axis is called T, as tract pulses it; raises RefusedError."""
    try:
        model = tract.onnx().load(str(path)).into_model()
        model.transform(tract.Pulse(network.hop, symbol=_SYMBOL))
        delay, axis = (int(model.property(f"pulse.{one}").to_numpy()[0]) for one in ("delay", "output_axes"))
        runnable = model.into_runnable()
        nodes = json.loads(runnable.profile_json(None))["nodes"]
    except tract.TractError as error:
        raise RefusedError(_cause(str(error))) from error
    count = _frames_of_pulse(runnable.spawn_state(), network, delay, axis)
    found = [node for node in nodes if node["op_name"] in PRODUCTS]
    return Pulse(sum(_multiply_adds(node.get("cost", {})) for node in found), delay * network.hop // count)


def _frames_of_pulse(state: Any, network: Network, delay: int, axis: int) -> int:
    """How many frames the result of a pulse has.

    Raises RefusedError where pulses, one after the other, differ from the window of all their frames.
    """
    pulses, streams = 2 * network.window // network.hop, {"x": InputStream(network.axis, network.hop)}
    window = read(network.build(2 * network.window))
    frames = feeds_of(window, streams, pulses)
    (wanted,) = in_runtime(window)(frames).values()
    bounds = [(number * network.hop, (number + 1) * network.hop) for number in range(pulses)]
    outputs = [state.run([part(frames["x"], network.axis, *bound)])[0].to_numpy() for bound in bounds]
    found = np.concatenate(outputs, axis)
    found = part(found, axis, delay, found.shape[axis])
    if found.shape[axis] > wanted.shape[axis]:
        raise RefusedError(f"its pulses have {found.shape[axis]} frames, and the window {wanted.shape[axis]}")
    wanted = part(wanted, axis, 0, found.shape[axis])  # the others are still to come
    if not np.allclose(found, wanted, rtol=0, atol=1e-4 * float(np.abs(wanted).max())):
        raise RefusedError(f"its pulses differ from the window by up to {np.abs(found - wanted).max():.3g}")
    return int(outputs[0].shape[axis])


def _multiply_adds(cost: Mapping[str, str]) -> int:
    return sum(int(number) for kind, number in cost.items() if kind.startswith("FMA"))


def of_open_length(network: Network) -> onnx.ModelProto:
    """The network with a time axis of any length, as tract asks for."""
    proto = network.build(network.window)
    proto.graph.input[0].type.tensor_type.shape.dim[network.axis].dim_param = _SYMBOL
    shapes = {node.input[1] for node in proto.graph.node if node.op_type == "Reshape"}
    for tensor in proto.graph.initializer:
        if tensor.name in shapes:
            value = numpy_helper.to_array(tensor)
            if -1 not in value:
                tensor.CopyFrom(numpy_helper.from_array(np.where(value == network.window, -1, value), tensor.name))
    return proto


def compared(tract: Any, name: str, folder: Path) -> Row:
    """A network in both; `folder` gets its file."""
    network = NETWORKS[name]
    window = read(network.build(network.window))
    found = step_model(window, {"x": InputStream(network.axis, network.hop)})
    step = costs_of(import_onnx(found.model)).macs
    path = folder / f"{name}.onnx"
    onnx.save(of_open_length(network), path)
    try:
        pulse = pulsed(tract, path, network)
    except RefusedError as error:
        return Row(name, network.hop, step, _delay(found, network.hop), None, str(error))
    return Row(name, network.hop, step, _delay(found, network.hop), pulse)


def _cause(message: str) -> str:
    """The last of the causes that tract lists, which is the first in time."""
    before, _, _ = message.partition("Stack backtrace")
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    return lines[-1] if lines else "without a reason"


def _delay(found: StepModel, hop: int) -> int:
    """By how many frames of the input the results of a step are late."""
    (output,) = found.by_output.values()
    return max(0, output.latency) * hop // output.frames if output.axis is not None else output.settled * hop


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pulse", description=(__doc__ or "").split(":")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)} (default: all)")
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.networks if name not in NETWORKS]:
        parser.error(f"no network is called {unknown[0]}: choose from {', '.join(NETWORKS)}")
    try:
        tract = importlib.import_module("tract")
    except ModuleNotFoundError:
        print("benchmarks.pulse compares with tract, which is not installed: run `pip install tract`", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="edgetune-pulse-") as folder:
        rows = [compared(tract, name, Path(folder)) for name in asked.networks or NETWORKS]
    for row in rows:
        print(json.dumps({**vars(row), "pulse": row.pulse and vars(row.pulse)}) if asked.json else row)
    return int(any(row.ratio > asked.most for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
