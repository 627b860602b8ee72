"""Insert, delete, replace, mask, blank and augment: counts, places, labels, and sentences of one token."""

import numpy as np
import pytest
from scipy.stats import chisquare

from cse_train.text.augment import repeat_subwords
from cse_train.text.masking import (
    BLANK,
    OPERATORS,
    Edit,
    Vocabulary,
    blank_tokens,
    count_edited,
    deletions,
    edit,
    insertions,
    mask_tokens,
)

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


MASK_ID, VOCAB = 4, 1000


def masked(ratio: float = 0.15, size: int = 40_000) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    ids = np.full(size, 7)
    maskable = np.arange(size) % 10 > 0
    out, chosen = mask_tokens(
        ids, maskable, ratio=ratio, mask_id=MASK_ID, vocab_size=VOCAB, rng=np.random.default_rng(0)
    )
    return ids, maskable, out, chosen


def test_T23_share_of_chosen_positions_and_specials_untouched() -> None:
    ids, maskable, out, chosen = masked()
    count = maskable.sum()
    assert abs(chosen.sum() - 0.15 * count) < 3 * np.sqrt(count * 0.15 * 0.85)
    assert not chosen[~maskable].any()
    assert np.array_equal(out[~chosen], ids[~chosen])


def test_T23_eighty_ten_ten() -> None:
    _, _, out, chosen = masked()
    by_mask, kept = int((out[chosen] == MASK_ID).sum()), int((out[chosen] == 7).sum())
    observed = np.array([by_mask, kept, chosen.sum() - by_mask - kept])
    assert chisquare(observed, chosen.sum() * np.array([0.8, 0.1, 0.1])).pvalue > 1e-3


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.1])
def test_ratio_must_be_a_share(ratio: float) -> None:
    with pytest.raises(ValueError, match=f"^masking: ratio={ratio}"):
        masked(ratio, 10)


CLS_ID, SEP_ID = 101, 102


def augmented_sentence(length: int) -> np.ndarray:
    """Distinct ids, so that whatever is doubled can be told."""
    return np.array([CLS_ID, *range(1000, 1000 + length - 2), SEP_ID])


def added(length: int, rate: float, rule: str, draws: int = 6000) -> np.ndarray:
    rng = np.random.default_rng(5)
    ids = augmented_sentence(length)
    return np.array([len(repeat_subwords(ids, rate, rng, rule)) - length for _ in range(draws)])


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_T17_undoing_the_doubling_recovers_the_sentence(rule: str) -> None:
    rng = np.random.default_rng(1)
    ids = augmented_sentence(32)
    for _ in range(300):
        view = repeat_subwords(ids, 0.32, rng, rule)
        assert np.array_equal(view[np.append(True, view[1:] != view[:-1])], ids)
        assert (view == CLS_ID).sum() == (view == SEP_ID).sum() == 1
        assert view[0] == CLS_ID and view[-1] == SEP_ID
        assert np.unique(view, return_counts=True)[1].max() <= 2


@pytest.mark.parametrize(
    ("rule", "length", "rate", "largest"),
    [
        ("paper", 8, 0.32, 2),  # int(.32 * 6) = 1, but at least 2
        ("paper", 32, 0.32, 9),  # int(.32 * 30)
        ("paper", 32, 0.08, 2),
        ("released", 8, 0.32, 1),  # int(.32 * 8) - 1
        ("released", 32, 0.32, 9),  # min(10, int(.32 * 32)) - 1
        ("released", 64, 0.32, 9),  # ... is capped
        ("released", 32, 0.08, 1),
    ],
)
def test_T17_number_of_doubled_subwords_is_uniform(rule: str, length: int, rate: float, largest: int) -> None:
    counts = np.bincount(added(length, rate, rule), minlength=largest + 1)
    assert len(counts) == largest + 1
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("length", "rate", "released", "paper"),
    [(8, 0.32, 0.5, 1.0), (16, 0.32, 2.0, 2.0), (32, 0.32, 4.5, 4.5), (16, 0.08, 0.0, 1.0), (32, 0.08, 0.5, 1.0)],
)
def test_T17_means_of_both_rules(length: int, rate: float, released: float, paper: float) -> None:
    """The table that was computed from the authors' code and the paper's equation (reference_spec A3)."""
    assert added(length, rate, "released").mean() == pytest.approx(released, abs=0.15)
    assert added(length, rate, "paper").mean() == pytest.approx(paper, abs=0.15)


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_T17_every_subword_is_equally_likely(rule: str) -> None:
    rng = np.random.default_rng(2)
    ids = augmented_sentence(14)
    doubled = np.zeros(2000, dtype=int)
    for _ in range(5000):
        values, times = np.unique(repeat_subwords(ids, 0.4, rng, rule), return_counts=True)
        doubled[values[times == 2]] += 1
    assert chisquare(doubled[1000:1012]).pvalue > 1e-3
    assert doubled.sum() == doubled[1000:1012].sum()


def test_short_sentences_and_rate_zero() -> None:
    rng = np.random.default_rng(3)
    assert repeat_subwords(np.array([CLS_ID, SEP_ID]), 0.3, rng).tolist() == [CLS_ID, SEP_ID]
    lengths = {len(repeat_subwords(np.array([CLS_ID, 7, SEP_ID]), 0.3, rng)) for _ in range(50)}
    assert lengths == {3, 4}
    assert repeat_subwords(augmented_sentence(32), 0.0, rng).tolist() == augmented_sentence(32).tolist()


def test_same_generator_same_view() -> None:
    views = [repeat_subwords(augmented_sentence(30), 0.32, np.random.default_rng(9)).tolist() for _ in range(2)]
    assert views[0] == views[1]


def test_T23_share_of_blanks_and_where_they_may_be() -> None:
    ids = np.arange(10, 20_010)
    maskable = ids % 10 != 0
    blanked = blank_tokens(ids, maskable, 0.15, np.random.default_rng(0))
    assert np.array_equal(blanked[~maskable], ids[~maskable])
    blank = blanked == BLANK
    assert np.array_equal(blanked[~blank], ids[~blank])
    assert abs(blank.sum() - 0.15 * maskable.sum()) < 3 * (0.15 * 0.85 * maskable.sum()) ** 0.5
