"""Constant evaluation and reference execution: runs kernels on this machine at build time with TVM's LLVM back end.

It evaluates kernels with only constant operands, because what depends on no input need not ship as code. It also runs
whole programs, as the reference for models that no other evaluator knows. Float sums are accumulated in float64.

Results that LLVM leaves undefined are those of the C of kernels (`codegen/scalar_snippets.py`): integer division by
zero gives 0, the smallest integer divided by -1 wraps, a float that does not fit an integer saturates, and of two
operands of which one is NaN, a maximum or minimum is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import prod

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.tirx import compilation_pipeline

from edgetune.graph.double_sums import in_double
from edgetune.graph.flat_buffers import flatten_buffers
from edgetune.graph.loops import Stage, call_at, run_order, written_by
from edgetune.graph.parts import Part
from edgetune.graph.program import Call, Param, Program
from edgetune.graph.written_loops import in_order
from edgetune.tvm_types import Expr, Pass, PrimFunc, SBlock

_Built = Callable[..., None]

EVALUATOR = "tvm.llvm"
"""Name of this evaluator in reports."""

_QUOTIENTS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)
_EXTREMES = {tirx.Max: tirx.GT, tirx.Min: tirx.LT}
_OF_THE_LIBRARY = {f"tirx.{name}": {"float32": f"{name}f", "float64": name} for name in ("fmod", "tanh")}
"""Functions of the C library: TVM's back end has no rule for fmod, and one for tanh that gives 0 for small numbers."""
_PIPELINE = "edgetune.reference"
_FEW_ITERATIONS = 1 << 24
"""Up to this many, unoptimised iterations (2.4 ns more each) take less time than LLVM's optimisation (95 ms)."""


def evaluate(
    function: PrimFunc, arguments: Sequence[np.ndarray], outputs: Sequence[tuple[tuple[int, ...], str]]
) -> list[np.ndarray]:
    """Outputs (shape, numpy dtype name) of `function` for `arguments`, computed by TVM's LLVM back end."""
    return ReferenceFunction(function).run(arguments, outputs)


