"""The code blocks of README and docs/, fenced and indented, and the commands in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parents[2]
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```|(?:(?<=\n\n)|\A)((?:    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
SHELL = ("", "console", "bash")
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?((?:cse|cp|head|make|python|ray) .*?)(?:\s{2,}#.*)?$", re.MULTILINE)


class Block(NamedTuple):
    """A code block of a page."""

    page: str
    language: str
    """As after the fence; empty for an indented block."""
    text: str
    before: str
    """The page's text above it."""


def blocks(*languages: str) -> Iterator[Block]:
    """The blocks in these languages, page by page."""
    for page in PAGES:
        text = page.read_text(encoding="utf8")
        for match in BLOCK.finditer(text):
            block = re.sub("^    ", "", match[3], flags=re.MULTILINE) if match[2] is None else match[2]
            if (match[1] or "") in languages:
                name = page.relative_to(REPO).as_posix()
                yield Block(name, match[1] or "", block, text[: match.start()])


def commands() -> dict[str, set[str]]:
    """Command line -> the pages that show it. In a block with `$ ` the other lines are output."""
    pages: dict[str, set[str]] = {}
    for block in blocks(*SHELL):
        prompted = any(line.startswith("$ ") for line in block.text.splitlines())
        for match in COMMAND.finditer(block.text):
            if match[0].startswith("$ ") or not prompted:
                pages.setdefault(match[1], set()).add(block.page)
    return pages
