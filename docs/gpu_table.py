"""What `make gpu` measured of the step, in docs/performance.md: `python -m docs.gpu_table results/gpu/gpu.json`.

The JSON is taken as it is. Its table stands between two comments of the page and replaces the one of before.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.methods_page import folder

BEGIN, END = "<!-- gpu.json: begin -->", "<!-- gpu.json: end -->"
HEAD = ["| model | batch | step | ms | times ours | launches |", "|---|--:|---|--:|--:|--:|"]


def read(file: Path) -> Mapping[str, Any]:
    """A record of `make gpu`. SystemExit in one line for another file, a quick one, and one without the step."""
    try:
        record = json.loads(file.read_text(encoding="utf8"))
        quick, card = record["quick"], record["machine"]["card"]
        items = record["parts"]["step"]["items"].values()
        measured = [item["figures"] for item in items if item["figures"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{file}: no gpu.json of `make gpu` with its part step ({error!r})") from error
    if quick or not card or not measured:
        raise SystemExit(f"{file}: no figure of a card; run `make gpu` on one, without --quick")
    return {"machine": record["machine"], "items": measured}


def table(record: Mapping[str, Any]) -> list[str]:
    """The machine, a row of each contender at each size and batch, and the shares of the card's peak."""
    machine = record["machine"]
    lines = [f"On {machine['card']}, {machine['cores']} cores, torch {machine['torch']}:", "", *HEAD]
    lines += [row for item in record["items"] for row in _rows(item)]
    shares = [
        f"{item['share_of_peak']:.0%} of the card's peak at {item['size']}, batch {item['batch']}"
        for item in record["items"]
        if item["share_of_peak"] is not None
    ]
    return [*lines, "", f"With every sentence of 32 tokens the step reaches {'; '.join(shares)}."] if shares else lines


def _rows(item: Mapping[str, Any]) -> Sequence[str]:
    def row(step: Mapping[str, Any]) -> str:
        ratio = "{median:.2f} [{low:.2f}, {high:.2f}]".format(**step["ratio"])
        cells = (item["size"], item["batch"], step["step"], f"{step['ms']:.2f}", ratio, f"{step['launches']:.0f}")
        return f"| {' | '.join(map(str, cells))} |"

    return [row(step) for step in item["steps"]]


def take_up(page: str, record: Mapping[str, Any]) -> str:
    """The page with the table between its comments."""
    block = "\n".join([BEGIN, "", *table(record), "", END])
    fresh, count = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"docs/performance.md: it must have {BEGIN} and {END} once")
    return fresh


if __name__ == "__main__":
    file = folder() / "performance.md"
    file.write_text(take_up(file.read_text(encoding="utf8"), read(Path(sys.argv[1]))), encoding="utf8")
