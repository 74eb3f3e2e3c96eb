"""Relax functions: rewriting by local rules, where a rule sees one call and what it reads, and what a binding holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst, Op
from tvm.ir.attrs import make_node
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.errors import UnsupportedOperator


class DefUse:
    """Def-use chains of the function before the rewrite: what computes each value, and what reads it.

    A variable that a rule bound to another one is that one.
    """

    def __init__(self, function: relax.Function) -> None:
        self._values = relax.analysis.get_var2val(function)
        self._uses: Counter[relax.Var] = Counter()
        self._readers: dict[relax.Var, list[relax.Var]] = {}

        def count(expr: relax.Expr, reader: relax.Var) -> None:
            operands = (
                expr.args if isinstance(expr, relax.Call) else expr.fields if isinstance(expr, relax.Tuple) else []
            )
            read = [self._named(o) for o in operands if isinstance(o, relax.Var)]
            self._uses.update(read)
            for operand in read:
                self._readers.setdefault(operand, []).append(reader)
            if isinstance(expr, relax.TupleGetItem) and isinstance(expr.tuple_value, relax.Var):
                self._uses[self._named(expr.tuple_value)] += 1

        for variable, value in self._values.items():
            count(value, variable)
            if isinstance(value, relax.Call):
                for argument in value.args:
                    if isinstance(argument, relax.Tuple):
                        count(argument, variable)
        body = function.body.body
        if isinstance(body, relax.Var):
            self._uses[self._named(body)] += 1

    def _named(self, expr: relax.Expr) -> relax.Expr:
        """The variable that another one stands for; the expression itself if it is none."""
        while isinstance(expr, relax.Var) and isinstance(self._values.get(expr), relax.Var):
            expr = self._values[expr]
        return expr

    def call(self, expr: relax.Expr, *names: str) -> relax.Call | None:
        """The call that computes `expr` when its operator is one of `names` (any call when none is given)."""
        named = self._named(expr)
        value = self._values.get(named) if isinstance(named, relax.Var) else named
        if isinstance(value, relax.Call) and isinstance(value.op, Op) and (not names or value.op.name in names):
            return value
        return None

    def computed(self, expr: relax.Expr) -> bool:
        """Whether the function computes `expr`, so that it is neither a parameter nor a constant."""
        return isinstance(expr, relax.Var) and expr in self._values

    def variable(self, call: relax.Call) -> relax.Var | None:
        """The variable of the function that holds the result of `call`; None if there is none."""
        return next((variable for variable, value in self._values.items() if value.same_as(call)), None)

    def readers(self, value: relax.Var) -> list[relax.Var]:
        """The variables that the function computes directly from `value`; a tuple inside a call does not count."""
        return self._readers.get(self._named(value), [])

    def read_only(self, value: relax.Var) -> bool:
        """Whether only its readers use `value`: the function does not return it directly."""
        return self._uses[self._named(value)] == len(self.readers(value))

    def used_once(self, expr: relax.Expr) -> bool:
        """Whether `expr` has no other reader."""
        return self.read_by(expr, 1)

    def read_by(self, expr: relax.Expr, readers: int) -> bool:
        """Whether `expr` has this many readers, or is no value of the function."""
        return not isinstance(expr, relax.Var) or self._uses[self._named(expr)] == readers


_MOST_ROUNDS = 200
Rule = Callable[[relax.Call, DefUse, relax.BlockBuilder], relax.Expr | None]


@mutator
class _ApplyRule(PyExprMutator):
    def __init__(self, module: tvm.IRModule, rule: Rule, chains: DefUse) -> None:
        super().__init__(module)
        self.rule, self.chains, self.changed = rule, chains, False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        # A call without a type is part of a replacement made in this round.
        if isinstance(call.op, Op) and isinstance(call.ty, relax.TensorType):
            replacement = self.rule(call, self.chains, self.builder_)
            if replacement is not None:
                self.changed = True
                return self.visit_expr_post_order(replacement)
        return super().visit_call_(call)


def rewrite(module: tvm.IRModule, rule: Rule) -> tvm.IRModule:
    """Applies `rule` to every operator call of `main` until nothing changes; dead code is removed between rounds."""
    for _ in range(_MOST_ROUNDS):
        pass_ = _ApplyRule(module, rule, DefUse(module["main"]))
        function = pass_.visit_expr(module["main"])
        if not pass_.changed:
            return module
        updated = pass_.builder_.get()
        updated["main"] = relax.analysis.remove_all_unused(function)
        module = relax.transform.Normalize()(updated)
    return module


def attributes(call: relax.Call) -> dict[str, Any]:
    """The attributes of a call by name."""
    return {field.name: getattr(call.attrs, field.name) for field in type(call.attrs).__tvm_ffi_type_info__.fields}


def with_attributes(
    call: relax.Call, changed: Mapping[str, object], args: Sequence[relax.Expr] | None = None
) -> relax.Call:
    """`call` with some attributes changed, and with other operands where `args` are given."""
    attrs = make_node(type(call.attrs).__tvm_ffi_type_info__.type_key, **attributes(call) | dict(changed))
    return relax.Call(call.op, call.args if args is None else list(args), attrs, call.ty_args, call.span)


def constant(expr: relax.Expr) -> np.ndarray | None:
    """The value of a constant expression, else None."""
    return expr.value.numpy() if isinstance(expr, GenericConst) and hasattr(expr.value, "numpy") else None


def constant_of(value: np.ndarray) -> relax.Expr:
    """A constant with exactly the type of `value`; without an explicit type TVM would reduce 64 bits to 32."""
    return relax.const(value, str(value.dtype))


def tensor_of(ty: relax.TensorType) -> tuple[tuple[int, ...], str]:
    """Shape and numpy dtype name of a tensor; raises UnsupportedOperator where the shape depends on data."""
    if ty.shape is None or any(not isinstance(e, tirx.IntImm) for e in ty.shape):
        raise UnsupportedOperator(
            "a tensor inside the model has a shape that depends on data; make it constant in the model"
        )
    return tuple(int(e) for e in ty.shape), str(ty.dtype)


def readers_of(main: relax.Function) -> dict[relax.Var, list[relax.Binding | None]]:
    """The bindings that read each variable; None stands for another variable, a tuple, or the end of the function."""
    found: dict[relax.Var, list[relax.Binding | None]] = {}

    def add(expr: relax.Expr, reader: relax.Binding | None) -> None:
        if isinstance(expr, relax.Var):
            found.setdefault(expr, []).append(reader)
        elif isinstance(expr, relax.Tuple):
            for one in expr.fields:
                add(one, reader)
        elif isinstance(expr, relax.TupleGetItem):
            add(expr.tuple_value, reader)

    for block in main.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call):
                for argument in binding.value.args:
                    add(argument, binding)
            else:
                add(binding.value, None)
    add(main.body.body, None)
    return found


def callee_of(value: relax.Expr) -> str:
    """The operator that an expression calls, "" where it calls none."""
    return str(getattr(value.op, "name", value.op)) if isinstance(value, relax.Call) else ""
