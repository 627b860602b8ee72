import re
from collections import Counter

import numpy as np

from cse_train.text.generated import AGENTS, DOMAINS, PLACES, SENTENCE_SLOTS, TIME_WORDS, make_graded_pairs, sentences

MEANINGS = (*AGENTS, *PLACES, *TIME_WORDS, *(meaning for domain in DOMAINS for slot in domain for meaning in slot))
"""Every meaning's wordings."""

FUNCTION_WORDS = set(
    re.findall(
        "[a-z]+",
        """
    a an the in on at of to by and it was who with into for some several from during among inside upon
""",
    )
)


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower())) - FUNCTION_WORDS


def test_twenty_thousand_distinct_sentences_by_seed() -> None:
    made = sentences(20_000, 3)
    assert len(set(made)) == len(made) == 20_000
    assert made[:50] == sentences(50, 3)
    assert made[:50] != sentences(50, 4)


def test_wordings_of_a_meaning_share_no_content_word_with_any_other() -> None:
    seen = Counter(word for wordings in MEANINGS for text in wordings for word in content_words(text))
    assert [word for word, times in seen.items() if times > 1] == []


def test_pairs_are_graded_evenly_and_reproducibly() -> None:
    left, right, gold = make_graded_pairs(600, 1)
    assert Counter(gold) == {float(grade): 100 for grade in range(SENTENCE_SLOTS + 1)}
    assert (left, right, gold) == make_graded_pairs(600, 1)
    assert make_graded_pairs(12, 1) != make_graded_pairs(12, 2)
    assert all(a != b for a, b in zip(left, right, strict=True))


def test_grade_is_the_number_of_shared_meanings() -> None:
    """Read back from the words alone."""
    meaning_of = {
        word: number for number, wordings in enumerate(MEANINGS) for text in wordings for word in content_words(text)
    }
    for a, b, grade in zip(*make_graded_pairs(300, 7), strict=True):
        one, other = ({meaning_of[w] for w in content_words(text)} for text in (a, b))
        assert (len(one), len(other), len(one & other)) == (SENTENCE_SLOTS, SENTENCE_SLOTS, grade), (a, b)


def test_half_of_the_pairs_are_paraphrases_without_a_shared_content_word() -> None:
    left, right, gold = make_graded_pairs(600, 1)
    shared = np.array([len(content_words(a) & content_words(b)) for a, b in zip(left, right, strict=True)])
    paraphrase = np.arange(600) // (SENTENCE_SLOTS + 1) % 2 == 0
    assert shared[paraphrase].max() == 0
    assert shared[~paraphrase & (np.array(gold) == 5)].mean() > 2
