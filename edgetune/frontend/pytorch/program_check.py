"""Finds text that torch would execute in the JSON of a program: sizes that SymPy evaluates, operators, names in code.

What a string may be follows from its place in torch's schema (`torch/_export/serde/schema.py`), never from a key that
the file chooses: a tensor may have the name of any field. Strings at places that are not listed must be plain names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_OPERATOR = re.compile(
    r"torch\.ops\.\w+\.\w+(?:\.\w+)?|torch\.sym_\w+|math\.[a-z]\w*"
    r"|_operator\.(?:getitem|add|sub|mul|pow|neg|pos|truediv|floordiv|mod|lt|le|gt|ge|eq|ne|and_|or_|not_)"
)
_NODE_NAME = re.compile(r"[A-Za-z_]\w*|")
_PLAIN = re.compile(r"[\w.:/ +-]*")
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SYMBOL = r"(?:s|u|zf|zuf|ps|i)\d+"
_SIZE_TOKEN = re.compile(  # the second line has symbols and numbers as SymPy's srepr writes them
    rf"\s*(?:{_NUMBER}(?![\w.])|[-+*/%(),<>=!&|~]"
    rf"|Symbol\('{_SYMBOL}'(?:, [a-z_]+=(?:True|False))*\)|Float\('-?{_NUMBER}', precision=\d+\)"
    r"|(?P<name>[A-Za-z_]\w*))"
)
_FUNCTIONS = frozenset(
    {
        # those that torch gives SymPy by name
        *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv"),
        *("LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt"),
        *("IsNonOverlappingAndDenseIndicator", "RoundToInt", "RoundDecimal", "ToFloat", "Identity"),
        # SymPy's own
        *("Max", "Min", "Add", "Mul", "Pow", "Abs", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not"),
        *("floor", "ceiling", "sqrt", "True", "False", "true", "false", "oo", "int_oo", "Integer", "Rational"),
        *("Equality", "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan"),
    }
)
_IMPORTING = ("__enum__", "default_factory")
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_EVALUATED = "expr_str"

_BOUND = ("parameter", "buffer", "tensor_constant", "custom_obj", "token", "loss_output", "buffer_mutation")
_MUTATED = ("gradient_to_parameter", "gradient_to_user_input", "user_input_mutation", "parameter_mutation")
_REFERENCES = ("as_tensor", "as_tensors", "as_nested_tensors", "as_optional_tensor", "as_optional_tensors")
_SYMBOLS = ("as_sym_int", "as_sym_ints", "as_sym_bool", "as_sym_bools", "as_sym_float", "as_sym_floats")

# The fields of each record of the schema below which other text than plain names may stand, and the place of each.
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "program": {"graph_module": "module", "torch_version": "text", "guards_code": "text"},  # child.py drops the guards
    "module": {"graph": "graph", "signature": "signature", "module_call_graph": "module call", "metadata": "texts"},
    "graph": {
        **dict.fromkeys(("inputs", "outputs"), "argument"),
        **dict.fromkeys(("sym_int_values", "sym_bool_values", "sym_float_values"), "numbers"),
        "nodes": "node",
        "tensor_values": "tensors",
        "custom_obj_values": "references",
    },
    "node": {
        "target": "operator",
        "inputs": "named argument",
        "outputs": "argument",
        "metadata": "texts",
        "name": "name",
    },
    "named argument": {"name": "name", "arg": "argument"},
    "argument": {
        **dict.fromkeys((*_REFERENCES, *_SYMBOLS, "as_custom_obj"), "reference"),
        "as_string": "text",
        "as_strings": "text",
        "as_operator": "operator",
        "as_graph": "inner graph",
        "as_string_to_argument": "arguments",
    },
    "reference": {"name": "name", "as_name": "name", "as_tensor": "reference"},
    "inner graph": {"name": "name", "graph": "graph"},
    "tensor": dict.fromkeys(("sizes", "strides", "storage_offset"), "number"),
    "number": {"as_expr": "expression"},
    "expression": {_EVALUATED: "size"},
    "signature": dict.fromkeys(("input_specs", "output_specs"), "specification"),
    "specification": {
        **dict.fromkeys(("user_input", "user_output"), "named argument"),
        **dict.fromkeys((*_BOUND, *_MUTATED), "bound"),
        "constant_input": "constant input",
    },
    "bound": {"arg": "reference"},
    "constant input": {"name": "name", "value": "argument"},
    "module call": {"signature": "call signature"},
    "call signature": {
        **dict.fromkeys(("inputs", "outputs"), "argument"),
        "in_spec": "structure",
        "out_spec": "structure",
        "forward_arg_names": "name",
    },
    "payloads": {"config": "payloads by name"},
    "payload": {"tensor_meta": "tensor"},
}
# Dictionaries whose keys the file chooses, and the place of each of their values.
_ENTRIES: Mapping[str, str] = {
    "tensors": "tensor",
    "numbers": "number",
    "references": "reference",
    "arguments": "argument",
    "texts": "text",
    "payloads by name": "payload",
}
_OTHER = "other"


def complaints(document: Any, place: str, key: str = "") -> Iterator[str]:
    """What below `document` would be more than data, in words; `place` is where it stands, `key` the key before it.

    A whole document stands at the place `program` or `payloads`. Lists stand where their elements do.
    """
    if isinstance(document, dict):
        for name, value in document.items():
            if not _is_plain(name):
                yield f"a name that Python could execute ({name[:80]!r})"
            yield from complaints(value, _place_below(place, name), name)
    elif isinstance(document, list):
        for value in document:
            yield from complaints(value, place, key)
    elif isinstance(document, str) and not _CHECKS.get(place, _is_plain)(document):
        yield f"a text at {key[:80]!r} that Python could execute ({document[:80]!r})"


def _place_below(place: str, name: str) -> str:
    """Where the value of the key `name` stands; what torch evaluates in one place counts as evaluated in every one."""
    if name == _EVALUATED:
        return "size"
    return _ENTRIES.get(place) or _FIELDS.get(place, {}).get(name, _OTHER)


def is_size(text: str) -> bool:
    """Whether SymPy would only compute: numbers, symbols of sizes, arithmetic and known functions of them."""
    at = 0
    while at < len(text):
        token = _SIZE_TOKEN.match(text, at)
        if token is None:
            return not text[at:].strip()
        name = token["name"]
        if name is not None and name not in _FUNCTIONS and not re.fullmatch(_SYMBOL, name):
            return False
        at = token.end()
    return True


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


def _is_plain_structure(text: str) -> bool:
    """Whether torch would import nothing for the structure; it reads JSON within JSON, so escapes may be nested."""
    while (read := _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)) != text:
        text = read
    return not any(word in text for word in _IMPORTING)


def _is_anything(text: str) -> bool:
    """Text that torch only compares or prints as a literal."""
    del text
    return True


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "size": is_size,
    "operator": lambda text: _OPERATOR.fullmatch(text) is not None,
    "name": lambda text: _NODE_NAME.fullmatch(text) is not None,
    "structure": _is_plain_structure,
    "text": _is_anything,
}
