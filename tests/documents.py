"""What a command writes for programs and for browsers: JSON, checked by its schema, and the elements of a page."""

import json
from html.parser import HTMLParser
from typing import Any

import jsonschema

from cse.cli.extend.schema import schema_of


def validated(verb: str, text: str) -> Any:
    """The document, which is of the verb's schema."""
    schema, document = schema_of(verb), json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


class Reader(HTMLParser):
    """What a page has: elements with their attributes, its text, and which tags were not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.broken: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "link", "input", "br", "img"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """Attributes of the elements of a tag whose attributes hold these words."""
        fits = [attributes for name, attributes in self.elements if name == tag]
        return [a for a in fits if all(word in a.get(key, "").split() for key, word in wanted.items())]
