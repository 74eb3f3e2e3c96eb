"""JSON Schemas of farm files and night reports: ``python -m edgetune.farm.schema FOLDER`` writes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from edgetune.farm.farm_file import FarmFile
from edgetune.farm.report import NightReport


def schemas() -> dict[str, str]:
    """Return the text of each schema by file name."""
    found = {
        "farm.schema.json": FarmFile.model_json_schema(mode="validation"),
        "night.schema.json": NightReport.model_json_schema(mode="serialization"),
    }
    return {name: _text(schema) for name, schema in found.items()}


def _text(schema: dict[str, Any]) -> str:
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(named, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for file, text in schemas().items():
        (Path(sys.argv[1]) / file).write_text(text, encoding="utf-8")
