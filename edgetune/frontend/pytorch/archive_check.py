"""Refuses a `.pt2` archive in which more than data would be read: torch unpickles, imports and evaluates parts of one.

`weights_only=True` holds for pickles that `torch.load` reads. What else torch does with the content of an archive is
looked at here, before torch sees it: compiled libraries are loaded, objects unpickled, sizes given to Python's `eval`
(by SymPy), names written into generated code, operators looked up as any attribute of `torch`, and modules imported for
the classes of nested inputs. What torch.export writes for tensors, operators and sizes passes. Nothing is executed.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgetune.errors import ModelError

_COMPILED = "data/aotinductor/"
_PAYLOADS = re.compile(r"data/(?:constants|weights)/\w+_config\.json")
_PROGRAMS = re.compile(r"models/[^/]+\.json|serialized_exported_program\.json")
_DATA_FILE = re.compile(r"(?:weight|tensor)_\d+")

_OPERATOR = re.compile(
    r"torch\.ops\.\w+\.\w+(?:\.\w+)?|torch\.sym_\w+|math\.[a-z]\w*"
    r"|_operator\.(?:getitem|add|sub|mul|pow|neg|pos|truediv|floordiv|mod|lt|le|gt|ge|eq|ne|and_|or_|not_)"
)
_NODE_NAME = re.compile(r"[A-Za-z_]\w*|")
_TENSOR_NAME = re.compile(r"[\w.:/ +-]*")
_SIZE_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])|(?P<name>[A-Za-z_]\w*)|[-+*/%(),<>=!&|~])"
)
_SYMBOL = re.compile(r"(?:s|u|zf|zuf|ps|i)\d+")
_FUNCTIONS = frozenset(
    {
        # those that torch gives SymPy by name
        *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv"),
        *("LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt"),
        *("IsNonOverlappingAndDenseIndicator", "RoundToInt", "RoundDecimal", "ToFloat", "Identity"),
        # SymPy's own
        *("Max", "Min", "Add", "Mul", "Pow", "Abs", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not"),
        *("floor", "ceiling", "sqrt", "True", "False", "oo", "int_oo"),
    }
)
_IMPORTING = ("__enum__", "default_factory")
_NOT_READ = frozenset({"metadata", "torch_version", "verifiers"})  # strings that no code is made of


def require_data_only(archive_path: Path, path: Path) -> None:
    """Raises ModelError unless reading the archive executes nothing that it holds; `path` is its name in messages."""
    programs = 0
    try:
        with zipfile.ZipFile(archive_path) as archive:
            for inside, member in _members(archive):
                if inside.startswith(_COMPILED):
                    raise needs_more(str(path), f"a compiled library ({inside})")
                if member.file_size > archive_path.stat().st_size:
                    raise ModelError(f"{path} has a part that is larger than the file ({inside}): save it again")
                if _PAYLOADS.fullmatch(inside):
                    _check_payload(path, json.loads(archive.read(member)))
                elif _PROGRAMS.fullmatch(inside):
                    programs += 1
                    for complaint in _complaints(json.loads(archive.read(member))):
                        raise needs_more(str(path), complaint)
    except (zipfile.BadZipFile, ValueError, RecursionError, NotImplementedError, EOFError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"{path} is not a whole program of torch.export ({reason}): save or copy it again") from None
    if programs != 1:
        raise ModelError(f"{path} holds {programs} programs instead of one: save one with torch.export.save")


def needs_more(path: str, what: str) -> ModelError:
    """The error for a file that holds `what`, with the lines that load it in the Python program of its author."""
    return ModelError(
        f"{path} holds {what}, and reading it may run code that the file brings. If you trust its author, load it in "
        "Python",
        lines=(f"program = torch.export.load({path!r})", "model = edgetune.load(program)", "model.build(board='host')"),
    )


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """Each member with its path below the one folder that torch puts all in; the first format has no such folder."""
    for member in archive.infolist():
        if _PROGRAMS.fullmatch(member.filename):
            yield member.filename, member
        else:
            yield member.filename.partition("/")[2], member


def _check_payload(path: Path, document: Any) -> None:
    for name, payload in dict(document.get("config", {}) if isinstance(document, dict) else {}).items():
        file = payload.get("path_name") if isinstance(payload, dict) else None
        if not isinstance(file, str) or not _DATA_FILE.fullmatch(file):
            raise needs_more(str(path), f"an object of Python ({str(name)[:80]!r}) beside its tensors")


def _complaints(document: Any, key: str = "") -> Iterator[str]:
    """What in a program would be more than data, in words; `key` is that below which `document` stands."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in _NOT_READ:
                continue
            if not _TENSOR_NAME.fullmatch(name):
                yield f"a name that Python could execute ({name[:80]!r})"
            yield from _complaints(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from _complaints(value, key)
    elif isinstance(document, str) and not _CHECKS.get(key, _is_tensor_name)(document):
        yield f"a {key or 'text'} that Python could execute ({document[:80]!r})"


def _is_tensor_name(text: str) -> bool:
    return _TENSOR_NAME.fullmatch(text) is not None


def is_size(text: str) -> bool:
    """Whether SymPy would only compute: numbers, symbols of sizes, arithmetic and known functions of them."""
    at = 0
    while at < len(text):
        token = _SIZE_TOKEN.match(text, at)
        if token is None:
            return not text[at:].strip()
        name = token["name"]
        if name is not None and name not in _FUNCTIONS and not _SYMBOL.fullmatch(name):
            return False
        at = token.end()
    return True


def _is_plain_structure(text: str) -> bool:
    return not any(word in text for word in _IMPORTING)


def _is_anything(text: str) -> bool:
    """Text that torch only compares or prints as a literal."""
    del text
    return True


_CHECKS: dict[str, Callable[[str], bool]] = {
    "expr_str": is_size,
    "target": lambda text: _OPERATOR.fullmatch(text) is not None,
    "as_operator": lambda text: _OPERATOR.fullmatch(text) is not None,
    "name": lambda text: _NODE_NAME.fullmatch(text) is not None,
    "as_name": lambda text: _NODE_NAME.fullmatch(text) is not None,
    "in_spec": _is_plain_structure,
    "out_spec": _is_plain_structure,
    "as_string": _is_anything,
    "as_strings": _is_anything,
    "guards_code": _is_anything,  # child.py drops it
}
