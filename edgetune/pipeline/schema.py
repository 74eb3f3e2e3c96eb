"""JSON Schemas of what `inspect` and `compare` print: ``python -m edgetune.pipeline.schema FOLDER`` writes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from edgetune.pipeline.comparison import PackageComparison
from edgetune.pipeline.inspection import Inspection

_PRINTED: dict[str, type[BaseModel]] = {"inspect": Inspection, "compare": PackageComparison}


def schemas() -> dict[str, str]:
    """Return the texts of the schemas by file name."""
    return {f"{verb}.schema.json": _schema(printed) for verb, printed in _PRINTED.items()}


def _schema(printed: type[BaseModel]) -> str:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **printed.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for file, text in schemas().items():
        (Path(sys.argv[1]) / file).write_text(text, encoding="utf-8")
