"""TVM's side: an expression tuned by stock meta_schedule, compiled by TVM's LLVM backend, on one thread.

`python -m benchmarks.sides.meta_schedule_expression CASE FOLDER TRIALS CORE` tunes a case first: it takes minutes. A
folder with as many records is not tuned again.

TVM is imported in functions: no other side needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.side import Arrays, Call, CannotLoad, Case, Loaded, version_of
from edgetune.boards.cores import pin

if TYPE_CHECKING:
    from benchmarks.search.expression import Expression

_RECORDS = "database_tuning_record.json"
_WORKLOADS = "database_workload.json"


class MetaScheduleExpression:
    """The operator of the case's name. Weights are arguments, as in TVM's own examples: none is packed in advance."""

    def load(self, case: Case) -> Loaded:
        """Compile the fastest record; raises CannotLoad where the case was not tuned."""
        import tvm
        from tvm.s_tir import meta_schedule as ms

        from benchmarks.search.cases import expression_named

        os.environ["TVM_NUM_THREADS"] = "1"
        self._tvm: Any = tvm
        self._expression = expression_named(case.name)
        self._output = case.outputs[0]
        records = case.work / _RECORDS
        if not records.is_file():
            raise CannotLoad(f"{case.name} was not tuned by meta_schedule: {records} is missing")
        database = ms.database.JSONDatabase(str(case.work / _WORKLOADS), str(records))
        scheduled = ms.tir_integration.compile_tir(database, module_of(self._expression), stock_target())
        if scheduled is None:
            raise CannotLoad(f"meta_schedule found no valid program of {case.name}")
        self._function = tvm.compile(scheduled.mod, stock_target())["main"]
        count = len(records.read_text(encoding="utf-8").splitlines())
        return Loaded(version_of("apache-tvm"), f"{count} trials, LLVM, 1 thread")

    def prepare(self, feed: Arrays) -> Call:
        """Copies `feed` and the weights into arrays of TVM."""
        case = self._expression
        arrays = {**feed, **case.values(case.constants)}
        order = [arrays[name] for name in (*case.inputs, *case.constants)]
        tensors = [self._tvm.runtime.tensor(array) for array in (*order, np.zeros(case.output, np.float32))]
        self._result = tensors[-1]
        function: Callable[..., object] = self._function
        return lambda: function(*tensors)

    def answers(self) -> dict[str, np.ndarray]:
        """The result of the last call."""
        return {self._output: self._result.numpy()}


def module_of(case: Expression) -> Any:
    """The expression as a module of one function called "main"; inputs, constants and the output are its parameters."""
    import tvm
    from tvm import te

    places = [te.placeholder(shape, name=name) for name, shape in {**case.inputs, **case.constants}.items()]
    function = te.create_prim_func([*places, case.compute(*places)])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def stock_target() -> Any:
    """This machine as TVM's LLVM backend sees it, with one core."""
    import tvm

    from edgetune.pipeline.boards import load_board
    from edgetune.target.target import with_cpu

    target = with_cpu(load_board("host").target)
    return tvm.target.Target({"kind": "llvm", "mtriple": target.triple, "mcpu": target.cpu, "num-cores": 1})


def tune_stock(case: Expression, folder: Path, trials: int) -> None:
    """Tune with stock settings and a seed into `folder`, unless it has as many records already."""
    records = folder / _RECORDS
    if records.is_file() and len(records.read_text(encoding="utf-8").splitlines()) >= trials:
        return
    from tvm.s_tir import meta_schedule as ms

    folder.mkdir(parents=True, exist_ok=True)
    for old in (_RECORDS, _WORKLOADS):
        (folder / old).unlink(missing_ok=True)
    ms.tune_tir(module_of(case), stock_target(), str(folder), trials, num_tuning_cores=1, seed=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tunes one case on one core."""
    name, folder, trials, core = arguments if arguments is not None else sys.argv[1:]
    from benchmarks.search.cases import expression_named

    pin(frozenset({int(core)}))
    os.environ["TVM_NUM_THREADS"] = "1"
    tune_stock(expression_named(name), Path(folder), int(trials))
    return 0


if __name__ == "__main__":
    sys.exit(main())
