"""StepGraph: writes the graph of one step node by node, and knows the frames of each value that it wrote.

A layer that looks along time keeps rows that it has seen: a state that stands before the new rows. Where the values are
integers that a DequantizeLinear widens, the state is of the integers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.model_format import ModelState
from edgetune.frontend.onnx.nested_graphs import reads, reads_from_outside, unused_prefix
from edgetune.frontend.onnx.node_values import static_shape
from edgetune.frontend.onnx.origins import keep_origin
from edgetune.frontend.onnx.streaming.frames import Band, Frames, KeptRows, combined, moved_forward, shared
from edgetune.frontend.onnx.streaming.node_results import results_of

PADDED = (
    "mixes all frames of its window, and a layer before it pads inside the window or keeps a state, so a step differs "
    "from the window; use layers without padding along time before it, or take the last frame instead"
)


class StepGraph:
    """The graph of a step as far as it is written.

    `origin` is the node of the window model that it is at. `constants` and `types` are those of that model.
    `frames` has the values with a time axis, `settled` those that depend on a stream without having one, and from
    which step on they count; those of `endless` depend on all frames since the reset, not on the last window alone.
    Where it is `anchored`, frames are counted from one before the reset, at which a window begins. Products of
    `unbanded` are not to be scores of attention over the last frames.
    """

    def __init__(
        self,
        proto: onnx.ModelProto,
        constants: dict[str, np.ndarray],
        *,
        anchored: bool,
        unbanded: Collection[str] = (),
    ) -> None:
        self.proto = proto
        self.unbanded = unbanded
        self.anchored = anchored
        self.constants = constants
        graph = proto.graph
        self.types = {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
        for tensor in graph.initializer:
            self.types.setdefault(tensor.name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
        self.frames: dict[str, Frames] = {}
        self.settled: dict[str, int] = {}
        self.endless: set[str] = set()
        self.bands: dict[str, Band] = {}
        self.origin = onnx.NodeProto()
        self.nodes: list[onnx.NodeProto] = []
        self.states: list[ModelState] = []
        self.written: dict[str, np.ndarray] = {}
        self._kept: list[KeptRows] = []
        self._widened: dict[str, onnx.NodeProto] = {}
        self._known: dict[tuple[object, ...], str] = {}
        self._start = unused_prefix(proto, "step_")
        self._names = {name for node in graph.node for name in (*node.input, *node.output)} | self.types.keys()
        self._read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
        self._counter: tuple[str, str] | None = None
        self._most = 0

    # What is known of values

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value in the window model; raises UnsupportedOperator where it is not known."""
        if name in self.constants:
            return self.constants[name].shape
        shape = static_shape(name, self.types)
        if shape is None:
            raise UnsupportedOperator(f"the shape of {name!r} is not known; export the model with fixed shapes")
        return shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a value."""
        found: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type)
        return found

    def timed(self, node: onnx.NodeProto) -> list[str]:
        """The inputs of a node that have a time axis."""
        return list(dict.fromkeys(name for name in node.input if name in self.frames))

    def is_read(self, name: str) -> bool:
        """Whether a node reads a value, or it is an output."""
        return name in self._read

    # Writing

    def name(self, stem: str) -> str:
        """A name that nothing has."""
        found, number = stem, 1
        while found in self._names:
            number += 1
            found = f"{stem}_{number}"
        self._names.add(found)
        return found

    def constant(self, value: np.ndarray) -> str:
        """The name of an initializer."""
        key = ("constant", value.dtype.str, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = self.name(f"{self._start}constant")
            self.written[self._known[key]] = value
        return self._known[key]

    def emit(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Writes a node with one output, and returns its name."""
        output = output or self.name(f"{self._start}{operator.lower()}")
        node = helper.make_node(operator, inputs, [output], name=output, **attributes)
        if self.origin.op_type:
            keep_origin(node, self.origin)
        self.nodes.append(node)
        return output

    def copy(
        self, node: onnx.NodeProto, inputs: Mapping[str, str] | None = None, outputs: Sequence[str] = (), **changed: Any
    ) -> onnx.NodeProto:
        """Writes a copy of a node: with other inputs (by name), outputs and attributes; None removes an attribute."""
        result = onnx.NodeProto()
        result.CopyFrom(node)
        result.input[:] = [(inputs or {}).get(name, name) for name in node.input]
        if outputs:
            result.output[:] = list(outputs)
        kept = [attribute for attribute in node.attribute if attribute.name not in changed]
        del result.attribute[:]
        result.attribute.extend(kept)
        result.attribute.extend(helper.make_attribute(k, v) for k, v in changed.items() if v is not None)
        self.nodes.append(result)
        return result

    def cut(self, name: str, axis: int, start: int, end: int, output: str = "") -> str:
        """Writes a Slice of rows along one axis."""
        bounds = [self.constant(np.array([bound], np.int64)) for bound in (start, end, axis)]
        return self.emit("Slice", [name, *bounds], output)

    # Values of several steps

    def kept(self, name: str, rows: int, fill: float | None = None) -> str:
        """The last `rows` rows before a step, which are a state, followed by the rows of the step.

        Rows with an index below 0 are `fill`, and whatever where that is None.
        """
        source, wide = self._storage(name, fill)
        return self._wide(wide, self._joined(source, rows, fill if wide is None else self._narrow(wide, fill)))

    def delayed(self, name: str, rows: int) -> str:
        """The value of a step, so many rows later; its frames are known by the name that is returned."""
        if not rows:
            return name
        source, wide = self._storage(name, None)
        frames = self.frames[name]
        late = self.cut(self._joined(source, rows, None), frames.axis, 0, frames.count)
        self._like(late, source, rows)
        result = self._wide(wide, late)
        if wide is not None:
            self._like(result, name, rows)
            self.widens(self.nodes[-1])
        return result

    def window(self, name: str, last: int = 0) -> tuple[str, int]:
        """The frames of the window that ends with the step, and the step from which on these are all there.

        These are what the window alone makes of its frames. The `last` so many are what all frames since the reset
        make of them. Raises UnsupportedOperator where the former has touched frames, or where frames come after the
        step, and MisalignedError.
        """
        frames = self.frames[name]
        if frames.touched and not last:
            raise UnsupportedOperator(PADDED)
        if frames.touched and self.anchored:
            raise UnsupportedOperator(
                "reads a window that begins between two frames of a step; choose a HOP that divides the window"
            )
        lag, extent = frames.lag, last or frames.extent
        key = ("window", name, extent, frames.latency)
        if key not in self._known:
            source, wide = self._storage(name, None)
            rows = extent + lag
            first = max(0, frames.count - rows)
            if rows > frames.count:
                source = self._joined(source, rows - frames.count, None)
            if first or lag:
                source = self.cut(source, frames.axis, first, first + extent)
            self._known[key] = self._wide(wide, source)
        return self._known[key], frames.settled(extent + lag) + self.anchored

    def last_frame(self, frames: Frames) -> int:
        """The step from which on the last frame of a step, which has to be that of the window, counts."""
        if frames.lag:
            raise UnsupportedOperator(
                "returns its last state, and a step has frames after the window; read the last frame of its first "
                "output instead"
            )
        return frames.settled(1) + self.anchored

    def masked(self, name: str, fill: np.ndarray) -> str:
        """A value whose rows with an index below 0 are `fill`."""
        frames = self.frames[name]
        if frames.latency <= 0:
            return name
        # Row r of step k has the index k * count - latency + r.
        first = -(-(frames.latency - np.arange(frames.count)) // frames.count)
        first = np.unique(first) if len(set(first)) == 1 else first
        shape = [1] * len(self.shape(name))
        shape[frames.axis] = len(first)
        key = ("masked", name, fill.tobytes())
        if key not in self._known:
            self._known[key] = self.emit("Where", [self.is_before(first.reshape(shape)), self.constant(fill), name])
        return self._known[key]

    def is_before(self, steps: np.ndarray) -> str:
        """Whether the number of steps since the reset is less than `steps`."""
        if self._counter is None:
            self._counter = self._state("steps", np.zeros((), np.int32))
        self._most = max(self._most, int(steps.max()))
        return self.emit("Less", [self._counter[0], self.constant(steps.astype(np.int32))])

    def finish(self) -> None:
        """Writes what counts the steps, up to the last one that matters, and leaves out states that others hold."""
        self.origin = onnx.NodeProto()
        for kept, holder in shared(self._kept):
            gone = {kept.joined, kept.state.name_out}
            self.nodes = [node for node in self.nodes if not gone.intersection(node.output)]
            self.states = [state for state in self.states if state is not kept.state]
            self.nodes = moved_forward(self.nodes, holder.joined)
            start = holder.rows - kept.rows
            self.cut(holder.joined, kept.axis, start, start + kept.rows + kept.count, kept.joined)
            self.nodes = moved_forward(self.nodes, kept.joined)
        if self._counter is not None:
            now, after = self._counter
            more = self.emit("Add", [now, self.constant(np.array(1, np.int32))])
            least = self.constant(np.array(self._most, np.int32))
            self.emit("Where", [self.emit("Less", [now, least]), more, now], after)

    def state(self, name: str, first: np.ndarray) -> tuple[str, str]:
        """Names of the input and output of a new state, which belongs to the value `name`."""
        return self._state(name, first)

    # Nodes

    def through(
        self,
        node: onnx.NodeProto,
        axes: int | Sequence[int],
        inputs: Mapping[str, str] | None = None,
        **changed: Any,
    ) -> onnx.NodeProto:
        """Writes a node that computes each frame of that frame alone; `axes` are the time axes of its outputs.

        Operands of unequal latency are aligned. `inputs` and `changed` are as in `copy`.
        """
        names = self.timed(node)
        others = [name for name in node.input if name and name not in names]
        aligned = self._aligned(names, all(name in self.constants or name in self.written for name in others))
        written = self.copy(node, {**aligned, **(inputs or {})}, **changed)
        of = [self.frames[name] for name in aligned.values()]
        common = combined(of)
        is_early = all(frames.is_early for frames in of)
        before = self._before(written) if is_early else [None] * len(node.output)
        axes = [axes] * len(node.output) if isinstance(axes, int) else axes[: len(node.output)]
        for output, axis, frame in zip(node.output, axes, before, strict=True):
            if output:
                row = None if frame is None else frame.take([0], axis)
                self.frames[output] = replace(common, axis=axis, before=row)
                self.shape(output)
        return written

    def attends(self, name: str, sources: Sequence[str], reach: int = 1, band: Band | None = None) -> None:
        """Notes rows that are the frames of `sources`, as `combined` has them; with a `band` they are scores."""
        found = combined([self.frames[source] for source in sources], reach)
        self.frames[name] = replace(found, axis=len(self.shape(name)) - 2)
        if band is not None:
            self.bands[name] = band

    def whole(self, node: onnx.NodeProto) -> None:
        """Writes a node that reads the frames of its window together: as it is in the window model."""
        windows = {name: self.window(name) for name in self.timed(node)}
        self.copy(node, {name: window for name, (window, _) in windows.items()})
        settled = [settled for _, settled in windows.values()]
        settled += [self.settled[name] for name in reads_from_outside(node) if name in self.settled]
        endless = not self.endless.isdisjoint(reads_from_outside(node))
        self.settle(node.output, max(settled), endless=endless)

    def settle(self, names: Iterable[str], step: int, *, endless: bool) -> None:
        """Notes values without a time axis, from which step on they count, and whether they are of all frames."""
        known = [name for name in names if name]
        self.settled.update(dict.fromkeys(known, step))
        if endless:
            self.endless.update(known)

    def widens(self, node: onnx.NodeProto) -> None:
        """Notes that a node, which is written, makes wide numbers of integers: states are kept of what it reads."""
        self._widened[node.output[0]] = node

    def _aligned(self, names: Sequence[str], evaluable: bool) -> dict[str, str]:
        found = {name: self.frames[name] for name in names}
        shared = {(frames.count, frames.extent, frames.steps) for frames in found.values()}
        if len(shared) > 1:
            raise UnsupportedOperator(
                "reads streams of unequal frames a step; choose the hops of the inputs so that they advance alike"
            )
        latest = max(frames.latency for frames in found.values())
        if latest < 0 and not evaluable and any(frames.is_early for frames in found.values()):
            latest = 0
        return {name: self.delayed(name, latest - frames.latency) for name, frames in found.items()}

    def _before(self, node: onnx.NodeProto) -> list[np.ndarray | None]:
        """What a node makes of the frames before the first step."""
        feeds: dict[str, np.ndarray] = {}
        for name in filter(None, node.input):
            frames = self.frames.get(name)
            if frames is None:
                feeds[name] = self.constants[name] if name in self.constants else self.written[name]
            elif frames.before is not None:
                feeds[name] = np.repeat(frames.before, frames.count, frames.axis)
        return results_of(node, feeds, self.proto)

    # States

    def _storage(self, name: str, fill: float | None) -> tuple[str, onnx.NodeProto | None]:
        """What a state of `name` is kept of, and the node that makes `name` of that."""
        wide = self._widened.get(name)
        if wide is None or (fill is not None and self._narrow(wide, fill) is None):
            return name, None
        return wide.input[0], wide

    def _narrow(self, wide: onnx.NodeProto, fill: float | None) -> float | None:
        """The integer that stands for `fill`; None where there is none."""
        if fill is None:
            return None
        if fill == 0:
            zero = self.constants.get(wide.input[2]) if len(wide.input) > 2 and wide.input[2] else np.zeros((), np.int8)
            return float(zero.ravel()[0]) if zero is not None and np.unique(zero).size == 1 else None
        return float(np.iinfo(self.dtype(wide.input[0])).min) if np.isneginf(fill) else None

    def _wide(self, wide: onnx.NodeProto | None, source: str) -> str:
        if wide is None:
            return source
        output = self.name(f"{self._start}wide")
        result = self.copy(wide, {wide.input[0]: source}, [output])
        result.name = output
        keep_origin(result, wide)
        return output

    def _joined(self, name: str, rows: int, fill: float | None) -> str:
        key = ("joined", name, rows, fill)
        if key in self._known:
            return self._known[key]
        frames, dtype = self.frames[name], self.dtype(name)
        value = np.array(fill or 0).astype(dtype)
        source = self.masked(name, value) if fill is not None else name
        if rows:
            shape = list(self.shape(name))
            shape[frames.axis] = rows
            first = np.full(shape, value, dtype)
            early = min(rows, -frames.latency) if frames.is_early else 0
            if early > 0 and frames.before is not None:
                place = tuple(
                    slice(rows - early, None) if axis == frames.axis else slice(None) for axis in range(len(shape))
                )
                first[place] = frames.before
            before, after = self._state(name, first)
            joined = self.emit("Concat", [before, source], axis=frames.axis)
            self.cut(joined, frames.axis, frames.count, frames.count + rows, after)
            self._kept.append(KeptRows(self.states[-1], source, joined, frames.axis, frames.count))
            source = joined
        self._known[key] = source
        return source

    def _state(self, name: str, first: np.ndarray) -> tuple[str, str]:
        stem = self.name(f"{name}_state")
        state = ModelState(stem, self.name(f"{stem}_next"), first)
        self.states.append(state)
        return state.name_in, state.name_out

    def _like(self, name: str, model: str, rows: int) -> None:
        self.types[name] = self.types[model]
        self.frames[name] = replace(self.frames[model], latency=self.frames[model].latency + rows)
