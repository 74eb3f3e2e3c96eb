"""Refused nodes: those of a model that cannot be imported, found all at once and told in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.domains import ADVICE, shown_operator
from edgetune.frontend.onnx.origins import described, origin_of


@dataclass(frozen=True)
class RefusedNode:
    """A node of the model by operator and name, and the sentence that refuses it.

    `outputs` are those of the node that stands for it in the simplified graph. Where no rule knows the operator,
    `place` is operator and node in words; it is "" where a rule refuses the node's form. `advice` is what to do about
    the operators of its domain, where that is not what is to be done about others.
    """

    operator: str
    name: str
    sentence: str
    outputs: tuple[str, ...]
    place: str = ""
    advice: str = ""

    @classmethod
    def of(cls, node: onnx.NodeProto, sentence: str) -> RefusedNode:
        """The node of the model that `node` stands for, whose form `sentence` refuses."""
        name, operator = origin_of(node)
        return cls(operator, name, sentence, tuple(filter(None, node.output)))

    @classmethod
    def without_converter(cls, node: onnx.NodeProto, model: str) -> RefusedNode:
        """The node of the model that `node`, whose operator no rule knows, stands for."""
        place = described(node, model)
        name, operator = origin_of(node)
        advice = ADVICE.get(node.domain, "")
        return cls(operator, name, _unknown([place], advice), tuple(filter(None, node.output)), place, advice)


def _unknown(places: Sequence[str], advice: str) -> str:
    if len(places) == 1:
        what, them, expressions = f"{places[0]} is", "it", "it a tensor expression"
    else:
        what, them, expressions = f"{', '.join(places[:-1])} and {places[-1]} are", "them", "them tensor expressions"
    if advice:
        return f"{what} not supported; {advice}"
    return f"{what} not supported; replace {them} in the model, or give {expressions} in Python (see docs/operators.md)"


def one_each(refused: Iterable[RefusedNode]) -> list[RefusedNode]:
    """The first refusal of each node of the model: a loop that is unrolled has its nodes many times."""
    return list({(one.name, one.operator): one for one in reversed(list(refused))}.values())[::-1]


def sentence_of(refused: Sequence[RefusedNode]) -> str:
    """One sentence that names all of `refused`, which are not empty."""
    unknown: dict[str, list[str]] = {}
    for one in refused:
        if one.place:
            unknown.setdefault(one.advice, []).append(one.place)
    sentences = [_unknown(places, advice) for advice, places in unknown.items()]
    return "; ".join(dict.fromkeys([*sentences, *(one.sentence for one in refused if not one.place)]))


def without_nodes(proto: onnx.ModelProto, refused: Iterable[RefusedNode]) -> onnx.ModelProto | None:
    """`proto` without these nodes: their results, where others read them, are inputs.

    None where such a result has no static shape that is known.
    """
    cut = {name for one in refused for name in one.outputs}
    graph = proto.graph
    kept = [node for node in graph.node if not cut.intersection(node.output)]
    read = {name for node in kept for name in node.input} | {output.name for output in graph.output}
    types = {value.name: value for value in (*graph.value_info, *graph.output)}
    wanted = [name for node in graph.node if cut.intersection(node.output) for name in node.output if name in read]
    if not all(name in types and _is_static(types[name]) for name in wanted):
        return None
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    del result.graph.node[:]
    result.graph.node.extend(kept)
    given = {value.name for value in graph.input}
    result.graph.input.extend(types[name] for name in dict.fromkeys(wanted) if name not in given)
    return result


def _is_static(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return (
        bool(tensor.elem_type) and tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
    )


@contextmanager
def refused_where_unfit(node: onnx.NodeProto) -> Iterator[None]:
    """Raises UnsupportedOperator where shapes or attributes of `node` do not fit one another.

    Nothing has checked all of them before a rule reads them, so a rule may raise any of these.
    """
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UnsupportedOperator(
            f"operator {shown_operator(node)} has inputs or attributes that do not fit one another ({error}); "
            "export the model again"
        ) from error
