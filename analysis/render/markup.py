"""How each text format writes a number, an emphasis and a foreign word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Markup:
    """How one text format writes the parts of a number and of a word."""

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
    escape=lambda text: text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " "),
    minus="-",
    delta="Δ",
    none="",
)


def aligned(header: list[str], body: list[list[str]], texts: int) -> str:
    """A Markdown table with columns of equal width: the first `texts` to the left, numbers to the right."""
    widths = [max(3, *(len(line[index]) for line in [header, *body])) for index in range(len(header))]
    rule = ["-" * width if index < texts else "-" * (width - 1) + ":" for index, width in enumerate(widths)]

    def line(entries: Sequence[str]) -> str:
        padded = (
            entry.ljust(width) if index < texts else entry.rjust(width)
            for index, (entry, width) in enumerate(zip(entries, widths, strict=True))
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join(line(entries) for entries in [header, rule, *body])
