"""`edgetune.tune`: tunes a tensor expression written in Python, from the search to the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tvm import te

from edgetune.api import TuneResult, tune_input
from edgetune.config.boards_file import load_board
from edgetune.config.settings import DEFAULT_DB, Settings
from edgetune.graph.evaluate import EVALUATOR, evaluate
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Program, TensorSpec
from edgetune.package.golden import Golden
from edgetune.package.output_folder import check_output_folder
from edgetune.pipeline.compile_input import GOLDEN_CASES, CompileInput, Events
from edgetune.search.te_task import kernel_from_te

Shape = tuple[Sequence[int], str]


def tune(
    expression: Callable[..., Any],
    inputs: Mapping[str, Shape],
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    name: str = "custom",
    board: str = "host",
    trials: int = 64,
    seed: int = 0,
    db: Path | None = None,
    out: Path | None = None,
    events: Events = lambda _: None,
) -> TuneResult:
    """Searches for the fastest schedule of `expression` on `board` and writes it as a package.

    `inputs` gives shape and numpy dtype name by parameter name, `constants` the weights, which are packed as the
    winning schedule wants them. `expression(*inputs, *constants)` gets `te.Tensor`s in that order and returns one,
    or a list. Raises what `edgetune.api.tune` raises, and UsageError for an expression whose shapes are not fixed.
    """
    weights = dict(constants or {})
    places = [te.placeholder(tuple(shape), dtype, name=key) for key, (shape, dtype) in inputs.items()]
    fixed = [te.placeholder(value.shape, value.dtype.name, name=key) for key, value in weights.items()]
    computed = expression(*places, *fixed)
    outputs = list(computed) if isinstance(computed, list | tuple) else [computed]
    kernel = kernel_from_te([*places, *fixed, *outputs], name, constants=fixed)
    program = _program(kernel, weights)
    resolved = load_board(board)
    settings = Settings(
        model=Path(f"{name}.te"),
        name=name,
        target=resolved.target,
        addresses=resolved.addresses,
        budget_trials=trials,
        budget_seconds=None,
        objective="latency",
        ram_limit=None,
        flash_limit=None,
        seed=seed,
        threads=1,
        db=db or DEFAULT_DB,
        out=out or Path("build", name),
        shapes={},
        origins={},
    )
    check_output_folder(settings.out)
    return tune_input(_compile_input(program, weights, seed), settings, events)


def _program(kernel: Kernel, weights: Mapping[str, np.ndarray]) -> Program:
    kinds: dict[str, BufferKind] = {"input": "input", "constant": "constant", "output": "output"}
    buffers = tuple(Buffer(i, p.name, p.shape, p.dtype, kinds[p.role]) for i, p in enumerate(kernel.params))
    specs = {
        role: tuple(TensorSpec(p.name, p.shape, p.dtype) for p in kernel.params if p.role == role)
        for role in ("input", "output")
    }
    return Program(
        name=kernel.name,
        inputs=specs["input"],
        outputs=specs["output"],
        buffers=buffers,
        kernels=(kernel,),
        calls=(Call(0, tuple(range(len(buffers))), kernel.name),),
        constants={b.id: np.ascontiguousarray(weights[b.name]) for b in buffers if b.kind == "constant"},
        model_sha256=kernel.workload,
    )


def _compile_input(program: Program, weights: Mapping[str, np.ndarray], seed: int) -> CompileInput:
    kernel = program.kernels[0]
    results = [(p.shape, p.dtype) for p in kernel.params if p.role == "output"]
    goldens = []
    for case in range(GOLDEN_CASES):
        generator = np.random.default_rng([seed, case])
        feed = {s.name: _sample(generator, s) for s in program.inputs}
        arrays = [
            weights[p.name] if p.role == "constant" else feed[p.name] for p in kernel.params if p.role != "output"
        ]
        answers = evaluate(kernel.function, arrays, results)
        goldens.append(Golden(feed, {s.name: a for s, a in zip(program.outputs, answers, strict=True)}))
    return CompileInput(program, tuple(goldens), EVALUATOR, {}, f"{program.name}.te")


def _sample(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if np.dtype(spec.dtype).kind == "f":
        return np.asarray(generator.standard_normal(spec.shape)).astype(spec.dtype)
    return np.asarray(generator.integers(0, 2 if spec.dtype == "bool" else 8, spec.shape)).astype(spec.dtype)
