"""Every key of a space file: type, default and range by the JSON Schema, meaning by the docstring below each field."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_train import methods
from cse_train.config import TrainConfig
from search_spaces.schema import schema
from search_spaces.space import SearchConfig

HEAD = """\
# Every key of a space file

Made from the schema that editors read (`python -m search_spaces.schema`) and from the code that reads the files.
[How to write a space](../spaces.md) has the examples.
"""
SPACES = Path(__file__).resolve().parents[1] / "spaces.md"
SHAPES = {
    "FileShape": "a [file of your own](#files-of-your-own)",
    "ExplicitCell": "`{label: NAME, set: {KEY: VALUE}}`",
    "PublishedRow": "[rows](#paperrows)",
    "Reference": "[references](#paperreferences)",
    "Average": "`{column: NAME, of: [NAMES], decimals: N}`",
    "Evaluated": "`{encoder: NAME, pooler: NAME}` or `{vectors: NAME}`",
    "method": "the name of a method",
}
"""Definition of the schema -> what it looks like."""
WORDS = {"object": "mapping", "array": "list", "boolean": "true or false", "null": "null", "string": "text"}
BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def page() -> str:
    """The page, in Markdown."""
    whole = schema()
    properties, definitions = whole["properties"], whole["$defs"]
    parts = [
        HEAD,
        _section("Top level", properties, whole["required"], _of_the_page("Top level")),
        _section("Files of your own", definitions["FileShape"]["properties"], ["file"], {},
                 "What a mapping under `corpus`, `dev` or `evaluate` holds ([formats](../your_data.md#formats))."),
        _section("search", properties["search"]["properties"], [], _docs(SearchConfig)),
        _section("paper", properties["paper"]["properties"], properties["paper"]["required"],
                 _of_the_page("The published table")),
        _section("paper.rows", definitions["PublishedRow"]["properties"], definitions["PublishedRow"]["required"], {}),
        _section("paper.references", definitions["Reference"]["properties"], definitions["Reference"]["required"], {}),
        _section("train", _dotted(definitions, "train."), [], _prefixed("train.", TrainConfig)),
    ]  # fmt: skip
    for method in sorted(methods.list_methods()):
        config = methods.config_class(method)
        keys = _dotted(schema([method])["$defs"], "method.")
        parts.append(_section(f"method: {method}", keys, [], _prefixed("method.", config)))
    return "\n".join(parts)


def _dotted(definitions: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key: value for key, value in definitions.items() if key.startswith(prefix)}


def _prefixed(prefix: str, config: type) -> dict[str, str]:
    return {prefix + name: text for name, text in _docs(config).items()}


def _section(title: str, keys: Mapping[str, Any], required: list[str], docs: Mapping[str, str], intro: str = "") -> str:
    lines = [f"## {title}", "", *([intro, ""] if intro else [])]
    for key, shape in keys.items():
        facts = [*_types(shape), *("required" for _ in range(key in required))]
        if shape.get("default", "") not in ("", []):
            facts.append(f"default `{json.dumps(shape['default'], ensure_ascii=False)}`")
        about = docs.get(key) or re.sub("^give ", "Give ", shape.get("description", ""))
        lines += [f"`{key}`", f":   {'; '.join(facts)}", *(["", f"    {about}"] if about else []), ""]
    return "\n".join(lines)


def _types(shape: Mapping[str, Any]) -> Iterator[str]:
    """What values a key takes, in words; several where it takes several."""
    if "$ref" in shape:
        yield SHAPES.get(shape["$ref"].rpartition("/")[2], "mapping")
    elif "anyOf" in shape:
        yield " or ".join(dict.fromkeys(text for part in shape["anyOf"] for text in _types(part)))
    elif "enum" in shape:
        yield " | ".join(f"`{value}`" for value in shape["enum"])
    elif "const" in shape:
        yield f"`{shape['const']}`"
    else:
        name = shape.get("type", "any value")
        words = " or ".join(WORDS.get(part, part) for part in ([name] if isinstance(name, str) else name))
        bounds = ", ".join(f"{word} {shape[bound]}" for bound, word in BOUNDS.items() if bound in shape)
        yield f"{words} {bounds}".strip()


def _of_the_page(heading: str) -> dict[str, str]:
    """Key -> what a table of docs/spaces.md says of it, with the example."""
    section = SPACES.read_text(encoding="utf8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    said = {}
    for keys, meaning, example in re.findall(r"^\| (`.*?) \| (.+?) \| (.+) \|$", section, re.MULTILINE):
        text = re.sub(r"\]\((#?)", lambda link: "](../" + ("spaces.md#" if link[1] else ""), meaning)
        such = f"Such as {example}" if example.startswith("`") else ""
        said |= {key: f"{text[:1].upper()}{text[1:]}. {such}".strip() for key in re.findall("`([^`]+)`", keys)}
    return said


def _docs(config: type) -> dict[str, str]:
    """Field -> the string that stands below it in the class, as one paragraph."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }  # fmt: skip
