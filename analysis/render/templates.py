"""HTML from Jinja2 templates, which lie next to the modules that fill them; every text is escaped."""

import functools
from pathlib import Path

import markupsafe
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.render.signs import GLYPHS
from cse_train.reading import plain_text

ROOT = Path(__file__).parents[2]
"""Folder from which templates are named, such as `analysis/report/page.html`."""


def fill(template: str, **values: object) -> markupsafe.Markup:
    """Returns a template filled with values, as markup that other templates insert without escaping."""
    return markupsafe.Markup(environment().get_template(template).render(**values))


def own(file: str) -> markupsafe.Markup:
    """Returns a style or script of this project as markup that is not escaped; named like a template."""
    return markupsafe.Markup((ROOT / file).read_text(encoding="utf8"))


@functools.cache
def environment() -> Environment:
    """Returns the environment of all templates, in which an undefined name is an error."""
    jinja = Environment(
        loader=FileSystemLoader(ROOT),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    jinja.globals |= {"own": own, "glyphs": GLYPHS}
    return jinja


def _visible(value: object) -> object:
    """Returns a text with spaces for invisible characters; line breaks stay, and markup passes unchanged."""
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return "\n".join(map(plain_text, value.split("\n")))
    return value
