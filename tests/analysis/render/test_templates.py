"""HTML stands in templates, whose every value is escaped; none in Python, and no template reaches past its room."""

import ast
import re
from collections.abc import Iterator, Mapping

import markupsafe
import pytest
from jinja2 import UndefinedError

from analysis.render import templates
from tests.test_architecture import PACKAGES, REPO, allowed, room_of

TAG = re.compile(r"(?<!\?P)</?[a-z][a-z0-9]*(?:\s[a-z-]+=|>)")
EXEMPT = {
    "analysis.render.formats.html": "bold, underlined and small parts of an entry, as every format has them",
    "cse_train.encoder.identity": "special words of a tokenizer",
}
REACHES = re.compile(r"""\{%-?\s*(?:extends|from|import|include)\s+["']([^"']+)["']""")


def with_html(texts: Mapping[str, str]) -> list[str]:
    """The modules that hold HTML, or escape a text on their own, a line each."""
    return [f"{name}: {text}" for name, module in texts.items() for text in _html(name, module)]


def _html(name: str, module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
            yield from ["imports html, where a template escapes"] * ("html" in names)
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and name not in EXEMPT
        if is_text and TAG.search(node.value):
            yield f"HTML in Python: {node.value!r}"


def modules() -> dict[str, str]:
    paths = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]
    return {".".join(path.relative_to(REPO).with_suffix("").parts): path.read_text(encoding="utf8") for path in paths}


def test_no_module_holds_html() -> None:
    assert with_html(modules()) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = f'<li>{name}</li>'\n", "cse.site.wall: HTML in Python: '<li>'"),
        ("x = '<td class=\"good\">'\n", "cse.site.wall: HTML in Python: '<td class=\"good\">'"),
        ("from html import escape\n", "cse.site.wall: imports html, where a template escapes"),
        ("import html\n", "cse.site.wall: imports html, where a template escapes"),
    ],
)
def test_planted_html_is_refused_by_name(text: str, line: str) -> None:
    assert line in with_html({"cse.site.wall": text})


def reaches(name: str, text: str) -> list[str]:
    """The templates that one takes from rooms into which its own room has no door."""
    room = room_of(_module(name))
    return [f"{name}: room {room} must not take {other}" for other in REACHES.findall(text) if not _open(room, other)]


def _module(template: str) -> str:
    return ".".join(template.split("/")[:-1])


def _open(room: str | None, other: str) -> bool:
    return room is not None and allowed(room, _module(other))


def test_templates_take_templates_as_their_rooms_import_modules() -> None:
    names = sorted(
        path.relative_to(REPO).as_posix() for package in PACKAGES for path in (REPO / package).rglob("*.html")
    )
    assert names
    for name in names:
        assert reaches(name, (templates.ROOT / name).read_text(encoding="utf8")) == []
    planted = '{% from "cse/site/grid.html" import sign %}'
    assert reaches("analysis/report/page.html", planted) == [
        "analysis/report/page.html: room analysis.report must not take cse/site/grid.html"
    ]


def test_every_value_is_escaped_and_control_characters_are_blanks() -> None:
    shown = (
        templates.environment()
        .from_string('<a title="{{ text }}">{{ text }}</a>{{ ours }}')
        .render(text="<b>\x1b]0;owned\x07\n\"'&\ud800", ours=markupsafe.Markup("<i>"))
    )
    text = "&lt;b&gt; ]0;owned \n&#34;&#39;&amp; "
    assert shown == f'<a title="{text}">{text}</a><i>'


def test_a_value_that_a_template_misspells_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="titel"):
        templates.environment().from_string("{{ titel }}").render(title="x")
