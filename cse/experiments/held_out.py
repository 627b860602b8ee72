"""Scores a finished run's best checkpoint, and a selection's picked run on test sets, once and logged in the ledger."""

from collections.abc import Sequence

from analysis.answers.lookup import encoder_of, require_files
from analysis.answers.selection import CellRuns, HeldOutScores
from analysis.ledger import Ledger, RunRow
from analysis.ledger.selection_log import Look
from analysis.run_folder import RunFolder
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import split_of
from cse_train.evaluate.score import score_checkpoint
from cse_train.evaluate.suites.registry import columns, require_known, still_valid
from cse_train.fields import ConfigError
from cse_train.plugins.snapshot import call_apart
from cse_train.results import Score

DEFAULT = ("sts_test",)


def score_once(
    sweep: str, cells: Sequence[CellRuns], ledger: Ledger, suites: Sequence[str], paths: DataPaths
) -> HeldOutScores:
    """Returns test scores of the first cell's best run; suites that were not scored before are scored now and logged.

    Raises ConfigError for an unknown suite, for one that is no test set, for missing data, and for a run without files.
    """
    names = list(dict.fromkeys(suites or DEFAULT))
    require_known(names, paths)
    wrong = [name for name in names if (file.role if (file := paths.data_set(name)) else split_of(name)) != "test"]
    if wrong:
        remedy = "is for development; cse eval scores it, --score-test takes sts, sts_test, mr ..."
        raise ConfigError([f"no test set: suite={name} {remedy}" for name in wrong])
    run = cells[0].best_run
    looks = [look for look in ledger.looks(sweep) if look.signature == run.signature]
    looks_of_run = {suite: look for look in looks for suite in look.suites}
    scored = {score.suite: score.protocol for score in ledger.scores([run.signature])}
    stale = scored.keys() - still_valid(scored, paths)
    missing = tuple(suite for suite in names if suite not in looks_of_run or suite in stale)
    values = {score.column: score.value for score in score_run(run, ledger, missing, paths)} if missing else {}
    if missing:
        ledger.add_look(Look(sweep, cells[0].rule, len(cells), run.signature, missing, values))
    looks = ledger.looks(sweep)
    stored = {
        name: looks_of_run[suite].values[name] for suite in names if suite in looks_of_run for name in columns(suite)
    }
    runs_by_suite = ({look.signature for look in looks if suite in look.suites} for suite in names)
    return HeldOutScores({**stored, **values}, missing, max(map(len, runs_by_suite)), sweep)


def score_run(run: RunRow, ledger: Ledger, suites: Sequence[str], paths: DataPaths) -> list[Score]:
    """Scores a run's best checkpoint and stores the scores in the ledger, as `cse eval` does.

    Raises ConfigError for a run without files, and if its encoder cannot be found.
    """
    folder, encoder = RunFolder(require_files(run, ledger)), encoder_of(run, ledger)
    arguments = (folder.best, list(suites), paths, folder.scores, run.signature, encoder)
    scores = call_apart(score_checkpoint, *arguments)
    for score in scores:
        ledger.add_score(run.signature, score)
    return scores