def evaluate_program(program: Program, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each of `feeds` (inputs by name), kernel by kernel: the program's meaning without our C.

    Each begins with the states that it names as inputs, and with the first value of all others.
    """
    compiled = ReferenceFunction.together([kernel.function for kernel in program.kernels])
    return [_run(program, compiled, feed).outputs() for feed in feeds]


def evaluate_sequence(program: Program, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """As `evaluate_program`, but each of `feeds` goes on from the states that the one before has left."""
    compiled = ReferenceFunction.together([kernel.function for kernel in program.kernels])
    found, kept = [], dict[int, np.ndarray]()
    for feed in feeds:
        values = _run(program, compiled, feed, kept)
        kept = values.states()
        found.append(values.outputs())
    return found


def _run(
    program: Program,
    compiled: Sequence[ReferenceFunction],
    feed: Mapping[str, np.ndarray],
    kept: Mapping[int, np.ndarray] | None = None,
) -> Values:
    values = Values(program, feed, kept)
    for number, iterations in run_order(program):
        call = call_at(program.calls[number], iterations)
        values.write(call, values.computed(call, compiled[call.kernel]))
    return values


class Values:
    """The tensors of a run of `program`, as far as its calls have written them; at first its inputs and constants.

    States begin as `feed` has them by the name of their input, or as `kept` has their memory by buffer, else with their
    first value.
    """

    def __init__(
        self, program: Program, feed: Mapping[str, np.ndarray], kept: Mapping[int, np.ndarray] | None = None
    ) -> None:
        self._program = program
        self._arrays = {number: array.reshape(-1) for number, array in program.constants.items()}
        for buffer, spec in zip(program.input_buffers(), program.inputs, strict=True):
            self._arrays[buffer.id] = feed[spec.name].reshape(-1)
        for state in program.states:
            begun = state.in_memory(feed.get(state.name_in, state.first)).flatten()
            known = {} if kept is None or state.name_in in feed else kept
            self._arrays[state.buffer] = known.get(state.buffer, begun).copy()

    def computed(
        self, call: Call, function: ReferenceFunction, moved: Callable[[np.ndarray], np.ndarray] = lambda array: array
    ) -> list[np.ndarray]:
        """What `function`, the kernel of `call`, computes of the present values: flat, for each output.

        It reads what `moved` makes of its inputs and constants.
        """
        params, reads = self._program.kernels[call.kernel].params, []
        for number, param in self._numbered(call, outputs=False):
            array = np.zeros(prod(param.shape), param.dtype)
            first = self._first(call, number)
            array[param.elements] = self._arrays[call.arguments[number]][first + param.elements]
            reads.append(moved(array).reshape(param.shape))
        written = [param for param in params if param.role == "output"]
        results = function.run(reads, [(param.shape, param.dtype) for param in written])
        return [result.reshape(-1)[param.elements] for result, param in zip(results, written, strict=True)]

    def write(self, call: Call, results: Sequence[np.ndarray]) -> None:
        """Put `results`, flat, where `call` writes its outputs."""
        for (number, param), result in zip(self._numbered(call, outputs=True), results, strict=True):
            buffer = self._program.buffers[call.arguments[number]]
            whole = self._arrays.setdefault(buffer.id, np.zeros(prod(buffer.shape), param.dtype))
            whole[self._first(call, number) + param.elements] = result

    def computed_by(
        self,
        stage: Stage,
        functions: Mapping[int, ReferenceFunction],
        moved: Callable[[np.ndarray], np.ndarray] = lambda array: array,
    ) -> list[np.ndarray]:
        """What a layer computes of the present values: flat, for each of `written_by`. `functions` are by kernel.

        Each call reads what `moved` makes of its inputs and constants.
        """
        call = self._program.calls[stage.start]
        if stage.loop is None and not call.numbers_of_rows:
            return self.computed(call, functions[call.kernel], moved)
        after = copy(self)
        after._arrays = {number: array.copy() for number, array in self._arrays.items()}  # noqa: SLF001 - of the same class
        for number, iterations in run_order(self._program):
            if stage.start <= number < stage.stop:
                call = call_at(self._program.calls[number], iterations)
                after.write(call, after.computed(call, functions[call.kernel], moved))
        return [after._arrays[one.buffer][one.elements] for one in written_by(self._program, stage)]  # noqa: SLF001 - of the same class

    def put(self, stage: Stage, results: Sequence[np.ndarray]) -> None:
        """Put `results`, flat, where a layer writes them (see `written_by`)."""
        for one, result in zip(written_by(self._program, stage), results, strict=True):
            buffer = self._program.buffers[one.buffer]
            whole = self._arrays.setdefault(buffer.id, np.zeros(prod(buffer.shape), one.dtype))
            whole[one.elements] = result

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the program by name, in their shapes."""
        pairs = zip(self._program.output_buffers(), self._program.outputs, strict=True)
        return {spec.name: self._arrays[buffer.id].reshape(spec.shape) for buffer, spec in pairs}

    def states(self) -> dict[int, np.ndarray]:
        """The present states as they lie in memory, by their buffer."""
        return {one.buffer: self._arrays[one.buffer].copy() for one in self._program.states}

    def _numbered(self, call: Call, *, outputs: bool) -> list[tuple[int, Param]]:
        params = self._program.kernels[call.kernel].params
        return [(n, param) for n, param in enumerate(params) if (param.role == "output") == outputs]

    def _first(self, call: Call, number: int) -> int:
        part = call.parts.get(number, Part(0, ()))
        return part.offset + (0 if part.row is None else part.row.at(int(self._arrays[part.row.buffer][0])))


class ReferenceFunction:
    """A function built unscheduled by TVM's LLVM back end; its float sums accumulate in float64, rounded once.

    Arrays get the shapes of its parameters, of which neighbouring axes may be joined. `built` is given where
    what `_wide` makes of it is built already.
    """

    def __init__(self, function: PrimFunc, built: _Built | None = None) -> None:
        wide = _wide(function)
        self._types = [str(parameter.dtype) for parameter in wide.params]
        self._shapes = [tuple(int(extent) for extent in parameter.ty.shape) for parameter in wide.params]
        self._built = built or _built_together([wide])[0]

    @classmethod
    def together(cls, functions: Sequence[PrimFunc]) -> list[ReferenceFunction]:
        """Each of `functions`, which takes less time than one by one."""
        built = _built_together([_wide(function) for function in functions])
        return [cls(function, one) for function, one in zip(functions, built, strict=True)]

    def run(self, arguments: Sequence[np.ndarray], outputs: Sequence[tuple[tuple[int, ...], str]]) -> list[np.ndarray]:
        """Outputs (shape, numpy dtype name) for `arguments`, which are the first parameters."""
        count = len(arguments)
        made = zip(self._shapes[count:], self._types[count:], strict=True)
        results = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in made]
        given = (np.asarray(a, order="C").reshape(shape) for a, shape in zip(arguments, self._shapes, strict=False))
        self._built(*map(tvm.runtime.tensor, given), *results)
        with np.errstate(over="ignore"):  # a value too large for the output type becomes infinite
            pairs = zip(results, outputs, strict=True)
            return [r.numpy().astype(dtype, copy=False).reshape(shape) for r, (shape, dtype) in pairs]


