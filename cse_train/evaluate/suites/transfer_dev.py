"""Suite `transfer_dev`: SentEval's transfer tasks scored on held-out folds, for decisions during development."""

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import DEV_SUFFIX, Score
from cse_train.evaluate.suites import transfer

NAME = "transfer_dev"
COLUMNS = tuple(f"{column}{DEV_SUFFIX}" for column in transfer.COLUMNS)
NEEDS = transfer.NEEDS


def evaluate(model: TextModel, paths: DataPaths, *, protocol: transfer.Classifier = "senteval") -> list[Score]:
    """Returns the dev accuracy of each transfer task and their average, as `transfer.evaluate` in the mode `dev`."""
    return transfer.evaluate(model, paths, protocol=protocol, mode="dev")
