"""Reads the stored cosines of sentence pairs, checks them against the ledger, and sorts them into rows."""

import errno
import functools
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.ledger import Ledger, ScoreRow
from analysis.tables.results import Planned, drop_part, stands_behind
from analysis.tables.spec import Key, TableError, identify
from cse_train.evaluate.correlation import find_unranked, round_cosines, spearman

LARGEST_FILE = 10**9
"""Largest file in bytes that is read: some sixty million pairs."""


@dataclass(frozen=True)
class ColumnCosines:
    """Stored cosines of one column of a table."""

    gold: np.ndarray
    """Grades of the sentence pairs, float64 [pairs]."""
    rows: Mapping[int, Sequence[np.ndarray]]
    """Row index -> the cosines [pairs] of each of its seeds; rows without any are absent."""
    problems: tuple[str, ...] = ()
    """Reasons why a row or a seed is absent, one line each."""

    @functools.cached_property
    def means(self) -> dict[int, float]:
        """Row index -> Spearman's correlation times 100, mean over its seeds."""
        each = {row: [spearman(cosines, self.gold) for cosines in seeds] for row, seeds in self.rows.items()}
        return {row: float(np.mean(values)) for row, values in each.items()}


def read_cosines(score: ScoreRow) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rounded cosines, as they are ranked, and the grades of one score, float64 [pairs] each.

    Raises TableError for a file that is gone, changed or no npz.
    """
    path = Path(score.cosines_file or "")
    advice = "score the run again (cse eval)"
    try:
        if path.stat().st_size > LARGEST_FILE or path.is_fifo() or path.is_char_device():
            raise OSError(errno.EFBIG, "no file of cosines")  # an imported ledger may name any path
        content = path.read_bytes()
    except OSError as error:
        raise TableError(f"cosines not readable: file={path} ({error.strerror}); {advice}") from error
    if hashlib.sha256(content).hexdigest() != score.cosines_hash:
        raise TableError(f"cosines changed since they were scored: file={path}; {advice}")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return round_cosines(np.asarray(file["cosines"], dtype=float)), np.asarray(file["gold"], dtype=float)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise TableError(f"no file of cosines: file={path}; {advice}") from error


Ranked = Mapping[str, tuple[Sequence[int], Sequence[float]]]
"""Hash of a file of cosines -> dense ranks of its cosines, and the grades, as imported runs bring them."""


def read_ranked(score: ScoreRow, imported: Ranked) -> tuple[np.ndarray, np.ndarray]:
    """Returns cosines or their ranks, and the grades of one score. Imported ranks replace a file that is not here.

    Use it where only the cosines' order matters. Raises TableError.
    """
    try:
        return read_cosines(score)
    except TableError:
        ranks, grades = imported.get(score.cosines_hash or "", ((), ()))
        if not ranks or len(ranks) != len(grades):
            raise
        return np.asarray(ranks, dtype=float), np.asarray(grades, dtype=float)


def column_cosines(ledger: Ledger, planned: Iterable[Planned], keys: Sequence[Key], suite: str) -> ColumnCosines | None:
    """Returns the newest stored cosines of a suite for rows with these keys; None if no run has any.

    Seeds whose grades differ from the first one's (another set under one name) are left out, with a line that says so.
    """
    rows_and_runs = list(planned)
    standing = [run for run, stands in zip(rows_and_runs, stands_behind(rows_and_runs, suite), strict=True) if stands]
    runs = sorted(((drop_part(key), name, seed) for key, name, seed in standing), key=lambda run: run[2])
    scores = {s.signature: s for s in ledger.scores([name for _, name, _ in runs]) if s.suite == suite}
    imported = ledger.pairs(score.cosines_hash for score in scores.values() if score.cosines_hash)
    index = {identify(key): row for row, key in enumerate(keys)}
    gold: np.ndarray | None = None
    rows: dict[int, list[np.ndarray]] = {}
    problems: list[str] = []
    for key, signature, _ in runs:
        score = scores.get(signature)
        if score is None or not score.cosines_file or identify(key) not in index:
            continue
        try:
            cosines, grades = read_ranked(score, imported)
        except TableError as error:
            problems.append(str(error))
            continue
        gold = grades if gold is None else gold
        if reason := find_unranked(cosines, grades):
            problems.append(f"no score: file={score.cosines_file}, {reason}")
        elif np.array_equal(grades, gold):
            rows.setdefault(index[identify(key)], []).append(cosines)
        else:
            problems.append(f"other grades: file={score.cosines_file}; score the run again on the same set")
    if gold is None:
        return ColumnCosines(np.array([]), {}, tuple(problems)) if problems else None
    missing_count = len(keys) - len(rows)
    notes = [f"rows without kept cosines of {suite}: {missing_count} of {len(keys)}"] if missing_count else []
    return ColumnCosines(gold, rows, (*problems, *notes))
