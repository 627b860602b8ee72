"""Suite `edits`: cosines of a sentence with an insertion, a deletion and two repetitions of words (ESimCSE table 2)."""

from cse_train.data_paths import DataPaths
from cse_train.evaluate.vectors import TextModel, protocol_of, unit
from cse_train.results import Score
from cse_train.text.files import texts_hash

SHOWN_SENTENCE = "I like this apple because it looks so fresh and it should be delicious."
EDITS = {
    "insertion": "I don't like this apple because but it looks so not fresh and it should be dog delicious.",
    "deletion": "I like this because it looks so fresh and it should be delicious.",
    "repetition_3": "I like like this apple because it looks so so fresh and and it should be delicious.",
    "repetition_5": "I I like this apple apple because it looks looks so fresh fresh and it should be "
    "delicious delicious.",
}
NAME = "edits"
COLUMNS = tuple(f"{NAME}:{edit}" for edit in EDITS)
NEEDS = ()
UNRANKED = tuple(EDITS)
SPANS = dict.fromkeys(UNRANKED, 1.0)


def evaluate(model: TextModel, _paths: DataPaths) -> list[Score]:
    """Returns the cosine of the sentence with each edit, between -1 and 1 as the paper prints it."""
    texts = [SHOWN_SENTENCE, *EDITS.values()]
    sentence, *edits = unit(model.embed(texts))
    protocol = protocol_of(model, NAME, "test", texts_hash(texts), rule="cosine with the unedited sentence")
    return [
        Score(suite=NAME, metric=edit, value=float(sentence @ edited), protocol=protocol)
        for edit, edited in zip(EDITS, edits, strict=True)
    ]
