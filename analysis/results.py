"""From ledger rows to the long frame that `aggregate` reads: one line per (cell, seed, column)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import schema
from analysis.ledger import Ledger, RunRow
from analysis.records import ScoreRow

BEST = "best"
"""The column name that always means the run's best dev score."""
DEV = "train.dev"
"""The setting that names the dev set."""

Planned = tuple[Mapping[str, Any], str, int]
"""(cell key, signature, seed)."""


def results_frame(
    ledger: Ledger, planned: Iterable[Planned], columns: Sequence[str], names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Columns: the axes, `seed`, `column`, `value`, `protocol` (canonical JSON or None), `signature`, `state`.

    A column is a suite whose scores the ledger holds, under its own name or the one that `names` gives for it; `best`,
    or the dev set's own name where no run has that suite's score, is the best score on the curve. Only done runs have
    values; the others stand with NaN, so that a table can count what is missing. Of several scores of one suite the
    newest counts.
    """
    rows = list(planned)
    signatures = [signature for _, signature, _ in rows]
    runs = {run.signature: run for run in ledger.runs(signatures=signatures)}
    scores = {(score.signature, score.suite): score for score in ledger.scores(signatures)}
    scored = {suite for _, suite in scores}
    lines: list[dict[str, Any]] = []
    for key, signature, seed in rows:
        run = runs.get(signature)
        state = "unclaimed" if run is None else run.state
        about = {**key, "seed": seed, "signature": signature, "state": state}
        for column in columns:
            suite = (names or {}).get(column, column)
            value, protocol = _cell(run, suite, scores.get((signature, suite)), suite in scored)
            lines.append({**about, "column": column, "value": value, "protocol": protocol})
    frame = pd.DataFrame(lines, dtype=object)
    if lines:
        frame["value"] = frame["value"].astype(float)
    return frame


def _cell(run: RunRow | None, suite: str, score: ScoreRow | None, scored: bool) -> tuple[float, str | None]:
    """Value and protocol of one run in one column; NaN where the run is not done or was not scored."""
    if run is None or run.state != "done":
        return float("nan"), None
    if score is not None and score.value is not None:
        return score.value, schema.dumps(score.protocol)
    if suite == BEST or (suite == run.config.get(DEV) and not scored):
        return float("nan") if run.best is None else run.best, None
    return float("nan"), None
