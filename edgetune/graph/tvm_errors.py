"""Error translation: what TVM throws becomes one sentence that names the node of the model, as far as it is known."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax

from edgetune.errors import KernelFailed, UnsupportedOperator
from edgetune.graph.layer_names import place_of
from edgetune.graph.program import Program

Step = Callable[[tvm.IRModule], tvm.IRModule]

_TVM = tuple(f"{Path(package.__file__).parent}/" for package in (tvm, tvm_ffi))
_OURS = f"{Path(__file__).parents[1]}/"
_OPERATOR = re.compile(r'ir\.Op\(.*?name="(?:relax\.)?([\w.]+)".*?support_level=\d+\)')
_LONGEST = 300
_LOWERING = "TVM cannot lower it"
_ADVICE = ": replace the operator, simplify the model before export, or report this"


def reason_of(error: BaseException) -> str:
    """The first line of what an error says, where an operator is its name."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return _OPERATOR.sub(r"\1", line)[:_LONGEST]


def raised_by_tvm(error: BaseException) -> bool:
    """Whether code of TVM raised `error`, in C++ or in Python; its exceptions have no class in common.

    The frames of its C++ are of no Python file.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(_TVM) or not frame.filename.endswith(".py"):
            return True
        if frame.filename.startswith(_OURS):
            return False
    return False


@contextmanager
def tvm_refusals(where: str) -> Iterator[None]:
    """Raises UnsupportedOperator, which names `where`, if TVM throws within the block."""
    try:
        yield
    except Exception as error:
        if not raised_by_tvm(error):
            raise
        raise _refusal(where, error) from error


@contextmanager
def kernel_named(program: Program, number: int) -> Iterator[None]:
    """Raises KernelFailed, which names the kernel of that `number` and a layer that calls it, for what is thrown.

    That is another KernelFailed, which names neither, and whatever TVM throws.
    """
    layers = [call.label for call in program.calls if call.kernel == number]
    more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
    where = f"kernel {program.kernels[number].name}" + (f" (layer {layers[0]!r}{more})" if layers else "")
    try:
        yield
    except KernelFailed as error:
        advice = _ADVICE if error.message.startswith(_LOWERING) else ""
        raise KernelFailed(f"{where}: {error.message}{advice}") from error
    except Exception as error:
        if not raised_by_tvm(error):
            raise
        raise KernelFailed(f"{where}: {lowering_failed(error)}{_ADVICE}") from error


def lowering_failed(error: BaseException) -> str:
    """What to say of a kernel that TVM does not lower, with its `error`."""
    return f"{_LOWERING} ({reason_of(error)})"


def passed(module: tvm.IRModule, step: Step, places: Sequence[str]) -> tvm.IRModule:
    """Return `module` after `step`, a pass.

    Raises UnsupportedOperator if TVM throws: it names the first node without which that does not happen, from `places`,
    those of all nodes.
    """
    try:
        return step(module)
    except Exception as error:
        if not raised_by_tvm(error):
            raise
        raise _refusal(_first_refused(module, step, places), error) from error


def _refusal(where: str, error: BaseException) -> UnsupportedOperator:
    return UnsupportedOperator(
        f"TVM refuses {where} ({reason_of(error)}); replace the operator, or simplify the model before export"
    )


def _first_refused(module: tvm.IRModule, step: Step, places: Sequence[str]) -> str:
    """Where the last binding is of the shortest beginning of `main` that `step` refuses."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    accepted, refused = 0, len(bindings)
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        if _is_refused(_beginning(module, bindings[:middle]), step):
            refused = middle
        else:
            accepted = middle
    if not bindings:
        return "the model"
    last = bindings[refused - 1]
    operator = getattr(getattr(last.value, "op", None), "name", "an operator").removeprefix("relax.")
    return place_of(last.var, places) or f"{operator} in the model"


def _is_refused(module: tvm.IRModule, step: Step) -> bool:
    try:
        step(module)
    except Exception as error:
        if not raised_by_tvm(error):
            raise
        return True
    return False


def _beginning(module: tvm.IRModule, bindings: Sequence[relax.Binding]) -> tvm.IRModule:
    """`module`, whose `main` ends after `bindings` and returns what none of them reads."""
    main = module["main"]
    read = {operand for binding in bindings for operand in relax.analysis.free_vars(binding.value)}
    ends = [binding.var for binding in bindings if binding.var not in read]
    result = relax.Tuple(ends) if len(ends) > 1 else ends[0]
    returned = relax.Var("returned", result.ty)
    block = relax.DataflowBlock([*bindings, relax.VarBinding(returned, result)])
    beginning = tvm.IRModule(dict(module.functions.items()))
    beginning["main"] = relax.Function(
        main.params, relax.SeqExpr([block], returned), result.ty, main.is_pure, main.attrs
    )
    return relax.transform.Normalize()(beginning)
