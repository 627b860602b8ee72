"""Insert, delete, replace: counts, places, labels, and what becomes of a sentence of one token."""

import numpy as np
import pytest
from scipy.stats import chisquare

from cse_train.text.masking import OPERATORS, Edit, Vocabulary, count_edited, deletions, edit, insertions

CLS, SEP, MASK = 2, 3, 4
VOCABULARY = Vocabulary(MASK, (0, 1, CLS, SEP, MASK), 1000)


def sentence(subwords: int) -> np.ndarray:
    """[CLS] 10 11 12 ... [SEP]."""
    return np.array([CLS, *range(10, 10 + subwords), SEP])


def edited(subwords: int, operator: str, ratio: float = 0.15, seed: int = 0) -> Edit:
    return edit(sentence(subwords), operator, ratio, VOCABULARY, np.random.default_rng(seed))


def test_counts_are_the_ratio_rounded_at_least_one_and_never_the_whole_sentence() -> None:
    subwords = np.array([0, 1, 2, 7, 20, 30])
    assert insertions(subwords, 0.15).tolist() == [0, 1, 1, 1, 3, 4]
    assert deletions(subwords, 0.15).tolist() == [0, 0, 1, 1, 3, 4]
    assert deletions(np.array([3]), 0.99).tolist() == [2]


def test_inserted_masks_are_labelled_and_the_sentence_is_otherwise_untouched() -> None:
    result = edited(20, "insert")
    assert np.array_equal(result.masked_L == MASK, result.edited_L) and result.edited_L.sum() == 3
    assert np.array_equal(result.masked_L[~result.edited_L], sentence(20))
    assert np.array_equal(result.source_L, result.masked_L) and not result.chosen_L.any()


def test_insertion_uses_every_gap_alike() -> None:
    gaps = np.concatenate([np.flatnonzero(edited(5, "insert", seed=i).edited_L) for i in range(3000)])
    assert gaps.min() == 1 and gaps.max() == 6
    assert chisquare(np.bincount(gaps)[1:]).pvalue > 1e-3


def test_a_token_is_labelled_when_its_preceding_token_is_deleted() -> None:
    for seed in range(50):
        result = edited(20, "delete", seed=seed)
        before = sentence(20).tolist()
        kept = result.masked_L.tolist()
        assert len(kept) == 22 - 3 and (kept[0], kept[-1]) == (CLS, SEP) and not result.edited_L[0]
        labels = [i > 0 and before[before.index(token) - 1] not in kept for i, token in enumerate(kept)]
        assert result.edited_L.tolist() == labels


def test_deletion_takes_every_subword_alike() -> None:
    kept = np.concatenate([edited(10, "delete", seed=i).masked_L[1:-1] for i in range(3000)])
    assert chisquare(3000 - np.bincount(kept)[10:]).pvalue > 1e-3


def test_replacement_is_masking_and_knows_no_label_before_the_generator() -> None:
    result = edited(500, "replace", 0.3)
    assert not result.edited_L.any() and np.array_equal(result.source_L, sentence(500))
    assert np.array_equal(result.masked_L[~result.chosen_L], sentence(500)[~result.chosen_L])
    assert abs(result.chosen_L.sum() - 150) < 3 * np.sqrt(500 * 0.3 * 0.7)
    assert not result.chosen_L[[0, -1]].any()


def test_all_deletes_inserts_and_masks() -> None:
    result = edited(100, "all")
    assert len(result.masked_L) == 102 - 15 + 13
    inserted = (result.source_L == MASK) & result.edited_L
    assert inserted.sum() == 13 and not (inserted & result.chosen_L).any()
    assert (result.masked_L[inserted] == MASK).all()
    assert 0 < result.chosen_L.sum() < 40 and result.edited_L.sum() > 13


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("subwords", [0, 1, 2])
def test_the_shortest_sentences_are_neither_emptied_nor_refused(operator: str, subwords: int) -> None:
    for seed in range(20):
        result = edited(subwords, operator, 0.9, seed)
        assert len(result.masked_L) >= 2 + min(1, subwords)
        assert (result.masked_L[0], result.masked_L[-1]) == (CLS, SEP)


def test_one_token_is_never_deleted_and_always_gets_one_insertion() -> None:
    assert np.array_equal(edited(1, "delete").masked_L, sentence(1)) and not edited(1, "delete").edited_L.any()
    assert edited(1, "insert").edited_L.sum() == 1


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("ratio", [0.01, 0.15, 0.3, 0.9])
def test_lengths_are_known_without_the_sentence(operator: str, ratio: float) -> None:
    subwords = np.arange(60)
    made = [len(edited(int(n), operator, ratio).masked_L) for n in subwords]
    assert count_edited(subwords + 2, operator, ratio).tolist() == made


def test_same_generator_same_edit() -> None:
    first, second = edited(30, "all", seed=5), edited(30, "all", seed=5)
    assert np.array_equal(first.masked_L, second.masked_L) and np.array_equal(first.edited_L, second.edited_L)
