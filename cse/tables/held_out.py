"""The one look that a selection has at the test sets: scored once per picked run, and logged in the ledger."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.ledger import Ledger
from analysis.ledger.selection_log import Look, SelectionLog, count, known
from cse.tables.lookup import require_files
from cse.tables.selection import Selected
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import split_of
from cse_train.evaluate.score import score_checkpoint
from cse_train.evaluate.suites.registry import columns, is_known, names
from cse_train.fields import ConfigError, nearest

DEFAULT = ("sts_test",)


@dataclass(frozen=True)
class Looked:
    """The picked run on test sets."""

    values: Mapping[str, float]
    """Column -> value."""
    scored: tuple[str, ...]
    """Suites that were scored just now; the others were known."""
    look: int
    """How many different runs of this sweep have been scored on one of these suites, this one included."""
    sweep: str

    @property
    def warning(self) -> str:
        """Empty for the first selection that looks."""
        if self.look < 2:
            return ""
        return (
            f"test looked at before: sweep={self.sweep}, this is selection number {self.look} scored on these sets; "
            "report the first, or say how many there were"
        )

    def as_dict(self) -> dict[str, Any]:
        return {"values": dict(self.values), "scored": list(self.scored), "look": self.look}

    def lines(self) -> list[str]:
        """For people."""
        how = f"scored now: {', '.join(self.scored)}" if self.scored else "stored, not scored again"
        return [f"test ({how}; look {self.look})", *(f"  {name} {value:.2f}" for name, value in self.values.items())]


def score_once(chosen: Selected, url: str, suites: Sequence[str] | None, paths: DataPaths) -> Looked:
    """The picked run's test scores: those of suites that no look of this run has are made now and logged.

    Raises ConfigError for an unknown suite, one that is no test set, missing data, and a run without files.
    """
    wanted = list(dict.fromkeys(name.strip() for part in suites or DEFAULT for name in part.split(",")))
    _check(wanted)
    log = SelectionLog.open(url)
    try:
        have = known(log.looks(chosen.sweep), chosen.run.signature)
        missing = tuple(suite for suite in wanted if suite not in have)
        values = _score(chosen, url, missing, paths) if missing else {}
        if missing:
            number = len(chosen.candidates)
            log.add(Look(chosen.sweep, chosen.rule, number, chosen.run.signature, missing, values))
        looks = log.looks(chosen.sweep)
    finally:
        log.close()
    told = {name: have[suite].values[name] for suite in wanted if suite in have for name in columns(suite)}
    return Looked({**told, **values}, missing, max(count(looks, suite) for suite in wanted), chosen.sweep)


def _check(wanted: Sequence[str]) -> None:
    wrong = [f"unknown suite: suite={name}; {nearest(name, names())}" for name in wanted if not is_known(name)]
    wrong = wrong or [
        f"no test set: suite={name} is for development; cse eval scores it, --score-test takes sts, sts_test, mr ..."
        for name in wanted
        if split_of(name) != "test"
    ]
    if wrong:
        raise ConfigError(wrong)


def _score(chosen: Selected, url: str, suites: Sequence[str], paths: DataPaths) -> dict[str, float]:
    """Score the checkpoint; the scores go into the ledger as those of `cse eval` do."""
    folder = require_files(chosen.run)
    scores = score_checkpoint(folder / "best", list(suites), paths, folder / "scores")
    with contextlib.closing(Ledger.open(url, create=False)) as ledger:
        for score in scores:
            ledger.add_score(chosen.run.signature, **score.record())
    return {score.column: score.value for score in scores}
