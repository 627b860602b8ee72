"""K batches in groups of one shape: every sentence is there once, as long as it was, and nothing else is attended."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from benchmarks.fused.packing import FusedPacked, pack_runs
from cse_train.backbone.backbone import load_backbone
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.text.tokens import TokenColumn
from cse_train.training.batches import Batches


@pytest.fixture
def column(tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths]) -> TokenColumn:
    run = parse_run(tiny_settings("simcse"))
    return Batches.open(run, tiny_paths("simcse"), load_backbone(run.train.encoder)).store.column("text")


def attended(packed: FusedPacked, run: int) -> list[list[int]]:
    """The ids of each sequence of a run that attention reads, sorted."""
    sequences = []
    for group, block in packed.split(packed.ids_KU[..., None], 1):
        ids_RW = block[run, 0, :, :, 0]
        for row in range(group.rows):
            real = torch.ones(group.width).bool() if group.bias is None else group.bias[run, 0, row, 0, 0] == 0
            sequences.append(ids_RW[row][real].tolist())
    return sorted(sequences)


@pytest.mark.parametrize("groups", [1, 3, 100])
def test_each_runs_sentences_are_there(column: TokenColumn, groups: int) -> None:
    rows_KN = np.random.default_rng(0).permuted(np.tile(np.arange(40), (3, 1)), axis=1)[:, :10]
    packed = pack_runs(column, rows_KN, pad_id=0, groups=groups)
    assert len(packed.groups) == min(groups, 10)
    for run, rows in enumerate(rows_KN):
        assert attended(packed, run) == sorted(column.row(row).tolist() for row in rows)
    assert (packed.positions_U == 0).sum() == 10, "position 0 once for each row"


def test_groups_are_as_wide_as_their_longest_sentence_in_any_run(column: TokenColumn) -> None:
    order = np.argsort(column.lengths, kind="stable")
    short, long = order[:6], order[-6:]
    packed = pack_runs(column, np.stack([short, long]), pad_id=0, groups=2)
    assert [group.width for group in packed.groups] == [column.lengths[long[2]], column.lengths[long[5]]]


def test_views_stand_one_after_the_other_inside_a_group(column: TokenColumn) -> None:
    packed = pack_runs(column, np.arange(8).reshape(2, 4), pad_id=0, groups=2)
    doubled = packed.in_views(packed.ids_KU[..., None], 2)
    for (_, once), (_, twice) in zip(packed.split(packed.ids_KU[..., None], 1), packed.split(doubled, 2), strict=True):
        assert torch.equal(twice, torch.cat([once, once], 1))