def _wide(function: PrimFunc) -> PrimFunc:
    return _with_defined_results(in_double(in_order(function)))


def _built_together(functions: Sequence[PrimFunc]) -> list[_Built]:
    """Those of one level of optimisation are built together: LLVM starts anew for each module."""
    quick = [_iterations(function) <= _FEW_ITERATIONS for function in functions]
    built: dict[int, _Built] = {}
    for level in set(quick):
        names = {number: f"f{number}" for number in range(len(functions)) if quick[number] == level}
        chosen = {name: functions[number].with_attr("global_symbol", name) for number, name in names.items()}
        options = {"kind": "llvm"} | ({"opt-level": 0} if level else {})
        library = tvm.compile(tvm.IRModule(chosen), tvm.target.Target(options), tir_pipeline=_PIPELINE)
        built |= {number: library[name] for number, name in names.items()}
    return [built[number] for number in range(len(functions))]


def _iterations(function: PrimFunc) -> int:
    """Return how often the bodies of all blocks run."""
    found: list[int] = []

    def count(block: SBlock) -> None:
        found.append(prod(int(axis.dom.extent) for axis in block.iter_vars))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, count))
    return sum(found)


def _pipeline() -> tuple[Pass, Callable[[], Pass], Callable[[], Pass]]:
    """The passes of TVM's own pipeline that change a function without a schedule on a CPU.

    Buffers become flat as in our C: TVM's pass reads other elements where an index divides (see `flat_buffers.py`), and
    a right kernel would be refused. Buffers keep their size: TVM makes some smaller by axes that are unknown
    there. Common subexpressions are left to LLVM: TVM's pass uses a variable before it defines it where values are
    bound inside of an expression, as `_chosen` does.
    """
    passes = tvm.transform.Sequential(
        [
            s_tir.transform.CanonicalizeLoop(),
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LowerMatchBuffer(),
            s_tir.transform.StmtSimplify(),
            s_tir.transform.LowerOpaqueBlock(),
            flatten_buffers(),
            tirx.transform.BF16ComputeLegalize(),
            tirx.transform.NarrowDataType(32),
            s_tir.transform.LoopPartition(),
            tirx.transform.VectorizeLoop(True),
            tirx.transform.StorageRewrite(),
            s_tir.transform.HoistIfThenElse(),
            tirx.transform.UnrollLoop(),
            tirx.transform.StmtSimplify(),
            tirx.transform.RemoveNoOp(),
            s_tir.transform.RewriteUnsafeSelect(),
            tirx.transform.FP8ComputeLegalize(),
            tirx.transform.VerifyMemory(),
            tirx.transform.AnnotateEntryFunc(),
            tirx.transform.SplitHostDevice(),
            tirx.transform.MakePackedAPI(),
            tirx.transform.FP8StorageLegalize(),
            tirx.transform.BF16StorageLegalize(),
        ]
    )
    return passes, compilation_pipeline.finalize_host_passes, compilation_pipeline.finalize_device_passes


