"""Scores for spreadsheets and data frames: one line for each sweep, run and suite, in full digits."""

import csv
from pathlib import Path

from analysis.bundles.contents import Contents
from analysis.ledger import schema

SUFFIX = ".csv"
COLUMNS = ("sweep", "cell", "seed", "signature", "method", "state", "suite", "value", "protocol_hash")
BEST = "best"
"""The suite of a line with the best dev score on the learning curve."""


def write(path: Path, contents: Contents) -> None:
    """One line for each (sweep, cell, seed, suite); a cell is JSON; a run of no sweep has neither."""
    runs = {run["signature"]: run for run in contents.runs}
    linked = [(sweep["id"], cell["signature"], cell["cell"]) for sweep in contents.sweeps for cell in sweep["cells"]]
    alone = runs.keys() - {signature for _, signature, _ in linked}
    rows = [(sweep, schema.dumps(cell), runs[name]) for sweep, name, cell in linked if name in runs]
    rows += [("", "", runs[name]) for name in alone]
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for sweep, cell, run in sorted(rows, key=lambda row: (row[0], row[1], row[2]["seed"], row[2]["signature"])):
            about = [sweep, cell, run["seed"], run["signature"], run["method"], run["state"]]
            writer.writerow([*about, BEST, run["best"], ""])
            writer.writerows([*about, s["suite"], s["value"], s["protocol_hash"]] for s in run["scores"])
