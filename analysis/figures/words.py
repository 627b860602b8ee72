"""Texts of figures: names of metrics, short names of cells, and line wrapping."""

import re
import textwrap
from collections.abc import Sequence

SETS = {
    "sts_dev": "STS-B dev",
    "sts_test": "STS-B test",
    "generated_dev": "generated dev set",
    "sickr": "SICK-R",
    "sts": "mean of seven STS test sets",
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
}
"""Column -> name of its set, for sets whose scores are Spearman's correlations x 100."""
SPEARMAN = "Spearman x 100"
FRACTION = re.compile(r"(?<==)-?\d*\.\d+(?:e-?\d+)?(?!\S)")
"""Pattern of a number with a decimal point that is the value of an axis."""


def literal(text: str) -> str:
    """Returns a text in which no dollar sign begins a formula."""
    return text.replace("$", r"\$")


def wrap_words(text: str, width: int) -> str:
    """Returns a text wrapped at whole words, with no dollar sign that begins a formula; `x 100` is one word."""
    text = text.replace(" x 100", "\u00a0x\u00a0100")
    return literal("\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)))


def metric_name(column: str, metric: str = "") -> str:
    """Returns the name of a column's numbers with their unit: `STS-B dev, Spearman x 100`.

    `metric` is a table's text on all columns, in parts with semicolons; a part `COLUMN is ...` is for that column
    alone.
    """
    name, parts = SETS.get(column, column), metric.split("; ")
    alone = [part.removeprefix(f"{column} is ") for part in parts if part.startswith(f"{column} is ")]
    unit = (alone or parts)[0] or (SPEARMAN if column in SETS else "")
    return unit if unit.startswith(name) else ", ".join(part for part in (name, unit) if part)


def brief(label: str) -> str:
    """Returns a label of `axis=value` words with its numbers in four digits; 0.99999 does not become 1."""

    def rounded(match: re.Match[str]) -> str:
        short = f"{float(match[0]):.4g}"
        return match[0] if float(short).is_integer() else short

    return FRACTION.sub(rounded, label)


def distinct(labels: Sequence[str]) -> list[str]:
    """Returns labels of `axis=value` words without the words that all of them share, numbers in four digits."""
    words = [brief(label).split(" ") for label in labels]
    shared = set.intersection(*map(set, words)) if len(words) > 1 else set()
    return [" ".join(word for word in label if word not in shared) or "all" for label in words]
