"""Which scale tells most for its cost: what rows do to a score over what is left, per CPU-second.

    cse reproduce E7 E8 S3 D7 D8 --profile small --seeds 3 --set train.encoder=wiki-l2-h128 --set train.examples=2560
    cse bundle SWEEP... --to scales.jsonl.gz
    python -m benchmarks.scales docs/results/bundles/*.jsonl.gz [--to docs/results]

Each sweep of one of TABLES is one table at one scale. score = row + seed + residual: signal to
noise is the variance of rows over that of the residual. Writes scales.json and scales.md.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from analysis.bundles.reader import Bundle
from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import Source
from analysis.statistics.contrasts import contrasts
from benchmarks.scales.seconds import Seconds, name_of, stored
from cse.tables import baselines
from search_spaces.catalog import find_space
from search_spaces.parse import parse_file

ABOUT = (
    "score = row + seed + residual, over the seeds that all rows have. "
    "Signal to noise is the variance of rows over that of the residual, with its 95% interval; "
    "`decided` are the rows that those seeds tell from the row of reference, without ties, and without tables of which "
    "half the runs never beat their first evaluation or their encoder without training. "
    "Seconds are CPU seconds of one thread for the default row, dev evaluations included, all measured in one sitting."
)
TABLES = ("E7", "E8", "S3", "D7", "D8")
"""Those that were run at several scales; a bundle may hold others, and parts of others."""
Record = Mapping[str, Any]
LEVEL = 0.05
"""Of a table: its rows share it."""


@dataclass(frozen=True)
class Told:
    """One table at one scale."""

    table: str
    encoder: str
    examples: int
    rows: int
    seeds: int
    lowest: float
    """Mean of the lowest row."""
    highest: float
    row_sd: float
    residual_sd: float
    ratio: float
    """Variance of rows over variance of the residual."""
    interval: tuple[float, float]
    """95% of `ratio`."""
    decided: int
    """Rows that are told from the row of reference."""
    seconds: float
    """CPU seconds of a run of the default row."""

    @property
    def scale(self) -> tuple[str, int]:
        return self.encoder, self.examples

    @property
    def worth(self) -> float:
        """Signal to noise per CPU-second."""
        return self.ratio / self.seconds


def told(table: str, scores_RS: np.ndarray, reference: int, encoder: str, examples: int, seconds: float) -> Told:
    """What scores [rows, seeds] tell; by the two-way analysis of variance."""
    rows, seeds = scores_RS.shape
    residual_RS = scores_RS - scores_RS.mean(axis=0) - scores_RS.mean(axis=1, keepdims=True) + scores_RS.mean()
    freedom = (rows - 1) * (seeds - 1)
    residual = float(np.square(residual_RS).sum()) / freedom
    f = seeds * float(scores_RS.mean(axis=1).var(ddof=1)) / residual
    low, high = (f / scipy.stats.f.ppf(share, rows - 1, freedom) for share in (0.975, 0.025))
    ratio, below, above = (max(0.0, (quotient - 1) / seeds) for quotient in (f, low, high))
    against = contrasts(scores_RS[None], reference)
    decided = np.abs(against.difference) > against.half(LEVEL / (rows - 1))
    means = scores_RS.mean(axis=1)
    return Told(
        *(table, encoder, examples, rows, seeds, float(means.min()), float(means.max())),
        *((ratio * residual) ** 0.5, residual**0.5, ratio, (below, above), int(decided.sum()), seconds),
    )


def records_of(files: Iterable[Path]) -> tuple[list[Record], dict[str, Record]]:
    """The bundles' sweeps of TABLES, and all runs by signature."""
    runs: dict[str, Record] = {}
    sweeps: list[Record] = []
    for file in files:
        for record in Bundle(file).records():
            if record["kind"] == "run":
                runs[record["signature"]] = record
            elif record["kind"] == "sweep" and record["spec"]["space"] in TABLES:
                sweeps.append(record)
    return sweeps, runs


def read(files: Iterable[Path], seconds: Seconds) -> list[Told]:
    """Every sweep of the bundles that has all rows on all seeds."""
    files = list(files)
    sweeps, runs = records_of(files)
    idle = idle_of(files)
    papers = [parse_file(find_space(str(sweep["spec"]["space"]))).paper for sweep in sweeps]
    tables = [
        of_sweep(sweep, paper.default, runs, seconds, idle)
        for sweep, paper in zip(sweeps, papers, strict=True)
        if paper and paper.default
    ]
    return sorted(tables, key=lambda table: (*table.scale, table.table))


