"""DiffCSE's edited sentences and their labels (T11, T32), and the frozen generator (T16)."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import Packed
from cse_train.methods import diffcse
from cse_train.methods.options.diffcse import Config
from cse_train.text.tokens import TokenStore
from tests.cse_train.packs import lists_of

ROWS = np.arange(8)
SHIPPED = partial(Config, generator="words-l1-h64")


class Fixed(nn.Module):
    """A generator that says what it is told."""

    def __init__(self, ids_T: Tensor) -> None:
        super().__init__()
        self.ids_T, self.sample = ids_T, False

    def predict(self, packed: Packed, at_M: Tensor) -> Tensor:
        return self.ids_T[at_M]


def test_T11_labels_are_where_the_edited_ids_differ(batch_of, model_of, store: TokenStore, step) -> None:
    config = SHIPPED()
    batch, model = batch_of(config), model_of(config)
    edited = model._fill_edits(batch)
    ids, labels = lists_of(edited.packed, edited.packed.ids_T), lists_of(edited.packed, edited.replaced_T)
    for i in range(16):
        original = store.column("text").row(ROWS[i % 8]).tolist()
        assert labels[i] == [a != b for a, b in zip(ids[i], original, strict=True)]
        assert ids[i][0] == original[0] and not labels[i][0]
    padding = ~edited.packed.attended_T()
    assert padding.any() and not edited.replaced_T[padding].any() and not edited.packed.ids_T[padding].any()
    share = sum(map(sum, labels)) / sum(map(len, labels))
    assert step(model, batch).metrics["replaced_fraction"].item() == pytest.approx(share, abs=0.2)
    assert edited.replaced_fraction().item() == pytest.approx(share, abs=1e-6) and 0 < share < 1


def test_T11_an_identity_generator_replaces_nothing(batch_of, model_of, step) -> None:
    batch, model = batch_of(SHIPPED()), model_of(SHIPPED())
    model.generator = Fixed(batch.tensors["source_T"])
    assert not model._fill_edits(batch).replaced_T.any()
    assert step(model, batch).metrics["replaced_fraction"].item() == 0


def test_T11_unmasked_tokens_are_replaced_too_where_the_generator_disagrees(batch_of, model_of) -> None:
    """Masking as good as nothing: [SEP] and plain tokens still change, [CLS] never."""
    batch, model = batch_of(SHIPPED(masking_ratio=1e-9)), model_of(SHIPPED())
    assert not batch.tensors["chosen_T"].any()
    assert model._fill_edits(batch).replaced_T.any()
    model.generator = Fixed(torch.full_like(batch.tensors["source_T"], 77))
    edited = model._fill_edits(batch)
    assert torch.equal(edited.replaced_T, edited.packed.attended_T() & (edited.packed.positions_T > 0))


def test_the_views_are_masked_independently_and_never_at_special_tokens(batch_of, backbone: Backbone) -> None:
    batch = batch_of(SHIPPED(masking_ratio=0.5))
    chosen = lists_of(batch.inputs["edited"], batch.tensors["chosen_T"])
    assert chosen[:8] != chosen[8:] and not any(row[0] or row[-1] for row in chosen)


def test_insertion_fills_only_what_was_inserted(batch_of, model_of, store: TokenStore) -> None:
    config = SHIPPED(operator="insert", masking_ratio=0.15)
    batch, model = batch_of(config), model_of(config)
    edited = model._fill_edits(batch)
    ids, labels = lists_of(edited.packed, edited.packed.ids_T), lists_of(edited.packed, edited.replaced_T)
    for i in range(16):
        original = store.column("text").row(ROWS[i % 8]).tolist()
        assert [t for t, new in zip(ids[i], labels[i], strict=True) if not new] == original
        assert sum(labels[i]) == max(1, round(0.15 * (len(original) - 2)))
    assert not (edited.packed.ids_T == 4).any() or 4 in model.generator.predict(batch.inputs["edited"])


def test_deletion_needs_no_generator_and_labels_what_follows(batch_of, model_of, step) -> None:
    config = Config(operator="delete", masking_ratio=0.15)
    model, batch = model_of(config), batch_of(config)
    assert model.generator is None and config.inputs() == {}
    edited = model._fill_edits(batch)
    assert torch.equal(edited.replaced_T, batch.tensors["edited_T"]) and edited.replaced_T.any()
    assert torch.isfinite(step(model, batch).loss)


def test_T32_the_next_sentence_is_the_next_row_of_the_file(batch_of, store: TokenStore) -> None:
    rows = np.array([5, 0, 38])
    column = store.column("text")
    for source, wanted in (("next", [6, 1, 39]), ("both", [5, 0, 38, 5, 0, 38, 6, 1, 39])):
        batch = batch_of(SHIPPED(source=source), rows)
        found = lists_of(batch.inputs["edited"], batch.tensors["source_T"])
        assert found[: len(wanted)] == [column.row(i).tolist() for i in wanted]
    assert diffcse.DiffCSE.usable_rows(SHIPPED(source="next"), store).tolist() == list(range(39))
    assert len(diffcse.DiffCSE.usable_rows(SHIPPED(), store)) == 40
