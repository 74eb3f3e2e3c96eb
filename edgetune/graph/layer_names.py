"""Layer names: which nodes of the model each kernel call computes, so that engineers recognise their layers in reports.

Variables of the Relax module carry the number of their node in their name, through all passes up to fusion. Fusion
merges equal groups into one function and makes new variables. After it, calls are matched again by operator and
operands.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import tvm
from tvm import relax
from tvm.ir import GenericConst, GlobalVar
from tvm.relax.expr_functor import PyExprMutator, mutator

_SCALING = ("QuantizeLinear", "DequantizeLinear")
_MARK = re.compile(r"node(\d+)_")


@mutator
class _Rename(PyExprMutator):
    def __init__(self, module: tvm.IRModule, names: Mapping[relax.Var, str]) -> None:
        super().__init__(module)
        self.names = names

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self.names:
            value = self.builder_.normalize(self.visit_expr(binding.value))
            self.builder_.emit_normalized(relax.VarBinding(self._renamed(binding.var), value))
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: relax.MatchCast) -> None:
        if binding.var in self.names:
            value = self.builder_.normalize(self.visit_expr(binding.value))
            self.builder_.emit_normalized(relax.MatchCast(self._renamed(binding.var), value, binding.ty))
        else:
            super().visit_match_cast_(binding)

    def _renamed(self, variable: relax.Var) -> relax.Var:
        kind = relax.DataflowVar if isinstance(variable, relax.DataflowVar) else relax.Var
        renamed = kind(self.names[variable], variable.ty)
        self.set_var_remap(variable, renamed)
        return renamed


def mark_nodes(module: tvm.IRModule, results: Mapping[relax.Expr, int]) -> tvm.IRModule:
    """Name the variables of `main` after their nodes; `results` has the node number of each node's last expression.

    Every other expression belongs to the node whose result needs it.
    """
    nodes: dict[relax.Var, int] = {}
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    for binding in reversed(bindings):  # those that state a type have a node as well
        node = results.get(binding.value, results.get(binding.var, nodes.get(binding.var)))
        if node is None:
            continue
        nodes[binding.var] = node
        for operand in _operands(binding.value):
            nodes.setdefault(operand, node)
    return _renamed(module, {var: f"node{node}_" for var, node in nodes.items()})


def node_of(variable: relax.Var) -> int | None:
    """The number of the node that a variable is named after."""
    marked = _MARK.match(str(variable))
    return int(marked[1]) if marked else None


def place_of(variable: relax.Var, places: Sequence[str]) -> str:
    """Where the node of a variable is, from the places of all nodes; empty if that is not known."""
    node = node_of(variable)
    return places[node] if node is not None and node < len(places) else ""


def pass_marks_on(module: tvm.IRModule) -> tvm.IRModule:
    """Pass node names on to variables that a pass created: those that a marked variable equals or transposes."""
    names: dict[relax.Var, str] = {}
    for binding in reversed(_bindings(module["main"])):
        value, name = binding.value, names.get(binding.var, str(binding.var))
        if getattr(getattr(value, "op", None), "name", "") == "relax.permute_dims":
            value = value.args[0]
        if isinstance(value, relax.Var) and _MARK.match(name) and not _MARK.match(str(value)):
            names.setdefault(value, name)
    bound = {binding.var for binding in _bindings(module["main"])}
    names = {var: name for var, name in names.items() if var in bound}
    return _renamed(module, names) if names else module


def _renamed(module: tvm.IRModule, names: Mapping[relax.Var, str]) -> tvm.IRModule:
    renaming = _Rename(module, names)
    function = renaming.visit_expr(module["main"])
    renamed = renaming.builder_.get()
    renamed["main"] = function
    return renamed


def nodes_of_calls(before: tvm.IRModule, after: tvm.IRModule) -> list[list[int]]:
    """For each kernel call of `after`, in order, the nodes in it; `before` is the same module before fusion."""
    origin = _Origin(before)
    values: dict[object, object] = {}
    nodes: list[list[int]] = []
    for binding in _bindings(after["main"]):
        value = binding.value
        callee = after[value.op] if isinstance(value, relax.Call) and isinstance(value.op, GlobalVar) else None
        if isinstance(callee, relax.Function):
            inner = dict(zip(callee.params, (origin.key(a, values) for a in value.args), strict=True))
            found = [origin.claim(b.value, inner, b.var) for b in _bindings(callee)]
            values[binding.var] = inner.get(callee.body.body)
            nodes.append([node for node in found if node is not None])
        else:
            node = origin.claim(value, values, binding.var)
            if _is_call_tir(value):
                nodes.append([] if node is None else [node])
    return nodes


class _Origin:
    """The bindings before fusion, found by operator and operands; each is found once."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._waiting: defaultdict[object, list[relax.Var]] = defaultdict(list)
        self._digests: dict[object, str] = {}
        for binding in _bindings(module["main"]):
            self._waiting[self._structure(binding.value, {})].append(binding.var)

    def claim(self, value: relax.Expr, values: dict[object, object], var: relax.Var) -> int | None:
        """The node of the binding that `value` was before fusion; from now on `var` stands for its result."""
        if isinstance(value, relax.Var):
            values[var] = values.get(value, value)
            return None
        found = self._waiting.get(self._structure(value, values))
        if not found:
            return None
        origin = found.pop(0)
        values[var] = origin
        return node_of(origin)

    def key(self, expr: relax.Expr, values: Mapping[object, object]) -> object:
        """Return the key of `expr`: its variable before fusion, or the content hash of a constant."""
        if isinstance(expr, GenericConst):
            if expr not in self._digests:
                self._digests[expr] = hashlib.sha256(expr.value.numpy().tobytes()).hexdigest()
            return self._digests[expr]
        return values.get(expr, expr)

    def _structure(self, value: relax.Expr, values: Mapping[object, object]) -> object:
        """Operator and operands: equal before and after fusion."""
        if isinstance(value, relax.TupleGetItem):
            return ("item", value.index, self.key(value.tuple_value, values))
        if isinstance(value, relax.Tuple):
            return ("tuple", *(self.key(f, values) for f in value.fields))
        if not isinstance(value, relax.Call):
            return self.key(value, values)
        if not _is_call_tir(value):
            return (str(value.op), *(self.key(a, values) for a in value.args if isinstance(a, relax.Var)))
        operands = value.args[1].fields if isinstance(value.args[1], relax.Tuple) else [value.args[1]]
        return (value.args[0].name_hint, *(self.key(a, values) for a in operands))


