"""The process that has PyTorch: reads a `.pt2`, exports it to ONNX, and computes reference outputs.

`exporter_process.py` starts it with a folder, in which it put `program.pt2`, and sends it one work after the other.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from edgetune.errors import EdgetuneError, ModelError, UnsupportedOperator
from edgetune.frontend.pytorch.archive_check import needs_more
from edgetune.frontend.pytorch.arrays import ONNX, PROGRAM, Written, as_tensor, of_tensor
from edgetune.ipc import frames
from edgetune.ipc.child_process import claim_pipes, die_with_parent

OPSET = 21
"""The first opset in which QuantizeLinear has blocks, and types of 4 and 16 bits."""

_DRAWS = ("train", "training", "dropout_p")
"""Arguments without which an operator that can draw random numbers draws none."""


def main() -> None:
    """Answers until the parent closes the pipe."""
    parent, folder = int(sys.argv[1]), Path(sys.argv[2])
    die_with_parent(parent)
    incoming, outgoing = claim_pipes()
    while True:
        try:
            message: Any = frames.receive(incoming)
        except EOFError:
            return
        work, name, data = message
        try:
            answer = _WORKS[work](folder, name, data)
        except EdgetuneError as error:
            answer = {"error": type(error).__name__, "message": error.message, "lines": error.lines}
        frames.send(outgoing, answer)


def _export(folder: Path, name: str, _: None) -> dict[str, Any]:
    import torch

    program = _program(folder, name)
    from edgetune.frontend.pytorch.translations import table

    translations = table()
    require_known(program, translations, name)
    require_stateless(program, name)
    _require_tensors(program, name)
    try:
        exported = torch.onnx.export(
            program, opset_version=OPSET, dynamo=True, custom_translation_table=translations, verbose=False
        )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
        require_translated(program, translations, name)
        raise ModelError(f"PyTorch's ONNX exporter refuses {name}: {_cause(error)}") from None
    graph = exported.model.graph
    for node in graph.all_nodes():
        node.metadata_props.clear()  # traces of the stack, with paths of the machine
    for value in (*graph.inputs, *graph.outputs):
        value.metadata_props.clear()
    graph.metadata_props.clear()
    exported.model.metadata_props.clear()
    _name_each_output(graph)
    exported.save(folder / ONNX)
    inputs, outputs = [value.name for value in graph.inputs], [value.name for value in graph.outputs]
    if len(inputs) != len(_tensor_inputs(program)):
        raise ModelError(f"{name} has inputs that are no tensors: give it a forward of tensors alone")
    return {"inputs": inputs, "outputs": outputs}


def _require_tensors(program: Any, name: str) -> None:
    """Raises ModelError for a program that returns what is no tensor, unless it is None, which is left out."""
    import torch

    for number, one in enumerate(program.graph_signature.output_specs):
        tensor = isinstance(one.arg, torch.export.graph_signature.TensorArgument)
        if not tensor and getattr(one.arg, "value", one) is not None:
            raise ModelError(f"result {number} of {name} is no tensor: give it a forward that returns tensors alone")


def _name_each_output(graph: Any) -> None:
    """Gives a tensor that is returned more than once a name for each time: ONNX has outputs by name."""
    from onnxscript import ir

    seen: set[str] = set()
    for number, value in enumerate(graph.outputs):
        if value.name in seen:
            copy = ir.node("Identity", [value])
            copy.outputs[0].name = f"{value.name}_{number}"
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            graph.outputs[number] = copy.outputs[0]
        seen.add(graph.outputs[number].name)


def _run(folder: Path, name: str, feeds: list[dict[int, Written]]) -> dict[str, Any]:
    """Calls the graph of the program, operator by operator, as `ExportedProgram.module()` does, without its guards.

    A feed has tensors by the number of the input.
    """
    import torch

    program = _program(folder, name)
    kinds = torch.export.graph_signature
    wanted = [
        number
        for number, one in enumerate(program.graph_signature.output_specs)
        if one.kind == kinds.OutputKind.USER_OUTPUT and isinstance(one.arg, kinds.TensorArgument)
    ]
    given = [node.name for node in _tensor_inputs(program)]
    results = []
    with torch.no_grad():
        for feed in feeds:
            tensors = {given[number]: as_tensor(torch, value) for number, value in feed.items()}
            flat = [
                tensors[node.name] if node.name in tensors else _held(program, node, spec)
                for node, spec in zip(_placeholders(program), program.graph_signature.input_specs, strict=True)
            ]
            values = program.graph_module(*flat)
            results.append([of_tensor(torch, values[at]) for at in wanted])
    return {"outputs": results, "torch": str(torch.__version__)}  # its class is torch's own


@cache
def _program(folder: Path, name: str) -> Any:
    """The program of the archive, which `archive_check` has looked at; only data is unpickled.

    torch falls back to whole pickles where data alone does not do, so its `load` is replaced, not only told.
    """
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    import torch
    import torch.ao.quantization.fx._decomposed

    if find_spec("torchao") is not None and _names_torchao(folder / PROGRAM):
        import torchao.quantization  # noqa: F401  registers its operators, and the classes of its tensors as data
    plain = torch.load

    def load_data(*arguments: Any, **options: Any) -> Any:
        return plain(*arguments, **{**options, "weights_only": True})

    torch.load = load_data
    torch.set_num_threads(1)  # one order of sums
    try:
        program = torch.export.load(folder / PROGRAM)
    except UnpicklingError:
        raise needs_more(name, "objects of Python beside its tensors") from None
    except Exception as error:  # noqa: BLE001  torch has no class for a file that it cannot read
        raise ModelError(
            f"{name} cannot be read by torch {torch.__version__} ({_cause(error)}): save it with torch.export.save of "
            "that version"
        ) from None
    program._guards_code = []
    if any(_is_subclass(torch, value) for value in program.state_dict.values()):
        program = program.run_decompositions({})
    return program


def _names_torchao(path: Path) -> bool:
    """Whether a program has operators of torchao, or tensors of classes that it may have made. It loads for seconds."""
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(member) for member in archive.namelist() if member.endswith(".json")]
    return any(b"torchao" in text or b'"use_pickle": true' in text for text in texts)


def require_known(program: Any, translations: Any, name: str) -> None:
    """Raises UnsupportedOperator with all operators that neither have a translation nor are made of some that have.

    Nothing was executed before, so an operator that would do more than compute is refused here as well.
    """
    import onnxscript.function_libs.torch_lib.ops  # noqa: F401  fills the registry
    import torch
    from onnxscript.function_libs.torch_lib.registration import default_registry
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    decomposed = {*torch._decomp.decomposition_table, *torch.export.default_decompositions()}
    known = {one.fx_target for one in _torchlib_registry.get_torchlib_ops()} | set(translations)
    names = set(iter(default_registry))
    missing: dict[str, str] = {}
    for node in _calls(program.graph_module):
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            continue
        of_graph = target.namespace == "export" or target.name().startswith("aten::_assert")
        composed = target in decomposed or target._can_decompose()
        if of_graph or composed or target in known or target.name() in names:
            continue
        missing.setdefault(str(target), node.name)
    _refuse(missing, name)


def require_translated(program: Any, translations: Any, name: str) -> None:
    """Raises UnsupportedOperator with all operators for which the exporter finds no translation, once decomposed."""
    import torch
    from torch.onnx._internal.exporter import _decomp, _registration

    registry = _registration.ONNXRegistry.from_torchlib(OPSET)
    for target, function in translations.items():
        registry.register_op(target, function)
    known = set(_decomp.get_onnx_implemented_overloads(registry))
    plain = program.run_decompositions(_decomp.create_onnx_friendly_decomposition_table(known))
    _refuse(
        {
            str(node.target): node.name
            for node in reversed(list(_calls(plain.graph_module)))
            if isinstance(node.target, torch._ops.OpOverload) and not registry.is_registered(node.target)
        },
        name,
    )


def _refuse(missing: Mapping[str, str], name: str) -> None:
    """Raises UnsupportedOperator where there are `missing` operators, each with the first node that has it."""
    if missing:
        shown = ", ".join(f"{operator} (node {node})" for operator, node in sorted(missing.items()))
        raise UnsupportedOperator(
            f"{name} has operators without a translation to ONNX: {shown}; write the module with others"
        )


def require_stateless(program: Any, name: str) -> None:
    """Raises ModelError for a program that changes its own tensors or its inputs, or draws random numbers."""
    import torch

    operators = [node for node in _calls(program.graph_module) if isinstance(node.target, torch._ops.OpOverload)]
    for node in operators:
        settings = _settings(node)
        drawn = [settings[one] for one in _DRAWS if one in settings]
        if torch.Tag.nondeterministic_seeded in node.target.tags and (any(drawn) or not drawn):
            raise ModelError(
                f"{name} draws random numbers ({node.target} at node {node.name}): call eval() on the module before it "
                "is exported"
            )
    if any(node.target._schema.is_mutable or _settings(node).get("training") for node in operators):
        signature = program.run_decompositions({}).graph_signature
        changed = {*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()}
        if changed:
            raise ModelError(
                f"{name} changes {', '.join(sorted(changed))} when it runs: call eval() on the module before it is "
                "exported, or make what it keeps an input and an output"
            )


def _settings(node: Any) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    arguments = node.target._schema.arguments
    defaults = {one.name: one.default_value for one in arguments if one.has_default_value()}
    return defaults | dict(zip((one.name for one in arguments), node.args, strict=False)) | dict(node.kwargs)


def _calls(module: Any) -> Iterator[Any]:
    """The nodes of a graph module that call something, and those of its branches and loops."""
    for part in module.modules():
        graph = getattr(part, "graph", None)
        if graph is not None:
            yield from (node for node in graph.nodes if node.op == "call_function")


def _placeholders(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _tensor_inputs(program: Any) -> list[Any]:
    """The placeholders of what the user gives, as far as they are tensors."""
    import torch

    kinds = torch.export.graph_signature
    return [
        node
        for node, spec in zip(_placeholders(program), program.graph_signature.input_specs, strict=True)
        if spec.kind == kinds.InputKind.USER_INPUT and isinstance(spec.arg, kinds.TensorArgument)
    ]


def _held(program: Any, node: Any, spec: Any) -> Any:
    """What is given for an input that no feed has: what the program holds, and zeros for what has no effect."""
    if spec.target is None:
        value = node.meta.get("val")
        return value.new_zeros(value.shape) if hasattr(value, "new_zeros") else getattr(spec.arg, "value", None)
    return program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]


def _is_subclass(torch: Any, value: Any) -> bool:
    return type(value) not in {torch.Tensor, torch.nn.Parameter} and isinstance(value, torch.Tensor)


def _cause(error: BaseException) -> str:
    """The first line of the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


_WORKS: Mapping[str, Callable[[Path, str, Any], dict[str, Any]]] = {"export": _export, "run": _run}
