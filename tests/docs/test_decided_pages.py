"""docs/results/tiny.md and small.md: each line of their first table, and the sums below it, are those of the JSON."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
WORDS = ("same direction", "opposite direction", "tie", "undecided", "no signal")


def counted(words: Counter[str]) -> str:
    shown = {"opposite direction": "opposite", "no signal": "without signal"}
    parts = [f"{words[word]} {shown.get(word, word)}" for word in WORDS if words[word]]
    return ", ".join(f"{part}s" if part.endswith(" tie") and part != "1 tie" else part for part in parts)


def line(scale: str, table: dict[str, Any]) -> list[str]:
    """The cells of a table's line, without its title."""
    cost, (order,) = table["cost"], table["ordering"]
    said = order["word"].removeprefix("ordering ")
    if order["interval"] is not None:
        low, high = order["interval"]
        said += f", tau {order['tau']:.2f} [{low:.2f}, {high:.2f}]"
    words = Counter(verdict["word"] for verdict in table["verdicts"])
    link = f"[{table['id']}]({scale}/{table['id']}.md)"
    return [link, str(cost["runs"]), f"{cost['seconds']:,.0f}", counted(words), said, f"{order['agreement']['w']:.2f}"]


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_the_tables_of_decided_pages_are_those_of_their_json(scale: str) -> None:
    page = (RESULTS / f"{scale}.md").read_text(encoding="utf8")
    cells = [row.strip("| ").split(" | ") for row in page.splitlines() if row.startswith("| [")]
    ids = [re.findall(r"\w+", first)[0] for first, *_ in cells]
    tables = {path.stem: json.loads(path.read_text(encoding="utf8")) for path in (RESULTS / scale).glob("*.json")}
    assert sorted(ids) == sorted(tables)
    for id, (first, *rest) in zip(ids, cells, strict=True):
        assert [first.partition(" ")[0], *rest] == line(scale, tables[id])
    words = Counter(verdict["word"] for table in tables.values() for verdict in table["verdicts"])
    compared = sum(words[word] for word in WORDS)
    with gzip.open(RESULTS / "bundles" / f"{scale}.jsonl.gz", "rt", encoding="utf8") as stream:
        records = [json.loads(record) for record in stream]
    trained = [record for record in records if "config" in record]
    runs = len(trained)  # tables share some
    seconds = sum(attempt["seconds"] for run in trained for attempt in run["attempts"])
    decided = compared - words["undecided"] - words["no signal"]
    said = f"{decided} of {compared} compared values are decided by {runs} runs in {seconds:,.0f} s"
    assert said in " ".join(page.split())
    assert f"one in {seconds / 60 / decided:.1f} CPU-minutes" in page
