"""From ledger rows to the lines that `aggregate` reads: one per (cell, seed, column)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.ledger import Ledger, RunRow, ScoreRow, schema

BEST = "best"
"""The column name that always means the run's best dev score."""
DEV = "train.dev"
"""The setting that names the dev set."""

Planned = tuple[Mapping[str, Any], str, int]
"""(cell key, signature, seed)."""


def results_of(
    ledger: Ledger,
    planned: Iterable[Planned],
    columns: Sequence[str],
    names: Mapping[str, str] | None = None,
    runs: Iterable[RunRow] | None = None,
) -> list[dict[str, Any]]:
    """Lines with the axes, `seed`, `column`, `value`, `protocol` (canonical JSON or None), `signature`, `state`.

    A column is a suite whose scores the ledger holds, under its own name or the one that `names` gives for it; `best`,
    or the dev set's own name where no run has that suite's score, is the best score on the curve. Only done runs have
    values; the others stand with NaN, so that a table can count what is missing. Of several scores of one suite the
    newest counts. `runs`: the planned runs where they were read before.
    """
    rows = list(planned)
    signatures = [signature for _, signature, _ in rows]
    runs_by_signature = {run.signature: run for run in (ledger.runs(signatures=signatures) if runs is None else runs)}
    scores = {(score.signature, score.suite): score for score in ledger.scores(signatures)}
    scored = {suite for _, suite in scores}
    protocols = {score.protocol_hash: score.protocol for score in scores.values()}
    texts = {name: schema.dumps(protocol) for name, protocol in protocols.items()}
    lines: list[dict[str, Any]] = []
    for key, signature, seed in rows:
        run = runs_by_signature.get(signature)
        state = "unclaimed" if run is None else run.state
        about = {**key, "seed": seed, "signature": signature, "state": state}
        for column in columns:
            suite = (names or {}).get(column, column)
            value, name = _cell(run, suite, scores.get((signature, suite)), suite in scored)
            lines.append({**about, "column": column, "value": value, "protocol": texts.get(name)})
    return lines


def _cell(run: RunRow | None, suite: str, score: ScoreRow | None, scored: bool) -> tuple[float, str]:
    """Value and protocol's hash of one run in one column; NaN where the run is not done or was not scored."""
    if run is None or run.state != "done":
        return float("nan"), ""
    if score is not None and score.value is not None:
        return score.value, score.protocol_hash
    if suite == BEST or (suite == run.config.get(DEV) and not scored):
        return float("nan") if run.best is None else run.best, ""
    return float("nan"), ""
