"""ESimCSE's sentence and its edits, as its table 2 describes them."""

import difflib
import math
from collections import Counter

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.edits import EDITS, SHOWN_SENTENCE, evaluate
from cse_train.evaluate.suites.repetition import double

CHANGES = {
    "insertion": ["+ don't", "+ but", "+ not", "+ dog"],
    "deletion": ["- apple"],
    "repetition_3": ["+ like", "+ so", "+ and"],
    "repetition_5": ["+ I", "+ apple", "+ looks", "+ fresh", "+ delicious"],
}
"""What the paper strikes out or sets in bold."""


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_words_that_the_paper_marks(edit: str) -> None:
    words, edited = (text.rstrip(".").split() for text in (SHOWN_SENTENCE, EDITS[edit]))
    assert [line for line in difflib.ndiff(words, edited) if line[0] in "+-"] == CHANGES[edit]


def test_repeated_words_stand_side_by_side() -> None:
    doubled = double(SHOWN_SENTENCE, {"apple", "looks", "fresh", "delicious"})
    assert EDITS["repetition_5"] == doubled.replace("I ", "I I ", 1)


def test_cosines_of_word_counts_by_hand(made_model) -> None:
    """Of the words between blanks "it" stands twice and twelve once: squared length 16. "delicious." has its stop."""

    class Words(type(made_model)):
        def embed(self, texts):
            every = sorted({word for text in texts for word in text.split()})
            return [[Counter(text.split())[word] for word in every] for text in texts]

    scores = {score.column: score.value for score in evaluate(Words(), DataPaths())}
    assert scores == {
        "edits:insertion": pytest.approx(16 / math.sqrt(16 * 20)),
        "edits:deletion": pytest.approx(15 / math.sqrt(16 * 15)),
        "edits:repetition_3": pytest.approx(19 / math.sqrt(16 * 25)),
        "edits:repetition_5": pytest.approx(20 / math.sqrt(16 * 29)),
    }
