"""Suite `probing_dev`: the mean of the probing tasks' dev accuracies, as in DeCLUTR's tables S1 and S5."""

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import DEV_SUFFIX, Score
from cse_train.evaluate.suites import probing, transfer

NAME = "probing_dev"
COLUMNS = (f"{probing.NAME}{DEV_SUFFIX}",)
NEEDS = probing.NEEDS


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns the mean dev accuracy over the ten probing tasks. ConfigError for missing or short data.

    The classifiers are those of the test scores: SentEval chooses the weight decay by this accuracy.
    """
    scores = transfer.evaluate(model, paths, members=probing.MEMBERS)
    return [probing.mean(scores, "devmean", {score.suite: score.details["devacc"] for score in scores})]
