"""Collects the contents of a bundle, ledger records of some sweeps with ranks of their sentence pairs, and writes them.

Equal rows give equal bytes.
"""

import gzip
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.bundles import BUNDLE_FORMAT, BUNDLE_VERSION, BundleError
from analysis.ledger import Ledger, schema
from analysis.ledger.exchange import records
from analysis.ledger.exchange.columns import Record, problem
from analysis.ledger.rows import ScoreRow
from analysis.tables.pair_cosines import read_cosines
from analysis.tables.spec import TableError
from cse_train.files import replace_file

SUFFIX = ".jsonl.gz"


@dataclass(frozen=True)
class Contents:
    """Contents of a bundle: records by kind, in their order in the file."""

    runs: list[Record]
    sweeps: list[Record]
    baselines: list[Record]
    untrained: list[Record]
    pairs: list[Record]
    unended: int = 0
    """Number of runs left out because they are not started or still train."""
    without_pairs: int = 0
    """Number of scores whose file of cosines is absent."""

    @property
    def records(self) -> list[Record]:
        """Returns all records in the order of the file."""
        return [*self.runs, *self.sweeps, *self.baselines, *self.untrained, *self.pairs]


def gather(ledger: Ledger, sweeps: Collection[str] | None = None, *, with_pairs: bool = True) -> Contents:
    """Returns the records of the named sweeps; for None, everything in the ledger, also runs that belong to no sweep.

    `with_pairs`: also include ranks of sentence pairs, which take about half of a file.
    """
    with ledger.reads() as connection:
        sweep_records = records.sweep_records(connection, sweeps)
        linked = {cell["signature"] for sweep in sweep_records for cell in sweep["cells"]}
        runs = records.run_records(connection, None if sweeps is None else linked)
        baselines, untrained = records.baseline_records(connection, runs), records.untrained_records(connection)
    ended = {run["signature"] for run in runs}
    pairs, without_pairs = _pairs(ledger, ended) if with_pairs else ([], 0)
    return Contents(runs, sweep_records, baselines, untrained, pairs, len(linked - ended), without_pairs)


def _pairs(ledger: Ledger, signatures: Iterable[str]) -> tuple[list[Record], int]:
    """Returns rank records of all stored cosines, and how many files of cosines are absent.

    Scores on equal grades share one record of them.
    """
    scores = [score for score in ledger.scores(signatures) if score.cosines_hash]
    imported = ledger.pairs(str(score.cosines_hash) for score in scores)
    records, missing = dict[str, Record](), 0
    for score in scores:
        name = str(score.cosines_hash)
        ranks = imported.get(name) or _ranks(score)
        if ranks is None:
            missing += 1
        elif name not in records:
            numbers, grades = ranks
            grades_hash = schema.digest(grades)
            records[grades_hash] = {"kind": "pairs", "hash": grades_hash, "grades": None, "numbers": grades}
            records[name] = {"kind": "pairs", "hash": name, "grades": grades_hash, "numbers": numbers}
    return [records[name] for name in sorted(records)], missing


def _ranks(score: ScoreRow) -> tuple[list[int], list[float]] | None:
    """Returns dense ranks, from 0, of a score's cosines, and the pairs' grades; None if their file is absent.

    Ranks suffice, since pages compute only Spearman's correlation of cosines, which ranks give exactly.
    """
    try:
        cosines, grades = read_cosines(score)
    except TableError:
        return None
    if not (np.isfinite(cosines).all() and np.isfinite(grades).all()):
        return None
    return np.unique(cosines, return_inverse=True)[1].tolist(), grades.tolist()


def write(path: Path, contents: Contents) -> None:
    """Writes the bundle atomically. Raises BundleError for an edited row, which no ledger would accept."""
    body = []
    for record in contents.records:
        if defect := problem(record):
            raise BundleError(f"ledger row: {defect} (kind={record['kind']}); cse doctor --repair --yes takes it out")
        body.append(f"{schema.dumps(record)}\n".encode())
    digest = hashlib.sha256(b"".join(body)).hexdigest()
    counts = Counter(str(record["kind"]) for record in contents.records)
    header = {"format": BUNDLE_FORMAT, "version": BUNDLE_VERSION, "counts": counts, "sha256": digest}

    def pack(temporary: Path) -> None:
        # No name and no time in gzip's header: equal contents give equal bytes.
        with temporary.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.writelines([f"{schema.dumps(header)}\n".encode(), *body])

    replace_file(path, pack)
