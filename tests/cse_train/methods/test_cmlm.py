"""CMLM's own promises: which sentence is masked, what stands in front of it, and the loss over the masked tokens."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import cmlm
from tests.cse_train.methods.parts import parts_of

ROWS = np.array([0, 5, 9, 12, 20, 38])


@pytest.fixture
def parts(tiny_settings, text_file: Path):
    """Options -> (model in training mode without dropout, a batch of 6, its store)."""

    def make(**options: object):
        return parts_of(tiny_settings("cmlm"), text_file, ROWS, **{"masking_ratio": 0.4, **options})[1:4]

    return make


def masked_rows(batch, front: int) -> tuple[list[list[int]], list[dict[int, int]]]:
    """Each sentence as it is masked, without the slots in front, and place -> true token, in batch order."""
    packed = batch.inputs["masked"]
    target_T = torch.full_like(packed.ids_T, -1).index_copy(0, batch.tensors["at_M"], batch.tensors["target_M"])
    ids = [row[front:].tolist() for row in packed.unpacked(packed.ids_T)]
    targets = [row[front:].tolist() for row in packed.unpacked(target_T)]
    return ids, [{place: true for place, true in enumerate(row) if true >= 0} for row in targets]


@pytest.mark.parametrize(("source", "offset"), [("next", 1), ("same", 0)])
def test_the_masked_sentence_is_the_next_row_or_the_same(parts, source: str, offset: int) -> None:
    _, batch, store = parts(source=source)
    ids, targets = masked_rows(batch, 15)
    for row, masked, true in zip(ROWS, ids, targets, strict=True):
        original = store.column("text").row(row + offset).tolist()
        assert [true.get(place, token) for place, token in enumerate(masked)] == original
        assert 0 not in true and len(original) - 1 not in true, "special tokens are never masked"
    assert len(cmlm.CMLM.usable_rows(cmlm.Config(source=source), store)) == store.rows - offset


def test_an_indifferent_head_costs_the_logarithm_of_the_vocabulary(parts) -> None:
    model, batch, _ = parts()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.zero_()
    assert model(batch).loss.item() == pytest.approx(math.log(26_298), abs=1e-4)


@pytest.mark.parametrize("vectors", [1, 15])
def test_the_loss_equals_transformers_token_by_token(parts, tiny_encoder: Path, vectors: int) -> None:
    """[P(v)_1 ... P(v)_N, e_1, ...]: the vectors have nothing added, the tokens keep their own positions."""
    model, batch, store = parts(vectors=vectors)
    peer = BertForMaskedLM.from_pretrained(tiny_encoder, attn_implementation="eager").eval()
    entropies = []
    with torch.no_grad():
        for row, ids, true in zip(ROWS, *masked_rows(batch, vectors), strict=True):
            first = torch.tensor(store.column("text").row(row)[None].astype(np.int64))
            embedding = peer.bert(first).last_hidden_state.mean(1)
            front = model.projection(embedding).view(1, vectors, 32)
            joined = torch.cat([front, peer.bert.embeddings(torch.tensor([ids]))], dim=1)
            states = peer.bert.encoder(joined, attention_mask=None).last_hidden_state
            chances = peer.cls(states)[0, vectors:].softmax(-1)
            entropies += [-math.log(chances[place, token]) for place, token in true.items()]
    assert len(entropies) > 8
    assert model(batch).loss.item() == pytest.approx(np.mean(entropies), rel=1e-4)


def test_frozen_value(parts) -> None:
    """Provenance: the tiny encoder of these tests; transformers agrees; first recorded with torch 2.13."""
    model, batch, _ = parts()
    assert model(batch).loss.item() == pytest.approx(FROZEN, abs=1e-4)


FROZEN = 10.944206


def test_each_sentence_is_predicted_from_its_own_embedding(parts) -> None:
    model, batch, _ = parts()
    seen: dict[str, torch.Tensor] = {}
    model.projection.register_forward_pre_hook(lambda _, args: seen.update(v=args[0].requires_grad_()))
    model(batch)
    assert torch.equal(seen["v"], model.encode(batch.inputs["text"]))
    before = model(batch).loss.item()
    batch.inputs["text"] = pack_lists([[2, 99, 3]] * len(ROWS))
    assert model(batch).loss.item() != pytest.approx(before, rel=1e-4)


def test_vectors_that_overflow_positions_are_one_line(parts) -> None:
    with pytest.raises(
        ConfigError, match=r"^vectors overflow positions: method.vectors=60 and \d+ tokens, of 64; lower"
    ):
        parts(vectors=60)


def test_an_encoder_without_a_head_is_one_line(tiny_encoder: Path) -> None:
    backbone = load_backbone(str(tiny_encoder))
    backbone.head = None
    with pytest.raises(ConfigError, match=r"^no masked-LM head: method=cmlm, train.encoder="):
        cmlm.CMLM.build(cmlm.Config(), backbone)
    assert cmlm.CMLM.build(cmlm.Config(), backbone, training=False).projection is None
