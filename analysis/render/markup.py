"""Markup of text formats for numbers, emphasis and foreign words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cse_train.reading import plain_text


def escape_markdown(text: str) -> str:
    """Returns a foreign text in which Markdown finds no table, no link and no HTML."""
    text = plain_text(text).replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("<", "&lt;").replace("](", "]\\(")


def shorten(text: str, length: int = 48) -> str:
    """Returns a text cut to `length` characters, for figures; the middle of a longer one is left out."""
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-(length // 2 - 1) :]}"


@dataclass(frozen=True)
class Markup:
    """Functions and signs with which one text format writes numbers and words."""

    bold: Callable[[str], str]
    underline: Callable[[str], str]
    spread: Callable[[str], str]
    escape: Callable[[str], str]
    minus: str
    delta: str
    none: str


MARKDOWN = Markup(
    bold=lambda text: f"**{text}**",
    underline=str,
    spread=lambda text: f" ± {text}",
    escape=escape_markdown,
    minus="-",
    delta="Δ",
    none="",
)


def align_table(header: list[str], body: list[list[str]], texts: int) -> str:
    """Returns a Markdown table with columns of equal width: the first `texts` to the left, numbers to the right."""
    aligns_right = [index >= texts for index in range(len(header))]
    head, *lines = pad_columns([header, *body], aligns_right, least=3)
    rule = ["-" * (len(entry) - 1) + (":" if r else "-") for entry, r in zip(head, aligns_right, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def pad_columns(lines: Sequence[Sequence[str]], right: Sequence[bool], least: int = 0) -> list[list[str]]:
    """Returns entries padded to the width of their column, at least `least`; to the right where `right` is True."""
    columns = zip(*lines, strict=True)
    widths = [max(least, *map(len, column)) for column in columns]
    return [
        [entry.rjust(width) if r else entry.ljust(width) for entry, width, r in zip(line, widths, right, strict=True)]
        for line in lines
    ]
