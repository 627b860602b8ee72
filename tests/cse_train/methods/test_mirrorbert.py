"""Mirror-BERT's own promises: what a masked span is, where it lies, and the loss over a text and its mirror image."""

import copy
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.methods import mirrorbert
from tests.cse_train.methods import parts

SHORT, LONG = "the old river bridge", "the old river bridge near the summer house"


batch_of = partial(parts.batch_of, mirrorbert.MirrorBERT)


def masked(backbone: Backbone, text: str, seed: int, span: int = 5, length: int = 32, masking: str = "intended") -> str:
    config = mirrorbert.Config(span=span, masking=masking)
    collate = mirrorbert.MirrorBERT.make_collate(config, backbone.tokenizer, length)
    ids = np.array(backbone.tokenizer(text)["input_ids"])
    return backbone.tokenizer.decode(collate.masked(ids, np.random.default_rng(seed))[1:-1])


def test_the_span_is_k_characters_anywhere_and_the_rest_stays(backbone: Backbone) -> None:
    """One mask; with the spaces aside, exactly five characters or fewer, where it took a space, are gone."""
    begins = set()
    for seed in range(300):
        left, right = masked(backbone, LONG, seed).split("[MASK]")
        left, right = left.replace(" ", ""), right.replace(" ", "")
        whole = LONG.replace(" ", "")
        assert whole.startswith(left) and whole.endswith(right)
        assert 3 <= len(whole) - len(left) - len(right) <= 5
        begins.add(len(left))
    assert len(begins) > 25 and 0 in begins


def test_short_texts_and_span_0_stay(backbone: Backbone) -> None:
    assert len(SHORT) < 30 <= len(LONG)
    assert {masked(backbone, SHORT, seed) for seed in range(20)} == {SHORT}
    assert {masked(backbone, LONG, seed, span=0) for seed in range(20)} == {LONG}


def test_the_release_masks_where_the_characters_first_stand_with_bert_s_mask_for_every_tokenizer(
    backbone: Backbone,
) -> None:
    """data_loader.py:21-23: in a text of one word again and again, every span begins in its first ten characters."""
    again = "stone " * 12
    begins = {
        kind: {len(masked(backbone, again, seed, masking=kind).split("[MASK]")[0]) for seed in range(60)}
        for kind in ("released", "intended")
    }
    assert max(begins["released"]) < 10 < max(begins["intended"])
    other = copy.deepcopy(backbone.tokenizer)
    other.mask_token = "light"
    for kind, word in (("released", "[MASK]"), ("intended", "light")):
        collate = mirrorbert.MirrorBERT.make_collate(mirrorbert.Config(masking=kind), other, 32)
        ids = collate.masked(np.array(other(LONG)["input_ids"]), np.random.default_rng(0))
        assert other.convert_tokens_to_ids(word) in ids


def test_the_masked_text_keeps_the_length_that_is_read(backbone: Backbone) -> None:
    collate = mirrorbert.MirrorBERT.make_collate(mirrorbert.Config(), backbone.tokenizer, 8)
    ids = np.array(backbone.tokenizer(LONG, truncation=True, max_length=8)["input_ids"])
    lengths = [len(collate.masked(ids, np.random.default_rng(seed))) for seed in range(50)]
    assert max(lengths) == 8


@pytest.mark.parametrize("padding", ["averaged", "left_out"])
def test_loss_is_a_hand_loop_in_both_directions(backbone: Backbone, text_file: Path, padding: str) -> None:
    """Equation 1: mean vectors, each against the other eleven; 16 slots of each text, or its own alone."""
    config, width = mirrorbert.Config(padding=padding), 16 if padding == "averaged" else None
    batch = batch_of(config, backbone, text_file)
    rows = batch.inputs["text"].unpacked(batch.inputs["text"].ids_T)
    assert len(rows) == 12 and any(len(a) != len(b) or (a != b).any() for a, b in zip(rows[:6], rows[6:], strict=True))
    packs = [pack_lists([ids], width=width) for ids in rows]
    vectors = [backbone.encoder(pack, tokens=True).last_TH.mean(0).double() for pack in packs]
    total = 0.0
    for i in range(12):
        scores = [math.exp(F.cosine_similarity(vectors[i], v, dim=0).item() / 0.04) for v in vectors]
        total -= math.log(scores[(i + 6) % 12] / (sum(scores) - scores[i]))
    model = mirrorbert.MirrorBERT.build(config, backbone)
    assert model(batch).loss.item() == pytest.approx(total / 12, rel=1e-4)


def test_dropout_alone_makes_two_views(tiny_encoder: Path, text_file: Path) -> None:
    backbone = load_backbone(str(tiny_encoder), dropout=0.1)
    batch = batch_of(mirrorbert.Config(span=0), backbone, text_file)
    model = mirrorbert.MirrorBERT.build(mirrorbert.Config(span=0), backbone).train()
    one, two = model.encode(batch.inputs["text"]).split(6)
    assert (one - two).abs().amax(1).min() > 1e-3
    assert (
        model.pooler is None
        and mirrorbert.MirrorBERT.build(mirrorbert.Config(padding="left_out"), backbone).pooler is not None
    )
    one, two = model.eval().encode(batch.inputs["text"]).split(6)
    torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_cls_is_the_bare_last_layer(backbone: Backbone) -> None:
    model = mirrorbert.MirrorBERT.build(mirrorbert.Config(pooler="cls_no_mlp"), backbone).eval()
    packed = pack_lists(backbone.tokenizer([SHORT, LONG])["input_ids"])
    torch.testing.assert_close(model.encode(packed), backbone.encoder(packed).cls_VNH[0])
