"""ESimCSE's section 5.5 and table 2: constructed repetitions, a sentence's edits, and their similarities."""

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites import repetition
from cse_train.evaluate.suites.edits import EDITS, SHOWN_SENTENCE, evaluate
from cse_train.evaluate.suites.repetition import Triple, double, draw_triples, overlap, similarities, words
from cse_train.fields import ConfigError

PAPER_QUERY = "I like this apple because it looks very fresh"
PAPER_ONCE = "This is a very tall tree and it looks like a giant"


@pytest.fixture(scope="module")
def sentences(data_dir: Path) -> list[str]:
    """The first 20,000 sentences of the corpus."""
    import gzip
    from itertools import islice

    with gzip.open(data_dir / "wiki" / "wiki_sentences.txt.gz", "rt", encoding="utf8") as lines:
        return [line.strip() for line in islice(lines, 20_000)]


def test_words_are_doubled_as_in_the_papers_example() -> None:
    found = double(PAPER_ONCE, {"this", "very", "looks"})
    assert found == "This this is a very very tall tree and it looks looks like a giant"


def test_punctuation_stays_and_every_occurrence_is_doubled() -> None:
    assert double("The man, the sea's edge.", {"the", "sea's"}) == "The the man, the the sea's sea's edge."


def test_the_papers_example_fits_the_range_by_the_union_alone() -> None:
    """With the three words that it doubles."""
    query = words("this very looks b1 b2 b3 b4 b5 b6")
    candidate = words("this very looks c1 c2 c3 c4 c5 c6 c7 c7 c8")
    assert overlap(query, candidate) == pytest.approx(1 / 6)
    assert (words(PAPER_QUERY).total(), words(PAPER_ONCE).total()) == (9, 12)


def test_triples_share_the_right_part_of_their_words(sentences: list[str]) -> None:
    made = draw_triples(sentences, 30, seed=3)
    assert len({triple.query for triple in made}) == 30
    for triple in made:
        query, once, doubled = words(triple.query), words(triple.once), words(triple.doubled)
        assert 0.13 <= overlap(query, once) <= 0.17
        assert all(doubled[word] == number * (2 if word in query else 1) for word, number in once.items())


def test_the_seed_decides_and_numpys_own_state_stays(sentences: list[str]) -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    assert (
        draw_triples(sentences, 5, seed=1) == draw_triples(sentences, 5, seed=1) != draw_triples(sentences, 5, seed=2)
    )
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


def test_too_little_text() -> None:
    with pytest.raises(ConfigError, match=r"^too little text: sentences=2: 0 of 100 queries found .* 13% to 17%"):
        draw_triples(["one two three four five six", "seven eight nine ten eleven twelve"])


def test_similarities_equal_a_loop() -> None:
    made = [Triple(f"q{i}", f"a{i}", f"b{i}") for i in range(6)]
    rng = np.random.default_rng(0)
    of = {text: rng.normal(size=3) for t in made for text in (t.query, t.once, t.doubled)}

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.stack([of[text] for text in texts])

    for row, triple in zip(similarities(embed, made), made, strict=True):
        for value, other in zip(row, (triple.once, triple.doubled), strict=True):
            a, b = of[triple.query], of[other]
            assert value == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_results(sentences: list[str], made_model, tmp_path: Path) -> None:
    corpus = tmp_path / "wiki.txt"
    corpus.write_text("\n".join(sentences[:5000]), encoding="utf8")
    once, doubled, bias = repetition.evaluate(made_model, DataPaths(wiki=corpus))
    assert [r.metric for r in (once, doubled, bias)] == ["similarity", "similarity_doubled", "bias"]
    assert bias.value == pytest.approx(doubled.value - once.value)
    assert bias.protocol.rule == "100 queries, seed 0, overlap 13%-17% of union"


def test_without_the_corpus() -> None:
    with pytest.raises(ConfigError, match=r"^missing data: suite=repetition needs wiki/wiki_sentences.txt.gz; give"):
        repetition.evaluate(None, DataPaths())  # type: ignore[arg-type]


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
