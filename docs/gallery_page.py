"""docs/results/gallery.md from the bundles in docs/results: `python -m docs.gallery_page` writes it."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.render.markup import align_table
from cse.cli.app import main as cse
from docs.methods_page import folder
from search_spaces.catalog import catalog

HEAD = """\
# Which findings of the papers hold?

    cse site docs/results/bundles/*.jsonl.gz --to site

{sentence}

Not the papers' scale: every run is on a small encoder, and directions are compared with the paper's, values are not.
[What a verdict means](../verdicts.md); [why a number is not compared at all](../coverage.md). The verdicts of a table
are those of its first scale, which decides most of its values, of two the larger. Values are without signal
where nothing that was trained shows in them. The [site](../site.md) of the same bundles has every value with its seeds,
curves and command. Made by `python -m docs.gallery_page`.
"""
SHORT = {"same direction": "same", "opposite direction": "opposite"}
NOT_COUNTED = ("not run", "reference")
SECONDS = 3600


def text() -> str:
    """The published file's content."""
    site = _site()
    tables = [table for table in site["tables"] if table["citation"]]
    words = [word for word in site["verdicts"] if word not in NOT_COUNTED]
    head = ["table", "of", "scale", *(SHORT.get(word, word) for word in words), "seeds", "runs", "hours"]
    lines = [line for table in tables for line in _lines(table, words)]
    return HEAD.format(sentence=site["sentence"]) + "\n" + align_table(head, lines, 3) + "\n" + _sums(tables)


def _site() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as work:
        bundles = sorted((folder() / "results" / "bundles").glob("*.jsonl.gz"))
        if cse(["site", *map(str, bundles), "--to", work]) != 0:
            raise SystemExit("no site could be made of the bundles")
        site: dict[str, Any] = json.loads((Path(work) / "site.json").read_text(encoding="utf8"))
        return site


def _lines(table: Mapping[str, Any], words: Sequence[str]) -> list[list[str]]:
    """A line for each scale; verdicts stand beside the one that the wall shows."""
    file = catalog()[table["id"]].relative_to(folder().parent)
    verdicts = [_count(table["verdicts"].get(word, 0)) for word in words]
    first, rest = [f"[{table['id']}](../../{file.as_posix()})", table["title"]], ["" for _ in words]
    if not table["scales"]:
        return [[*first, table["state"], *verdicts, "", "", ""]]
    lines = [
        [str(scale["seeds"]), f"{scale['runs']:,}", f"{scale['seconds'] / SECONDS:.2f}"] for scale in table["scales"]
    ]
    names = [scale["title"] for scale in table["scales"]]
    more = (["", "", name, *rest, *line] for name, line in zip(names[1:], lines[1:], strict=True))
    return [[*first, names[0], *verdicts, *lines[0]], *more]


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _sums(tables: Sequence[Mapping[str, Any]]) -> str:
    """What all lines come to; a run that several tables share counts in each."""
    scales = [scale for table in tables for scale in table["scales"]]
    runs, hours = sum(scale["runs"] for scale in scales), sum(scale["seconds"] for scale in scales) / SECONDS
    lines = [f"{runs:,} runs in {hours:.1f} CPU-hours."]
    without: dict[str, list[str]] = {}
    for table in tables:
        if not table["scales"]:
            without.setdefault(table["state"], []).append(table["id"])
    lines += [f"{state.capitalize()}: {', '.join(ids)}." for state, ids in without.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (folder() / "results" / "gallery.md").write_text(text(), encoding="utf8")
