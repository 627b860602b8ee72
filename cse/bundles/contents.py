"""What a bundle holds: the records of some sweeps, and the order of sentence pairs by their cosines."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from analysis.ledger import Ledger, schema
from analysis.ledger.exchange.columns import Record
from analysis.ledger.rows import ScoreRow
from analysis.tables.pair_cosines import read_cosines
from analysis.tables.spec import TableError


@dataclass(frozen=True)
class Contents:
    """Records by kind, each in its order."""

    runs: list[Record]
    sweeps: list[Record]
    baselines: list[Record]
    untrained: list[Record]
    pairs: list[Record]
    unended: int = 0
    """Runs of the sweeps that are left out, since they are not started or a driver trains them."""
    without_pairs: int = 0
    """Scores whose file of cosines is not here."""

    @property
    def records(self) -> list[Record]:
        """In the order in which a file has them."""
        return [*self.runs, *self.sweeps, *self.baselines, *self.untrained, *self.pairs]


def gather(ledger: Ledger, sweeps: Collection[str] | None = None, *, with_pairs: bool = True) -> Contents:
    """What the ledger has of these sweeps; without names, all that it has, also runs that belong to no sweep.

    `with_pairs`: also the order of sentence pairs, the larger half of a file.
    """
    named = ledger.sweep_records(sweeps)
    linked = {cell["signature"] for sweep in named for cell in sweep["cells"]}
    runs = ledger.run_records(None if sweeps is None else linked)
    ended = {run["signature"] for run in runs}
    pairs, lacking = _pairs(ledger, ended) if with_pairs else ([], 0)
    baselines, untrained = ledger.baseline_records(runs), ledger.untrained_records()
    return Contents(runs, named, baselines, untrained, pairs, len(linked - ended), lacking)


def _pairs(ledger: Ledger, signatures: Iterable[str]) -> tuple[list[Record], int]:
    """The ranks of all kept cosines, and the grades that they share; how many files are neither here nor imported."""
    scores = [score for score in ledger.scores(signatures) if score.cosines_hash]
    imported = ledger.pairs(str(score.cosines_hash) for score in scores)
    records, lacking = dict[str, Record](), 0
    for score in scores:
        name = str(score.cosines_hash)
        ranks = imported.get(name) or _ranks(score)
        if ranks is None:
            lacking += 1
        elif name not in records:
            numbers, grades = ranks
            of_grades = schema.digest(grades)
            records[of_grades] = {"kind": "pairs", "hash": of_grades, "grades": None, "numbers": grades}
            records[name] = {"kind": "pairs", "hash": name, "grades": of_grades, "numbers": numbers}
    return [records[name] for name in sorted(records)], lacking


def _ranks(score: ScoreRow) -> tuple[list[int], list[float]] | None:
    """Dense ranks of a score's cosines from 0, equal for equal cosines, and the pairs' grades; None without its file.

    All that pages compute of cosines is Spearman's correlation, which ranks give to the digit.
    """
    try:
        cosines, grades = read_cosines(score)
    except TableError:
        return None
    if not (np.isfinite(cosines).all() and np.isfinite(grades).all()):
        return None
    return np.unique(cosines, return_inverse=True)[1].tolist(), grades.tolist()