def layer_label(named: Sequence[tuple[str, str]], nodes: Sequence[int], operators: str) -> str:
    """The name of the first node and the operators fused with it; only the operators if no node is known.

    `named` has (name, operator) of each node. Nodes that only quantise or dequantise give the name only if there is no
    other.
    """
    known = [named[node] for node in nodes if named[node][0]]
    computing = [name for name, operator in known if operator not in _SCALING]
    first = next(iter([*computing, *(name for name, _ in known)]), "")
    return f"{first} ({operators})" if first else operators


def joined_label(first: str, operators: str) -> str:
    """The label of a layer that goes on with other operators: the name of the first one, if it has one."""
    name, bracket, _ = first.partition(" (")
    return f"{name} ({operators})" if bracket else operators


def _operands(value: relax.Expr) -> list[relax.Var]:
    """The variables that an expression reads."""
    parts = value.args if isinstance(value, relax.Call) else value.fields if isinstance(value, relax.Tuple) else [value]
    if isinstance(value, relax.TupleGetItem):
        parts = [value.tuple_value]
    inner = [f for part in parts if isinstance(part, relax.Tuple) for f in part.fields]
    return [part for part in (*parts, *inner) if isinstance(part, relax.Var)]


def _is_call_tir(value: relax.Expr) -> bool:
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"


def _bindings(function: relax.Function) -> list[relax.VarBinding]:
    return [b for block in function.body.blocks for b in block.bindings if isinstance(b, relax.VarBinding)]
