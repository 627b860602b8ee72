"""The one look that a selection has at the test sets: scored once per picked run, and logged in the ledger."""

from collections.abc import Sequence

from analysis.answers.selection import CellRuns, HeldOutScores
from analysis.ledger import Ledger
from analysis.ledger.selection_log import Look, count, looks_by_suite
from cse.experiments.score_run import score_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import split_of
from cse_train.evaluate.suites.registry import columns, require_known, still_valid
from cse_train.fields import ConfigError

DEFAULT = ("sts_test",)


def score_once(
    sweep: str, cells: Sequence[CellRuns], ledger: Ledger, suites: Sequence[str], paths: DataPaths
) -> HeldOutScores:
    """Test scores of the first cell's best run: those of suites that no look of this run has are made now and logged.

    Raises ConfigError for an unknown suite, one that is no test set, missing data, and a run without files.
    """
    names = list(dict.fromkeys(suites or DEFAULT))
    require_known(names, paths)
    wrong = [name for name in names if (file.role if (file := paths.data_set(name)) else split_of(name)) != "test"]
    if wrong:
        how = "is for development; cse eval scores it, --score-test takes sts, sts_test, mr ..."
        raise ConfigError([f"no test set: suite={name} {how}" for name in wrong])
    run = cells[0].best_run
    have = looks_by_suite(ledger.looks(sweep), run.signature)
    scored = {score.suite: score.protocol for score in ledger.scores([run.signature])}
    stale = scored.keys() - still_valid(scored, paths)
    missing = tuple(suite for suite in names if suite not in have or suite in stale)
    values = {score.column: score.value for score in score_run(run, ledger, missing, paths)} if missing else {}
    if missing:
        ledger.add_look(Look(sweep, cells[0].rule, len(cells), run.signature, missing, values))
    looks = ledger.looks(sweep)
    stored = {name: have[suite].values[name] for suite in names if suite in have for name in columns(suite)}
    return HeldOutScores({**stored, **values}, missing, max(count(looks, suite) for suite in names), sweep)
