"""A recorded grid: dev curves of every run of a space that is a grid, out of a ledger into one small file.

Train it first, in as many sittings as it takes; each run is kept:

    cse run recorded_grid --data ../shared/data --ledger GRID.db --storage GRID --yes
    python -m benchmarks.search.record_grid recorded_grid --ledger GRID.db

A grid that is not complete yet is written too, and says so.
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger, LedgerError, RunRow
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve

CURVES = Path(__file__).parents[1] / "curves"
PROTOCOL = ("train.encoder", "train.corpus", "train.dev", "train.max_seq_length", "train.batch_size", "train.examples")

Json = dict[str, Any]


def recorded(resolved: ResolvedSpace, ledger: Ledger) -> Json:
    """Protocol, axes and finished runs of the space's sweep; raises LedgerError when there are none."""
    name = resolved.space.id
    rows = [row for row in ledger.runs(sweep=name) if row.state == "done"]
    if not rows:
        raise LedgerError(f"no finished run: sweep={name} ledger={ledger.url}; make them by cse run {name}")
    curves = ledger.curves(row.signature for row in rows)
    axes = list(resolved.axes)
    runs = [_run(row, axes, curves[row.signature], resolved.space.settings["train.dev"]) for row in rows]
    wanted = len(resolved.cells()) * len(resolved.space.seeds)
    commits = {ledger.provenance([row.signature])[row.signature][-1].details.get("commit") for row in rows}
    return {
        "space": name,
        "method": resolved.space.method,
        "metric": "Spearman x 100 on the dev set, at every evaluation",
        "protocol": {key: rows[0].config[key] for key in PROTOCOL},
        "commits": sorted(commit for commit in commits if commit),
        "axes": {name: list(domain.values()) for name, domain in resolved.axes.items()},
        "seeds": list(resolved.space.seeds),
        "runs_wanted": wanted,
        "complete": len(runs) == wanted,
        "runs": sorted(runs, key=lambda run: (run["cell"], run["seed"])),
    }


def _run(row: RunRow, axes: Sequence[str], points: Iterable[Json], dev: object) -> Json:
    """Returns a run's record: its cell as values in the order of the axes, and dev scores against examples."""
    points = list(points)
    return {
        "cell": [row.config[axis] for axis in axes],
        "seed": row.seed,
        "signature": row.signature,
        "seconds": round(row.seconds or 0.0, 2),
        "examples": [point.examples for point in points],
        "scores": [round(point.metrics[dev], 3) for point in points],
    }


def write(grid: Json, file: Path) -> None:
    """Gzipped JSON, equal bytes for equal content."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(grid, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def file_of(space: str) -> Path:
    """Returns the path of a space's recording."""
    return CURVES / f"{space}.json.gz"


def read(file: Path) -> Json:
    """Reads a recording that `write` wrote; OSError where there is no such file."""
    return json.loads(gzip.decompress(file.read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space", help="ID of the grid's space")
    parser.add_argument("--ledger", required=True, help="the ledger that the sweep was run with")
    parser.add_argument("--to", type=Path, help="instead of benchmarks/curves/SPACE.json.gz")
    given = parser.parse_args()
    to = given.to or file_of(given.space)
    try:
        grid = recorded(resolve(load_space(given.space)), Ledger.open(given.ledger, create=False))
    except LedgerError as error:
        raise SystemExit(str(error)) from None
    write(grid, to)
    state = "complete" if grid["complete"] else "PARTIAL"
    print(f"{state}: {len(grid['runs'])} of {grid['runs_wanted']} runs, {to.stat().st_size} bytes in {to}")


if __name__ == "__main__":
    main()
