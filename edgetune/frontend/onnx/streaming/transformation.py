"""From a model of a window to a model of one step: goes through the nodes in order, and applies the rules.

Frames are counted from the first one since the reset. Where a result needs a window that begins between two frames of a
layer with a stride, they are counted from the first frame at which windows begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, inliner, numpy_helper, shape_inference

from edgetune.config.input_stream import InputStream
from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.model_format import ModelState
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.facts import interface_of
from edgetune.frontend.onnx.fixed_point import NAMES, is_fixed_point
from edgetune.frontend.onnx.function_bodies import with_defaults
from edgetune.frontend.onnx.inferred_types import UnfitInputsError, inferred_types
from edgetune.frontend.onnx.large_tensors import LARGE, stand_in, value_of
from edgetune.frontend.onnx.nested_graphs import reads, reads_from_outside
from edgetune.frontend.onnx.node_values import constant_value, real_inputs, static_shape
from edgetune.frontend.onnx.origins import described
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.refused_nodes import refused_where_unfit
from edgetune.frontend.onnx.streaming.frames import (
    Frames,
    MisalignedError,
    OutputFrames,
    StepModel,
    UnbandedError,
)
from edgetune.frontend.onnx.streaming.rules import RULES
from edgetune.frontend.onnx.streaming.rules.attention import banded
from edgetune.frontend.onnx.streaming.step_graph import StepGraph
from edgetune.frontend.streamed_inputs import checked_streams

_OLDEST = 13
"""The first opset whose axes are inputs, and whose Softmax is of one axis."""


def step_model(model: OnnxModel, streams: Mapping[str, InputStream]) -> StepModel:
    """The model of one step of `model`, which is one of a window of frames, for inputs that are `streams`.

    An input of shape [..., T, ...] has the shape [..., hop, ...]. Outputs with a time axis have the frames of a step;
    outputs without are those of the last window. After a step, each state's output is its next input.

    Raises ModelError where `streams` names what the model has not, or frames that it cannot count, and
    UnsupportedOperator, which names all nodes that have no step.
    """
    modern = _modern(model)
    streams = checked_streams(interface_of(modern)[0], streams, model.name)
    try:
        return _followed(modern, streams, anchored=False)
    except MisalignedError:
        pass
    try:
        return _followed(modern, streams, anchored=True)
    except MisalignedError:
        raise ModelError(
            f"the frames of the streams of {model.name} do not fit one another: choose a HOP by which strides divide"
        ) from None


def _followed(model: OnnxModel, streams: Mapping[str, InputStream], *, anchored: bool) -> StepModel:
    """The step model. Where attention cannot be followed to its end, it is begun again as a product of the window."""
    unbanded: dict[str, str] = {}
    while True:
        try:
            return _Transformation(model, streams, anchored=anchored, unbanded=unbanded).result()
        except UnbandedError as error:
            unbanded = {**unbanded, **error.reasons}


def _modern(model: OnnxModel) -> OnnxModel:
    """`model` without functions, and of an opset whose operators the rules know."""
    proto = model.proto
    if proto.functions:
        proto = inliner.inline_selected_functions(with_defaults(proto), list(NAMES), exclude=True)
    try:
        if model.opset < _OLDEST:
            proto = onnx.version_converter.convert_version(proto, _OLDEST)
        proto = shape_inference.infer_shapes(proto)
    except (onnx.version_converter.ConvertError, shape_inference.InferenceError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{model.name} is of opset {model.opset}, and cannot be converted to {_OLDEST} ({reason}); export it again"
        ) from None
    return replace(model, proto=proto, opset=max(model.opset, _OLDEST), read=None)


class _Transformation:
    """One pass over a model. `anchored` frames are counted from the first one at which windows begin.

    `unbanded` are products that are no scores of attention over the last frames, and why.
    """

    def __init__(
        self, model: OnnxModel, streams: Mapping[str, InputStream], *, anchored: bool, unbanded: Mapping[str, str]
    ) -> None:
        self.model, self.streams, self.anchored = model, streams, anchored
        graph = model.proto.graph
        constants = {tensor.name: value_of(tensor, model.weights) for tensor in graph.initializer}
        given = {value.name for value in real_inputs(graph)}
        constants = {name: value for name, value in constants.items() if name not in given}
        self.step = StepGraph(model.proto, constants, anchored=anchored, unbanded=unbanded.keys())
        self._unbanded, self._stopped = {**unbanded}, dict[str, str]()
        self._refused: list[str] = []
        self._unknown: set[str] = set()
        for name, stream in streams.items():
            extent = self.step.shape(name)[stream.axis]
            first = extent % stream.hop if anchored else 0
            steps = Fraction(extent - first, stream.hop)
            self.step.frames[name] = Frames(stream.axis, stream.hop, extent, -first, steps)

    def result(self) -> StepModel:
        """The step model."""
        nodes = self.model.proto.graph.node
        for node in nodes:  # a rule may ask what a value is that comes after its node, such as the mask of attention
            self._note_constants(node)
        for node in nodes:
            self._node(node)
        for output in self.model.proto.graph.output:
            self._stop([output.name], f"output {output.name!r} has scores of attention")
        if self._stopped:
            raise UnbandedError(self._stopped)
        if self._refused:
            raise UnsupportedOperator("; ".join(self._refused))
        self.step.finish()
        by_output = {output.name: self._output(output.name) for output in self.model.proto.graph.output}
        hop = next(iter(self.streams.values())).hop
        model = self._written()
        return StepModel(model, tuple(self.step.states), hop, by_output)

    def _note_constants(self, node: onnx.NodeProto) -> None:
        """Notes the results of a node that are the same in all runs."""
        step = self.step
        values = constant_value(node, step.constants, step.types, step.proto)
        if values is None and not all(static_shape(name, step.types) for name in node.output if name):
            step.types.update(self._inferred(node))
        for name, value in zip(node.output, values or (), strict=False):
            if name:
                step.constants[name] = value
                kind = helper.np_dtype_to_tensor_dtype(value.dtype)
                step.types[name] = helper.make_tensor_type_proto(kind, value.shape)

    def _node(self, node: onnx.NodeProto) -> None:
        step, outside = self.step, [*reads_from_outside(node)]
        values = [step.constants[name] for name in node.output if name] if self._is_constant(node) else None
        depends = any(name in step.frames or name in step.settled for name in outside)
        if values is not None:
            self._constant(node, values, depends=depends)
            return
        if self._unknown.intersection(outside):
            self._unknown.update(node.output)
            return
        if not depends:
            step.nodes.append(node)
            return
        step.origin = node
        try:
            with refused_where_unfit(node):
                self._streamed(node)
        except UnsupportedOperator as error:
            self._refuse(node, f"{described(node, self.model.name)} {error.message}")
            self._unknown.update(node.output)
        for reason in self._other(node)[:1]:
            self._unbanded.update(dict.fromkeys(node.output, reason))

    def _refuse(self, node: onnx.NodeProto, reason: str) -> None:
        if self._stop(reads_from_outside(node), reason):
            return
        self._refused.append("; nor is it attention over the last frames, because ".join([reason, *self._other(node)]))

    def _other(self, node: onnx.NodeProto) -> list[str]:
        """Why what a node is, or reads, is no attention over the last frames."""
        names = [*reads_from_outside(node), *node.output]
        return list(dict.fromkeys(self._unbanded[name] for name in names if name in self._unbanded))

    def _stop(self, names: Iterable[str], reason: str) -> bool:
        """Notes why scores of attention cannot be followed further; whether any of `names` has such."""
        bands = [self.step.bands[name] for name in names if name in self.step.bands]
        self._stopped.update({product: reason for band in bands for product in band.products})
        return bool(bands)

    def _inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types that depend on constants which the model computes."""
        proto = self.step.proto
        try:
            schema = onnx.defs.get_schema(node.op_type, self.model.opset, node.domain)
        except onnx.defs.SchemaError:
            return {}
        with contextlib.suppress(UnfitInputsError):
            opsets = list(proto.opset_import)
            return inferred_types(node, schema, self.step.types, self.step.constants, opsets, proto.ir_version)
        return {}

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        return bool(node.output) and all(name in self.step.constants for name in node.output if name)

    def _constant(self, node: onnx.NodeProto, values: Sequence[np.ndarray], *, depends: bool) -> None:
        """A value that is known: that of the window model, such as the shape of a value with a time axis."""
        if depends:
            self.step.written.update(zip(filter(None, node.output), values, strict=True))
        else:
            self.step.nodes.append(node)

    def _streamed(self, node: onnx.NodeProto) -> None:
        step = self.step
        names = step.timed(node)
        if any(name in step.settled for name in reads_from_outside(node)):
            if any(name in step.bands for name in names):
                raise UnsupportedOperator("joins scores of attention over the last frames with a result of the window")
            if names != [name for name in dict.fromkeys(reads_from_outside(node)) if name in step.frames]:
                raise UnsupportedOperator("has a nested graph that reads a stream; export the model without it")
            step.whole(node)
        elif not names or node.op_type not in RULES or not (is_onnx(node) or is_fixed_point(node)):
            raise UnsupportedOperator(
                "has no form that computes the frames of a step; leave it out, or put it after the last frame"
            )
        elif any(name in step.bands for name in names):
            banded(step, node)
        else:
            RULES[node.op_type](step, node)

    def _output(self, name: str) -> OutputFrames:
        frames = self.step.frames.get(name)
        if frames is None:
            return OutputFrames(None, 0, 0, self.step.settled.get(name, 0), endless=name in self.step.endless)
        if self.anchored:
            raise ModelError(
                f"output {name!r} of {self.model.name} has frames of each step, and another result needs a window that "
                "begins between two of them; choose a HOP that divides the window"
            )
        touched = frames.touched if frames.aligned else frames.extent
        return OutputFrames(frames.axis, frames.count, frames.latency, frames.settled(1), touched, frames.touched_after)

    def _written(self) -> OnnxModel:
        step, model = self.step, self.model
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        graph = proto.graph
        nodes, states = _needed(step, [output.name for output in graph.output])
        step.states = [state for state in step.states if state.name_in in states]
        inputs, outputs = _state_values(step.states)
        for value in (*graph.input, *graph.output):
            if value.name in step.frames:
                frames = step.frames[value.name]
                value.type.tensor_type.shape.dim[frames.axis].dim_value = frames.count
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        used = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
        kept = [tensor for tensor in graph.initializer if tensor.name in used]
        large = {tensor.name: model.weights[tensor.name] for tensor in kept if tensor.name in model.weights}
        for name, value in step.written.items():
            if name not in used:
                continue
            if value.nbytes >= LARGE:
                large[name] = value
                kept.append(stand_in(name, value))
            else:
                kept.append(numpy_helper.from_array(value, name))
        kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        return model_from_proto(proto, model.sha256, model.name, None, f"a step of {model.name}", large)


def _needed(step: StepGraph, outputs: Sequence[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that the outputs need, at once or by way of a state, and the inputs of the states that they need."""
    wanted, states = set(outputs), {state.name_in: state.name_out for state in step.states}
    while True:
        before = len(wanted)
        for node in reversed(step.nodes):
            if wanted.intersection(node.output):
                wanted.update(reads(node))
        wanted.update(after for now, after in states.items() if now in wanted)
        if len(wanted) == before:
            break
    return [node for node in step.nodes if wanted.intersection(node.output)], wanted & states.keys()


def _state_values(states: Iterable[ModelState]) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    """The inputs and outputs of states."""
    kinds = [(state, helper.np_dtype_to_tensor_dtype(state.first.dtype)) for state in states]
    return (
        [helper.make_tensor_value_info(state.name_in, kind, state.first.shape) for state, kind in kinds],
        [helper.make_tensor_value_info(state.name_out, kind, state.first.shape) for state, kind in kinds],
    )
