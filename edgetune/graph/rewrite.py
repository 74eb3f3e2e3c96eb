"""Local rewriting of a Relax main function: rules look at one call and its producers, and answer with a replacement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst, Op
from tvm.relax.expr_functor import PyExprMutator, mutator


class View:
    """What a rule may ask about the function before the rewrite: producers, and how often a value is used."""

    def __init__(self, function: relax.Function) -> None:
        self._values = relax.analysis.get_var2val(function)
        self._uses: Counter[relax.Var] = Counter()

        def count(expr: relax.Expr) -> None:
            operands = (
                expr.args if isinstance(expr, relax.Call) else expr.fields if isinstance(expr, relax.Tuple) else []
            )
            self._uses.update(o for o in operands if isinstance(o, relax.Var))
            if isinstance(expr, relax.TupleGetItem) and isinstance(expr.tuple_value, relax.Var):
                self._uses[expr.tuple_value] += 1

        for value in self._values.values():
            count(value)
            if isinstance(value, relax.Call):
                for argument in value.args:
                    if isinstance(argument, relax.Tuple):
                        count(argument)
        body = function.body.body
        if isinstance(body, relax.Var):
            self._uses[body] += 1

    def call(self, expr: relax.Expr, *names: str) -> relax.Call | None:
        """The call that computes `expr` when its operator is one of `names` (any call when none is given)."""
        value = self._values.get(expr) if isinstance(expr, relax.Var) else expr
        if isinstance(value, relax.Call) and isinstance(value.op, Op) and (not names or value.op.name in names):
            return value
        return None

    def computed(self, expr: relax.Expr) -> bool:
        """Whether the function computes `expr`, which is then neither a parameter nor a constant."""
        return isinstance(expr, relax.Var) and expr in self._values

    def used_once(self, expr: relax.Expr) -> bool:
        """Whether nothing else reads `expr`."""
        return not isinstance(expr, relax.Var) or self._uses[expr] == 1


Rule = Callable[[relax.Call, View, relax.BlockBuilder], relax.Expr | None]


@mutator
class _ApplyRule(PyExprMutator):
    def __init__(self, module: tvm.IRModule, rule: Rule, view: View) -> None:
        super().__init__(module)
        self.rule, self.view, self.changed = rule, view, False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        # A call without a type is part of a replacement made in this very round.
        if isinstance(call.op, Op) and isinstance(call.ty, relax.TensorType):
            replacement = self.rule(call, self.view, self.builder_)
            if replacement is not None:
                self.changed = True
                return self.visit_expr_post_order(replacement)
        return super().visit_call_(call)


def rewrite(module: tvm.IRModule, rule: Rule, limit: int = 200) -> tvm.IRModule:
    """Applies `rule` to every operator call of `main` until nothing changes; dead code is removed between rounds."""
    for _ in range(limit):
        pass_ = _ApplyRule(module, rule, View(module["main"]))
        function = pass_.visit_expr(module["main"])
        if not pass_.changed:
            return module
        updated = pass_.builder_.get()
        updated["main"] = relax.analysis.remove_all_unused(function)
        module = relax.transform.Normalize()(updated)
    return module


def constant(expr: relax.Expr) -> np.ndarray | None:
    """The value of a constant expression, else None."""
    return expr.value.numpy() if isinstance(expr, GenericConst) and hasattr(expr.value, "numpy") else None