compilation_pipeline.register_tir_pipeline(_PIPELINE, _pipeline)


def _with_defined_results(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose divisions, conversions and functions have a result for all operands."""
    callbacks = [(kind, _divided) for kind in (*_QUOTIENTS, *_REMAINDERS)]
    callbacks += [(kind, _chosen) for kind in _EXTREMES]
    return tvm_ffi.structural_map(function, [*callbacks, (tirx.Cast, _converted), (ir.Call, _called)])


def _chosen(node: Expr) -> Expr:
    """The larger or smaller one of two floats; the first where either is NaN. TVM takes the second."""
    dtype = str(node.ty.dtype)
    if "float" not in dtype:
        return node
    a, b = tirx.Var("first", dtype), tirx.Var("second", dtype)
    return tirx.Let(a, node.a, tirx.Let(b, node.b, tirx.Select(_EXTREMES[type(node)](b, a), b, a)))


def _divided(node: Expr) -> Expr:
    """A quotient or remainder of integers, unless its divisor is known and neither 0 nor -1."""
    dtype = str(node.ty.dtype)
    if not dtype.startswith(("int", "uint")):
        return node
    if isinstance(node.b, tirx.IntImm) and int(node.b.value) not in (0, -1):
        return node
    a, b, number = tirx.Var("dividend", dtype), tirx.Var("divisor", dtype), _numbers(dtype)
    zero = b.equal(number(0))
    if dtype.startswith("int"):
        special = tirx.Select(zero, number(0), number(0) - a if isinstance(node, _QUOTIENTS) else number(0))
        # A selection would divide first.
        chosen = tirx.if_then_else(tirx.any(zero, b.equal(number(-1))), special, type(node)(a, b))
    else:
        chosen = tirx.Select(zero, number(0), type(node)(a, tirx.max(b, number(1))))
    return tirx.Let(a, node.a, tirx.Let(b, node.b, chosen))


def _converted(node: Expr) -> Expr:
    """A float as an integer: the nearest that there is towards zero, and 0 for NaN."""
    dtype, source = str(node.ty.dtype), str(node.value.ty.dtype)
    if not source.startswith(("float", "bfloat")) or not dtype.startswith(("int", "uint")):
        return node
    limits, number = np.iinfo(dtype), _numbers(dtype)
    wide = source if source == "float64" else "float32"  # float16 has no number beyond the larger integers
    value = tirx.Var("real", wide)
    top, low = (tirx.const(float(one), wide) for one in (2 ** (limits.bits - (limits.min < 0)), limits.min))
    inside = tirx.Select(value >= low, tirx.Cast(dtype, value), number(limits.min))
    whole = tirx.Select(value >= top, number(limits.max), inside)
    chosen = tirx.Select(tirx.isnan(value), number(0), whole)  # TVM takes what is not above for below
    return tirx.Let(value, node.value if source == wide else tirx.Cast(wide, node.value), chosen)


def _called(node: Expr) -> Expr:
    dtype = str(node.ty.dtype) if hasattr(node.ty, "dtype") else ""
    called = _OF_THE_LIBRARY.get(node.op.name, {}).get(dtype) if isinstance(node.op, ir.Op) else None
    return node if called is None else tirx.call_pure_extern(dtype, called, *node.args)


def _numbers(dtype: str) -> Callable[[int], Expr]:
    return lambda value: tirx.const(value, dtype)
