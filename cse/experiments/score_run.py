"""Scores of one finished run, made now and kept in its ledger."""

from collections.abc import Sequence

from analysis.answers.lookup import encoder_of, require_files
from analysis.ledger import Ledger, RunRow
from analysis.run_folder import RunFolder
from cse_train.data_paths import DataPaths
from cse_train.evaluate.score import score_checkpoint
from cse_train.plugins.apart import call_apart
from cse_train.results import Score


def score_run(run: RunRow, ledger: Ledger, suites: Sequence[str], paths: DataPaths) -> list[Score]:
    """Score a run's checkpoint, its encoder where it is now; the scores go into the ledger as those of `cse eval` do.

    ConfigError for a run without files, or whose encoder is nowhere.
    """
    folder, encoder = RunFolder(require_files(run, ledger)), encoder_of(run, ledger)
    given = (folder.best, list(suites), paths, folder.scores, run.signature, encoder)
    scores = call_apart(score_checkpoint, *given)
    for score in scores:
        ledger.add_score(run.signature, score)
    return scores
