"""Constant channels: a channel of integers that is one number for every input is not computed, and its readers add it.

Which channels these are is a proof by ranges (`edgetune.graph.channel_ranges`). Tensors that share an axis of channels,
through operators that compute each channel of its own, are a group: what makes it are convolutions, whose filters of
constant channels are left out, and what reads it are convolutions and matrix products. These add the number times its
weights to each sum, which is a part of their bias. Where a window reaches over the border, padding has to write the
same number. All other readers keep a group as it is. The sums are of integers, so the results are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Op
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.graph.channel_ranges import Ranges, channel_ranges
from edgetune.graph.dequantised import Known, known_parameters, known_value
from edgetune.graph.fixed_point_calls import fixed_point_call, fixed_point_of, with_scales
from edgetune.graph.layer_names import node_of
from edgetune.graph.rewrite import DefUse, attributes, constant_of, with_attributes

_MULTIPLE = 8
"""Bytes of the least vector register, whatever the board is: channels that fill the last one take no more time."""
_OF_EACH_CHANNEL = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "astype", "round", "sign"),
        *("nn.relu", "nn.max_pool2d", "reshape", "sum"),
    )
)
_CONVOLUTIONS = frozenset(f"relax.nn.conv{axes}d" for axes in (1, 2, 3))


@dataclass(frozen=True)
class ConstantChannels:
    """A layer without `left_out` of its `channels`, by the number of its node in the model, None where it has none."""

    node: int | None
    left_out: int
    channels: int


@dataclass
class _Group:
    """Tensors with one axis of channels: the convolutions that make it, and their readers, by variable."""

    channels: int
    makers: list[relax.Var] = field(default_factory=list)
    readers: list[relax.Var] = field(default_factory=list)
    blocked: bool = False
    kept: np.ndarray | None = None


def without_constant_channels(
    module: tvm.IRModule, known: Known = None, found: list[ConstantChannels] | None = None
) -> tvm.IRModule:
    """Leaves constant channels out of the products of int32 of `main`, and adds to `found` where.

    `known` are the parameters of `main` that are constants, by number.
    """
    values = known_parameters(module, known)
    chains = DefUse(module["main"])
    ranges = channel_ranges(module, chains, values)
    groups = _Groups(module, chains, values)
    chosen = [group for group in groups.all() if _choose(group, chains, ranges)]
    if not chosen:
        return module
    left_out = [
        ConstantChannels(node_of(maker), group.channels - len(group.kept), group.channels)
        for group in chosen
        for maker in group.makers
        if group.kept is not None
    ]
    if found is not None:
        found += left_out
    rewritten = _Without(module, chains, values, groups, ranges)
    function = rewritten.visit_expr(module["main"])
    updated = rewritten.builder_.get()
    updated["main"] = relax.analysis.remove_all_unused(function)
    return relax.transform.Normalize()(updated)


class _Groups:
    """The groups of a function, by variable; variables that share one are joined."""

    def __init__(self, module: tvm.IRModule, chains: DefUse, known: Mapping[relax.Var, np.ndarray]) -> None:
        self._module, self._chains, self._known = module, chains, known
        self._group: dict[relax.Var, _Group] = {}
        function = module["main"]
        self._bindings = [binding for block in function.body.blocks for binding in block.bindings]
        for parameter in function.params:
            self._begin(parameter, blocked=True)
        for binding in self._bindings:
            self._add(binding.var, binding.value)
        self._block([function.body.body])

    def all(self) -> list[_Group]:
        """Each group once, in the order of its first tensor."""
        found: list[_Group] = []
        for group in self._group.values():
            if all(group is not one for one in found):
                found.append(group)
        return found

    def of(self, value: relax.Expr) -> _Group | None:
        """The group of a variable; None of a constant, and of a tensor without channels."""
        return self._group.get(value) if isinstance(value, relax.Var) else None

    def _begin(self, variable: relax.Var, *, blocked: bool) -> _Group:
        of = variable.ty
        extents = [int(one) for one in of.shape] if isinstance(of, relax.TensorType) and of.shape is not None else []
        self._group[variable] = _Group(extents[-1] if extents else 0, blocked=blocked)
        return self._group[variable]

    def _block(self, values: Collection[relax.Expr]) -> None:
        for value in values:
            parts = value.fields if isinstance(value, relax.Tuple) else [value]
            for group in filter(None, map(self.of, parts)):
                group.blocked = True

    def _add(self, variable: relax.Var, value: relax.Expr) -> None:
        if isinstance(value, relax.Var) and value in self._group:
            self._group[variable] = self._group[value]
            return
        if not isinstance(value, relax.Call) or not isinstance(value.op, Op):
            self._block(_operands(value))
            self._begin(variable, blocked=True)
            return
        if known_value(variable, self._chains, self._known) is not None:
            return  # a constant has no channels that are left out
        name, data = value.op.name, value.args[0]
        if name in _CONVOLUTIONS | {"relax.matmul"} and self._is_product(value):
            own = name in _CONVOLUTIONS and int(value.attrs.groups) > 1
            if own and not _is_depthwise(value):
                self._block([data])
                self._begin(variable, blocked=True)
            elif own:
                self._join(variable, [data])
            else:
                self._read(variable, data)
                self._begin(variable, blocked=name == "relax.matmul").makers.append(variable)
            return
        scaling = fixed_point_of(value, self._module) if name == "relax.call_tir" else None
        if scaling is not None and scaling.of_channels(self._value) is not None:
            self._join(variable, [scaling.value])
        elif name in _OF_EACH_CHANNEL and _keeps_channels(value):
            self._join(variable, [one for one in value.args if self.of(one) is not None])
        else:
            self._block(value.args)
            self._begin(variable, blocked=True)

    def _is_product(self, call: relax.Call) -> bool:
        """Whether a call multiplies integers, the channels last, by constant weights."""
        weights = self._value(call.args[1])
        if weights is None or str(call.ty.dtype) != "int32":
            return False
        if call.op.name == "relax.matmul":
            return weights.ndim == _MATRIX and len(call.args[0].ty.shape) >= _MATRIX
        data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
        return data.endswith("C") and kernel.startswith("O") and kernel.endswith("I")

    def _value(self, expr: relax.Expr) -> np.ndarray | None:
        return known_value(expr, self._chains, self._known)

    def _read(self, reader: relax.Var, data: relax.Expr) -> None:
        group = self.of(data)
        if group is not None:
            group.readers.append(reader)

    def _join(self, variable: relax.Var, operands: Sequence[relax.Expr]) -> None:
        groups = [group for group in map(self.of, operands) if group is not None]
        extent = int(variable.ty.shape[-1]) if len(variable.ty.shape) else 0
        if not groups or any(group.channels != extent for group in groups):
            self._block(operands)
            self._begin(variable, blocked=True)
            return
        first = groups[0]
        for other in groups[1:]:
            if other is first:
                continue
            first.makers += other.makers
            first.readers += other.readers
            first.blocked |= other.blocked
            for key, group in self._group.items():
                if group is other:
                    self._group[key] = first
        self._group[variable] = first


_MATRIX = 2


def _operands(value: relax.Expr) -> list[relax.Expr]:
    """What an expression that is no call of an operator reads; of branches, every variable in them."""
    found: list[relax.Expr] = []
    relax.analysis.post_order_visit(value, lambda one: found.append(one) if isinstance(one, relax.Var) else None)
    return found


def _is_depthwise(call: relax.Call) -> bool:
    groups = int(call.attrs.groups)
    return groups == int(call.args[0].ty.shape[-1]) == int(call.ty.shape[-1]) and str(call.attrs.data_layout)[-1] == "C"


def _keeps_channels(call: relax.Call) -> bool:
    """Whether each channel of the result is made of the same one of all operands, or of a constant."""
    shape = [int(extent) for extent in call.ty.shape]
    if not shape:
        return False
    if call.op.name == "relax.sum":
        axes = attributes(call)["axis"]
        rank = len(call.args[0].ty.shape)
        return axes is not None and all(int(axis) % rank != rank - 1 for axis in axes)
    if call.op.name == "relax.reshape":
        given = [int(extent) for extent in call.args[0].ty.shape]
        return given[-1:] == shape[-1:]
    if call.op.name == "relax.nn.max_pool2d":
        return str(call.attrs.layout)[-1] == "C"
    extents = ([int(extent) for extent in one.ty.shape] for one in call.args)
    return all(not one or one[-1] in (1, shape[-1]) for one in extents)


def _choose(group: _Group, chains: DefUse, ranges: Mapping[relax.Var, Ranges]) -> bool:
    """Chooses the channels of a group that are kept; False where all are."""
    if group.blocked or not group.makers or not group.readers:
        return False
    constant_ones = np.ones(group.channels, bool)
    for reader in group.readers:
        call = chains.call(reader)
        found = None if call is None else ranges.get(call.args[0])
        if call is None or found is None:
            return False
        constant_ones &= found.is_constant
        if call.op.name in _CONVOLUTIONS and any(int(pad) for pad in call.attrs.padding):
            constant_ones &= found.low == 0
    needed = int(group.channels - constant_ones.sum())
    count = max(_MULTIPLE, -(-needed // _MULTIPLE) * _MULTIPLE)
    if count >= group.channels:
        return False
    order = np.argsort(constant_ones, kind="stable")
    group.kept = np.sort(order[:count])
    return True


@mutator
class _Without(PyExprMutator):
    """Makes the calls of `main` again, without the channels that groups leave out."""

    def __init__(
        self,
        module: tvm.IRModule,
        chains: DefUse,
        known: Mapping[relax.Var, np.ndarray],
        groups: _Groups,
        ranges: Mapping[relax.Var, Ranges],
    ) -> None:
        super().__init__(module)
        self.module, self.chains, self.known, self.groups, self.ranges = module, chains, known, groups, ranges

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        made = self._made(binding.var, binding.value)
        if made is None:
            super().visit_var_binding_(binding)
            return
        kind = relax.DataflowVar if isinstance(binding.var, relax.DataflowVar) else relax.Var
        value = self.builder_.normalize(made)
        variable = kind(str(binding.var), value.ty)
        self.builder_.emit_normalized(relax.VarBinding(variable, value))
        self.set_var_remap(binding.var, variable)

    def _made(self, variable: relax.Var, value: relax.Expr) -> relax.Expr | None:
        """The call with fewer channels; None where it has all of them."""
        group = self.groups.of(variable)
        kept = None if group is None else group.kept
        if not isinstance(value, relax.Call):
            return None
        name = value.op.name if isinstance(value.op, Op) else ""
        if name in _CONVOLUTIONS or name == "relax.matmul":
            return self._product(value, kept)
        if kept is None:
            return None
        scaling = fixed_point_of(value, self.module) if name == "relax.call_tir" else None
        if scaling is not None:
            numbers = scaling.of_channels(lambda one: known_value(one, self.chains, self.known))
            assert numbers is not None, "groups are made so"  # noqa: S101
            return fixed_point_call(
                self.builder_,
                with_scales(scaling, self.visit_expr(scaling.value), numbers[kept] if numbers.size > 1 else numbers),
            )
        if name == "relax.reshape":
            shape = [*[int(extent) for extent in value.ty.shape][:-1], len(kept)]
            return relax.op.reshape(self.visit_expr(value.args[0]), shape)
        operands = [self._operand(argument, kept) for argument in value.args]
        return relax.Call(value.op, operands, value.attrs)

    def _operand(self, argument: relax.Expr, kept: np.ndarray) -> relax.Expr:
        array = known_value(argument, self.chains, self.known)
        if array is None or not array.ndim or array.shape[-1] == 1:
            return self.visit_expr(argument)
        return constant_of(np.ascontiguousarray(array[..., kept]))

    def _product(self, call: relax.Call, made: np.ndarray | None) -> relax.Expr | None:
        """A product without the channels that are left out of what it reads, and of what it makes."""
        group = self.groups.of(call.args[0])
        read = None if group is None else group.kept
        if made is None and read is None:
            return None
        weights = known_value(call.args[1], self.chains, self.known)
        assert weights is not None, "groups are made so"  # noqa: S101
        convolves = call.op.name in _CONVOLUTIONS
        depthwise = convolves and int(call.attrs.groups) > 1
        of_result, of_data = (0, -1) if convolves else (-1, -2)  # axes of the weights
        offsets = None
        if group is not None and read is not None and not depthwise:
            left = np.setdiff1d(np.arange(group.channels), read)
            numbers = self.ranges[call.args[0]].low[left].astype("int64")
            products = np.moveaxis(weights.take(left, of_data), of_data, -1).astype("int64") @ numbers
            offsets = products.reshape(len(products), -1).sum(1)
            weights = weights.take(read, of_data)
        if made is not None:
            weights = weights.take(made, of_result)
            offsets = offsets[made] if offsets is not None else None
        changed = {"groups": len(made)} if depthwise and made is not None else {}
        operands = [self.visit_expr(call.args[0]), _narrow(weights)]
        whole = with_attributes(call, changed, operands) if changed else relax.Call(call.op, operands, call.attrs)
        if offsets is None or not offsets.any():
            return whole
        shape = [*[1] * (len(call.ty.shape) - 1), len(offsets)]
        return relax.op.add(self.builder_.emit(whole), constant_of(offsets.reshape(shape).astype("int32")))


def _narrow(weights: np.ndarray) -> relax.Expr:
    """Constant weights as integers of 8 or 16 bits, widened."""
    for dtype in ("int8", "int16"):
        if np.array_equal(weights.astype(dtype), weights):
            return relax.op.astype(constant_of(np.ascontiguousarray(weights.astype(dtype))), "int32")
    return constant_of(np.ascontiguousarray(weights.astype("int32")))
