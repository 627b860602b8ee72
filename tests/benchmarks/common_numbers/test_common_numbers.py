"""Random numbers by counter, and what is made of the scores."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from benchmarks.common_numbers.__main__ import WAYS, correlations, markdown, rise, summary
from benchmarks.common_numbers.draws import MANY, by_counter, nested, occurrences, with_nested_edits
from cse_train import random_streams
from cse_train.backbone.backbone import load_backbone
from cse_train.encoder import dropout
from cse_train.encoder.packing import pack_lists
from cse_train.text import augment

IDS = [2, 40, 41, 42, 43, 44, 3]
LONGER = [2, 40, 41, 41, 42, 43, 44, 3]
OTHER = [2, 50, 51, 3]


def masks_of(rows: list[list[int]], step: int = 0, views: int = 1) -> list[torch.Tensor]:
    """Every mask of one pass of the 2-layer encoder."""
    encoder = load_backbone("wiki-l2-h128").encoder.train()
    seen: list[torch.Tensor] = []
    with by_counter() as counters:
        random_streams.seed_dropout(7, step, 0)
        plain: Callable[..., torch.Tensor] = dropout.scaled_mask
        assert plain == counters.mask

        def keep(like: torch.Tensor, rate: float) -> torch.Tensor:
            seen.append(counters.mask(like, rate))
            return seen[-1]

        with pytest.MonkeyPatch.context() as patch:
            for module in ("dropout", "attention", "cls_attention"):
                patch.setattr(f"cse_train.encoder.{module}.scaled_mask", keep)
            encoder(pack_lists([np.array(row) for row in rows], pad_id=0), views=views)
    return seen


def test_a_token_keeps_its_masks_when_another_is_inserted() -> None:
    """Embeddings and both blocks' outputs hold a row a token; the repeated one is new."""
    kept = [0, 1, 2, 4, 5, 6, 7]
    for before, after in zip(masks_of([IDS]), masks_of([LONGER]), strict=True):
        if len(before) == len(IDS):
            assert torch.equal(before, after[kept])
        elif before.shape[-1] == len(IDS):  # attention weights
            assert torch.equal(
                before, after[..., kept][..., kept, :] if before.shape[-2] == len(IDS) else after[..., kept]
            )
        else:  # the last layer, for [CLS] alone
            assert torch.equal(before, after)


def test_sentences_steps_views_and_sites_have_masks_of_their_own() -> None:
    two = masks_of([IDS, IDS])
    rows = two[0].view(2, len(IDS), -1)
    assert not torch.equal(rows[0], rows[1])
    assert not torch.equal(masks_of([IDS])[0], masks_of([IDS], step=1)[0])
    views = masks_of([IDS], views=2)[0].view(2, len(IDS), -1)
    assert not torch.equal(views[0], views[1])
    sites = [mask for mask in masks_of([IDS]) if len(mask) == len(IDS)]
    assert len(sites) == 3 and not torch.equal(sites[0], sites[1])


def test_as_many_are_dropped_as_asked() -> None:
    masks = masks_of([list(range(10 * n, 10 * n + 30)) for n in range(1, 40)])
    dropped = torch.cat([mask.flatten() == 0 for mask in masks]).double().mean().item()
    assert dropped == pytest.approx(0.1, abs=0.001)
    assert masks[0].max().item() == pytest.approx(1 / 0.9, rel=1e-4)


def test_everything_is_put_back() -> None:
    before = dropout.scaled_mask, random_streams.seed_dropout, augment.repeat_subwords
    with by_counter(), with_nested_edits():
        assert dropout.scaled_mask != before[0] and augment.repeat_subwords is nested
    assert (dropout.scaled_mask, random_streams.seed_dropout, augment.repeat_subwords) == before


def test_a_higher_rate_repeats_a_superset() -> None:
    ids = np.array([2, *range(100, 130), 3])
    for row in range(200):
        lower, higher = (nested(ids, rate, random_streams.augmentation(0, 0, row)) for rate in (0.1, 0.3))
        doubled = [{one for one in ids if (made == one).sum() == 2} for made in (lower, higher)]
        assert doubled[0] <= doubled[1] and set(made_of(lower)) == set(ids.tolist())


def made_of(ids: np.ndarray) -> list[int]:
    return [int(one) for one in ids]


def test_as_many_are_repeated_as_by_the_papers_rule() -> None:
    ids, rows = np.array([2, *range(100, 120), 3]), range(4000)
    ours, papers = (
        np.bincount([len(make(ids, 0.3, random_streams.augmentation(1, 0, row))) - len(ids) for row in rows])
        for make in (nested, augment.repeat_subwords)
    )
    assert ours.shape == papers.shape == (7,)
    assert np.abs(ours - papers).max() < 4 * np.sqrt(2 * 4000 / 7)


def test_occurrences() -> None:
    named = occurrences(np.array([0, 0, 0, 1]), np.array([5, 6, 5, 5]))
    assert named.tolist() == [5 * MANY, 6 * MANY, 5 * MANY + 1, 5 * MANY]


def test_correlations_are_those_of_numpy() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(3, 40)) + generator.normal(size=40)
    found = correlations(scores, np.random.default_rng(1))
    table = np.corrcoef(scores)
    assert found["mean"] == pytest.approx(np.mean([table[0, 1], table[0, 2], table[1, 2]]))
    assert found["interval"][0] < found["mean"] < found["interval"][1]


def test_a_rise_that_is_there() -> None:
    generator = np.random.default_rng(3)
    shared = generator.normal(size=200)
    close, loose = (shared + spread * generator.normal(size=(2, 200)) for spread in (0.2, 2.0))
    low, high = rise(close, loose, np.random.default_rng(4))
    assert 0.5 < low < high < 1
    result = summary({way: (close if way == "both" else loose).tolist() for way in WAYS}, [0.08, 0.32])
    assert result["ways"]["both"]["rise"] > 0.6 and result["ways"][WAYS[0]]["rise"] == 0
    assert markdown(result).count("\n| ") == 5 and "enough to be built" in markdown(result)
    same = summary({way: loose.tolist() for way in WAYS}, [0.08, 0.32])
    assert "The largest rise is +0.00: below the 0.2 from which it would be built." in markdown(same)