def idle_of(files: Iterable[Path]) -> frozenset[str]:
    """Signatures of the bundles' runs in whose score nothing that was trained shows (docs/verdicts.md)."""
    with tempfile.TemporaryDirectory() as work, contextlib.closing(Ledger.open(Path(work) / "ledger.db")) as ledger:
        for file in files:
            bundle = Bundle(file)
            ledger.merge(bundle.records(), Source(file.name, bundle.header.sha256))
        return baselines.idle(ledger.runs(), ledger).signatures


def of_sweep(
    sweep: Record, default: Mapping[str, Any], runs: Mapping[str, Record], seconds: Seconds, idle: Set[str]
) -> Told:
    """One table at one scale."""
    cells: dict[str, dict[int, Record]] = {}
    for cell in sweep["cells"]:
        if cell["signature"] in runs:
            cells.setdefault(cell["cell_hash"], {})[cell["seed"]] = runs[cell["signature"]]
    rows = list(cells.values())
    seeds = sorted(set.intersection(*(set(row) for row in rows)))
    configs = [row[seeds[0]]["config"] for row in rows]
    table = str(sweep["spec"]["space"])
    reference = next(i for i, config in enumerate(configs) if all(config[key] == default[key] for key in default))
    scores_RS = np.array([[row[seed]["best"] for seed in seeds] for row in rows])
    encoder, examples = (configs[0][f"train.{key}"] for key in ("encoder", "examples"))
    name = name_of(table, encoder, examples)
    if name not in seconds:
        raise SystemExit(f"no seconds of a run: {name}")
    measured = told(table, scores_RS, reference, encoder, examples, seconds[name])
    signatures = [row[seed]["signature"] for row in rows for seed in seeds]
    flat = 2 * len(idle.intersection(signatures)) >= len(signatures)
    return replace(measured, decided=0) if flat else measured


def _line(table: Told) -> str:
    ends = ", ".join(f"{end:.2f}" for end in table.interval)
    cells = (
        table.encoder,
        f"{table.examples:,}",
        table.table,
        f"{table.rows} x {table.seeds}",
        f"{table.lowest:.1f} to {table.highest:.1f}",
        f"{table.row_sd:.2f}",
        f"{table.residual_sd:.2f}",
        f"{table.ratio:.2f} [{ends}]",
        f"{table.seconds:.0f}",
        f"{1000 * table.worth:.1f}",
        f"{table.decided} of {table.rows - 1}",
    )
    return f"| {' | '.join(cells)} |"


def markdown(measured: Sequence[Told]) -> str:
    """A line for every table and scale, and one for every scale."""
    lines = [
        "| encoder | examples | table | rows x seeds | means | rows' sd | residual sd | signal to noise | seconds a run"
        " | per 1,000 CPU-seconds | decided |",
        "|---|--:|---|--:|---|--:|--:|---|--:|--:|--:|",
    ]
    lines += [_line(table) for table in measured]
    scales = sorted({table.scale for table in measured})
    everywhere = set.intersection(*({table.table for table in measured if table.scale == scale} for scale in scales))
    lines += [
        "",
        f"Of {', '.join(sorted(everywhere))}, which every scale has:",
        "",
        "| encoder | examples | tables | signal to noise, median | per 1,000 CPU-seconds, median | decided"
        " | CPU-hours | decided per CPU-hour |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for scale in scales:
        ours = [table for table in measured if table.scale == scale and table.table in everywhere]
        hours = sum(table.seconds * table.rows * table.seeds for table in ours) / 3600
        decided = sum(table.decided for table in ours)
        lines.append(
            f"| {scale[0]} | {scale[1]:,} | {len(ours)} | {statistics.median(table.ratio for table in ours):.2f} "
            f"| {statistics.median(1000 * table.worth for table in ours):.1f} "
            f"| {decided} of {sum(table.rows - 1 for table in ours)} | {hours:.2f} | {decided / hours:.1f} |"
        )
    return "\n".join(
        [
            "# What each scale tells for its cost",
            "",
            "    python -m benchmarks.scales docs/results/bundles/*.jsonl.gz",
            "",
            ABOUT,
            "",
            *lines,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    measured = read(given.bundles, stored(given.to))
    given.to.mkdir(parents=True, exist_ok=True)
    (given.to / "scales.json").write_text(json.dumps([asdict(table) for table in measured], indent=1) + "\n")
    (given.to / "scales.md").write_text(markdown(measured))
    print(markdown(measured))


if __name__ == "__main__":
    main()
