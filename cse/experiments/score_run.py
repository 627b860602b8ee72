"""Scores one finished run and stores the scores in its ledger."""

from collections.abc import Sequence

from analysis.answers.lookup import encoder_of, require_files
from analysis.ledger import Ledger, RunRow
from analysis.run_folder import RunFolder
from cse_train.data_paths import DataPaths
from cse_train.evaluate.score import score_checkpoint
from cse_train.plugins.apart import call_apart
from cse_train.results import Score


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
