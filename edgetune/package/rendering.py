"""Jinja2 environment of the templates: undefined variables are errors, no autoescaping, C filters of this project."""

from __future__ import annotations

import json
from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from edgetune.package import ctext
from edgetune.resources import templates_dir


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment of the package templates.

    Filters: `c_comment`, `c_string` and `markdown` make untrusted text harmless for their language; `shape` writes a
    shape; `c_array` writes the body of an initialiser; `json_text` a JSON string; `thousands` groups digits;
    `in_columns` breaks long lines of C.
    """
    env = Environment(
        loader=FileSystemLoader([templates_dir() / "package", templates_dir()]),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 (this writes C, not HTML: the filters below do the escaping)
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
    )
    env.filters["c_comment"] = ctext.comment
    env.filters["c_string"] = ctext.string
    env.filters["in_columns"] = ctext.in_columns
    env.filters["c_array"] = ctext.initializer
    env.filters["markdown"] = ctext.markdown
    env.filters["shape"] = ctext.shape
    env.filters["make_text"] = lambda text: text.replace("$", "$$")
    env.filters["json_text"] = json.dumps
    env.filters["thousands"] = lambda number: f"{number:,}"
    return env


def render(template: str, **context: object) -> str:
    """Return the text of templates/package/`template`; an unknown variable is an error, not an empty string."""
    return environment().get_template(template).render(**context)
