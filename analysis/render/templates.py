"""HTML from Jinja2 templates, which lie beside the modules that fill them; every text is escaped."""

import functools
from pathlib import Path

import markupsafe
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.render.signs import GLYPHS
from cse_train.reading import plain_text

ROOT = Path(__file__).parents[2]
"""Templates are named from here: `analysis/report/page.html`."""


def fill(template: str, **values: object) -> markupsafe.Markup:
    """A template with these values, as markup that other templates take over as it is."""
    return markupsafe.Markup(environment().get_template(template).render(**values))


def own(file: str) -> markupsafe.Markup:
    """A style or script of ours, which is no text to escape; named like a template."""
    return markupsafe.Markup((ROOT / file).read_text(encoding="utf8"))


@functools.cache
def environment() -> Environment:
    """Of all templates: what a template misspells is an error."""
    made = Environment(
        loader=FileSystemLoader(ROOT),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    made.globals |= {"own": own, "glyphs": GLYPHS}
    return made


def _visible(value: object) -> object:
    """A text with a blank for what is no visible character; lines stay lines, and markup is ours already."""
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return "\n".join(map(plain_text, value.split("\n")))
    return value
