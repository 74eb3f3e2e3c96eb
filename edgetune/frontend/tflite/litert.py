"""Reference outputs by LiteRT's reference kernels (package ai-edge-litert), in a process of its own.

The optimised kernels of LiteRT round ties otherwise; the reference kernels are what the others are tested against.
Models with one of the few operators whose reference kernels are missing or wrong are left to the optimised ones. A
model that crashes LiteRT ends that process, and not this one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from edgetune.errors import ModelError, ToolHung
from edgetune.frontend.model_format import Feed
from edgetune.frontend.tflite.content import DTYPES, TfliteContent
from edgetune.target.tool_process import run_tool

_REFERENCE, _OPTIMISED = "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
_EVALUATORS: Mapping[str, str] = {_REFERENCE: "LiteRT's reference kernels", _OPTIMISED: "LiteRT's optimised kernels"}
_INTEGERS = frozenset({"INT8", "UINT8", "INT16"})
WITHOUT_REFERENCE: Mapping[str, frozenset[str]] = {
    "CEIL": frozenset(DTYPES),
    "ELU": frozenset(DTYPES),
    "LOCAL_RESPONSE_NORMALIZATION": frozenset(DTYPES),
    "ROUND": frozenset(DTYPES),
    "SUM": _INTEGERS,
}
"""Operators that LiteRT 2.3 has no right reference kernel of, and the types of their inputs where that is so.

The resolver lacks CEIL, ELU and ROUND. LOCAL_RESPONSE_NORMALIZATION leaves out the last channel of each window, which
TensorFlow and the optimised kernel count. SUM of integers writes its sums over each other.
"""

_PACKAGE = "ai_edge_litert"
_LONGEST_S = 1800.0


def is_installed() -> bool:
    """Whether LiteRT is there."""
    return importlib.util.find_spec(_PACKAGE) is not None


def evaluator(content: TfliteContent) -> str:
    """Name of the kernels that `evaluate` runs: optimised ones where an operator has no right reference kernel."""
    return _EVALUATORS[_kernels(content)]


def _kernels(content: TfliteContent) -> str:
    for operator in content.operators:
        kind = next((content.tensors[number].type for number in operator.inputs if number >= 0), "")
        if kind in WITHOUT_REFERENCE.get(operator.name, ()):
            return _OPTIMISED
    return _REFERENCE


def evaluate(content: TfliteContent, feeds: Sequence[Feed], names: Sequence[str] = ()) -> list[dict[str, np.ndarray]]:
    """Outputs by `names`, or those of the file, for each of `feeds` (inputs by name, in their own types and shapes).

    Raises ModelError where LiteRT is not installed, refuses the model, or does not survive it.
    """
    return [outputs for outputs, _ in evaluate_sequence(content, feeds, names)]


def evaluate_sequence(
    content: TfliteContent,
    feeds: Sequence[Feed],
    names: Sequence[str] = (),
    fed_back: Mapping[str, str] = MappingProxyType({}),
    watched: Sequence[int] = (),
) -> list[tuple[dict[str, np.ndarray], list[np.ndarray]]]:
    """Outputs of calls one after another, as `evaluate` has them, and the tensors `watched`, by number.

    Variables begin with their first values: an interpreter of its own runs each sequence, because
    `reset_all_variables` leaves resource variables as they are. From the second call on, an input of `fed_back` is that
    output of the call before. Raises as `evaluate` does.
    """
    if not is_installed():
        raise ModelError("LiteRT is not installed (`pip install ai-edge-litert` installs it)")
    inputs = [content.tensors[n].name for n in content.inputs]
    outputs = list(names) or [content.tensors[n].name for n in content.outputs]
    with tempfile.TemporaryDirectory(prefix="edgetune-litert-") as name:
        folder = Path(name)
        (folder / "model.tflite").write_bytes(content.data)
        arrays = {
            f"{number}_{position}": feed[key]
            for number, feed in enumerate(feeds)
            for position, key in enumerate(inputs)
            if not number or key not in fed_back
        }
        np.savez(folder / "feeds.npz", **arrays)  # type: ignore[arg-type]
        plan = {
            "kernels": _kernels(content),
            "calls": len(feeds),
            "fed_back": {inputs.index(one): outputs.index(other) for one, other in fed_back.items()},
            "watched": list(watched),
        }
        (folder / "plan.json").write_text(json.dumps(plan), encoding="ascii")
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", name]
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        try:
            done = run_tool(command, timeout_s=_LONGEST_S, environment=environment)
        except ToolHung:
            raise ModelError(f"LiteRT does not finish {content.path} in {_LONGEST_S:g} s; check the model") from None
        answers = folder / "answers.npz"
        if done.returncode or not answers.is_file():
            said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it prints nothing")
            raise ModelError(f"LiteRT cannot run {content.path} ({said.strip()[:200]}); check the model")
        with np.load(answers, allow_pickle=False) as found:
            return [
                (
                    {key: found[f"{number}_{position}"] for position, key in enumerate(outputs)},
                    [found[f"{number}_tensor{tensor}"] for tensor in watched],
                )
                for number in range(len(feeds))
            ]


def main() -> None:
    """The child: reads model, plan and feeds from the folder of its argument, and writes the answers there."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text(encoding="ascii"))
    interpreter = Interpreter(
        model_path=str(folder / "model.tflite"),
        experimental_op_resolver_type=OpResolverType[plan["kernels"]],
        experimental_preserve_all_tensors=bool(plan["watched"]),
    )
    inputs = interpreter.get_input_details()
    answers: dict[str, np.ndarray] = {}
    with np.load(folder / "feeds.npz", allow_pickle=False) as feeds:
        for position, one in enumerate(inputs):
            if plan["calls"] and tuple(one["shape"]) != feeds[f"0_{position}"].shape:
                interpreter.resize_tensor_input(one["index"], feeds[f"0_{position}"].shape)
        interpreter.allocate_tensors()
        for number in range(plan["calls"]):
            for position, one in enumerate(inputs):
                back = plan["fed_back"].get(str(position)) if number else None
                fed = feeds[f"{number}_{position}"] if back is None else answers[f"{number - 1}_{back}"]
                interpreter.set_tensor(one["index"], fed)
            interpreter.invoke()
            for position, one in enumerate(interpreter.get_output_details()):
                answers[f"{number}_{position}"] = interpreter.get_tensor(one["index"])
            for tensor in plan["watched"]:
                answers[f"{number}_tensor{tensor}"] = interpreter.get_tensor(tensor)
    np.savez(folder / "answers.npz", **answers)  # type: ignore[arg-type]
