"""Suite `senteval_dev`: the mean of SentEval's dev scores, by which DeCLUTR chooses settings (figures 2, 3 and S1)."""

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import DEV_SUFFIX, Score
from cse_train.evaluate.suites import senteval

NAME = "senteval_dev"
COLUMNS = (f"{senteval.NAME}{DEV_SUFFIX}",)
NEEDS = senteval.NEEDS


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns the mean over the tasks of `senteval` on dev data. ConfigError for missing or short data.

    The classifiers are those of the test scores, as in DeCLUTR's numbers: `transfer_dev` has fewer folds.
    """
    scores = senteval.task_scores(model, paths)
    return [senteval.mean(scores, "devmean", senteval.dev_values(scores))]
