"""The mean of SentEval's dev scores, by which DeCLUTR chooses and compares settings (its figures 2, 3 and S1)."""

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import DEV_SUFFIX, Score
from cse_train.evaluate.suites import senteval

NAME = "senteval_dev"
COLUMNS = (f"{senteval.NAME}{DEV_SUFFIX}",)
NEEDS = senteval.NEEDS


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """The mean over the tasks of `senteval`; raises as that does.

    The classifiers are those of the test scores, as in DeCLUTR's numbers: `transfer_dev` has fewer folds.
    """
    scores = senteval.task_scores(model, paths)
    return [senteval.mean(scores, "devmean", senteval.dev_values(scores))]
