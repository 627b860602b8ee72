"""DeCLUTR's own promises: what is embedded and averaged (T24), which documents are read, and what is refused."""

import gzip
import json
import logging
import math
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse_train import random_streams
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import masked_lm, nt_xent
from cse_train.methods import declutr
from cse_train.methods.base import Batch, Share
from cse_train.text.corpora import open_source
from cse_train.text.tokens import TokenStore, open_store
from cse_train.training.batches import Batches
from tests.cse_train.packs import lists_of

SMALL = {"min_length": 2, "max_length": 8}


def documents_of(folder: Path, *lengths: int) -> DataPaths:
    """Gzipped JSON lines, one document of each length in tokens: every word is one piece."""
    words = "river stone bridge old market town winter letter music garden".split()
    texts = [" ".join(words[(i * i + 3 * length) % 10] for i in range(length)) for length in lengths]
    path = folder / "documents.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps({"text": text}) for text in texts).encode()))
    return DataPaths(documents=path)


def store_of(backbone: Backbone, folder: Path, *lengths: int) -> TokenStore:
    store = open_store(open_source("documents", documents_of(folder, *lengths)), backbone.tokenizer, None)
    assert (store.column("text").lengths - 2).tolist() == list(lengths)
    return store


def collated(config: declutr.Config, backbone: Backbone, store: TokenStore) -> Batch:
    rows = np.arange(store.rows)
    collate = declutr.DeCLUTR.make_collate(config, backbone.tokenizer, 32)
    return collate(Share(store, rows, rows, partial(random_streams.augmentation, 0, 0)))


def test_T24_contrastive_loss_is_a_hand_loop_over_spans(backbone: Backbone, tmp_path: Path) -> None:
    """A = P = N = 2: 8 positives give 4 means of raw vectors, and 8 directed pairs 6 negatives each."""
    config = declutr.Config(**SMALL)
    model, batch = (
        declutr.DeCLUTR.build(config, backbone),
        collated(config, backbone, store_of(backbone, tmp_path, 40, 60)),
    )

    def embed(ids: list[int]) -> torch.Tensor:
        hidden = backbone.encoder(pack_lists([ids]), tokens=True)
        return hidden.last_TH.mean(0)

    anchors, positives = lists_of(batch.inputs["anchors"]), lists_of(batch.inputs["positives"])
    assert (len(anchors), len(positives), batch.examples) == (4, 8, 2)
    means = [(embed(positives[2 * i]) + embed(positives[2 * i + 1])) / 2 for i in range(4)]
    vectors = [embed(ids) for ids in anchors] + means
    total = 0.0
    for i in range(8):
        scores = [math.exp(F.cosine_similarity(vectors[i], v, dim=0).item() / 0.05) for v in vectors]
        total -= math.log(scores[(i + 4) % 8] / (sum(scores) - scores[i]))
    assert model(batch).metrics["loss_contrastive"].item() == pytest.approx(total / 8, rel=1e-4)


def test_T24_anchor_embedding_uses_the_masked_input(backbone: Backbone, tmp_path: Path) -> None:
    """Same seed, so both objectives draw the same spans; masking changes the anchors and not the positives."""
    store = store_of(backbone, tmp_path, 40, 60, 50)
    masked, plain = (
        collated(declutr.Config(**SMALL, objective=objective, mlm_probability=0.4), backbone, store)
        for objective in ("both", "contrastive")
    )
    assert lists_of(masked.inputs["positives"]) == lists_of(plain.inputs["positives"])
    kept = torch.ones(len(masked.inputs["anchors"].ids_T), dtype=torch.bool)
    kept[masked.tensors["at_M"]] = False
    before, after = plain.inputs["anchors"].ids_T, masked.inputs["anchors"].ids_T
    assert torch.equal(before[kept], after[kept]) and torch.equal(before[~kept], masked.tensors["target_M"])
    assert (after == backbone.tokenizer.mask_token_id).sum() > 3
    model = declutr.DeCLUTR.build(declutr.Config(**SMALL), backbone)
    contrastive = declutr.DeCLUTR.build(declutr.Config(**SMALL, objective="contrastive"), backbone)
    assert model(masked).metrics["loss_contrastive"].item() == contrastive(masked).loss.item()
    assert model(masked).metrics["loss_contrastive"].item() != contrastive(plain).loss.item()


def test_one_pass_over_the_anchors_feeds_both_losses(backbone: Backbone, tmp_path: Path) -> None:
    config = declutr.Config(**SMALL)
    model, batch = (
        declutr.DeCLUTR.build(config, backbone),
        collated(config, backbone, store_of(backbone, tmp_path, 40, 60)),
    )
    passes = []
    backbone.encoder.register_forward_hook(lambda *_: passes.append(1))
    output = model(batch)
    assert len(passes) == 2
    hidden = backbone.encoder(batch.inputs["anchors"], tokens=True)
    logits = backbone.head(hidden.last_TH[batch.tensors["at_M"]], backbone.encoder.word.weight)
    total, count = masked_lm(logits, batch.tensors["target_M"])
    assert output.metrics["loss_mlm"].item() == pytest.approx((total / count).item(), rel=1e-5)
    both = output.metrics["loss_contrastive"] + output.metrics["loss_mlm"]
    assert output.loss.item() == pytest.approx(both.item(), rel=1e-6)


def test_each_objective_alone(backbone: Backbone, tmp_path: Path) -> None:
    store = store_of(backbone, tmp_path, 40, 60)
    both = declutr.DeCLUTR.build(declutr.Config(**SMALL), backbone)(collated(declutr.Config(**SMALL), backbone, store))
    config = declutr.Config(**SMALL, objective="masked_lm")
    batch = collated(config, backbone, store)
    output = declutr.DeCLUTR.build(config, backbone)(batch)
    assert set(batch.inputs) == {"anchors"}
    assert output.loss.item() == pytest.approx(both.metrics["loss_mlm"].item(), rel=1e-6)
    assert "loss_contrastive" not in output.metrics and {"alignment", "uniformity"} <= set(output.metrics)
    config = declutr.Config(**SMALL, objective="contrastive")
    model = declutr.DeCLUTR.build(config, backbone)
    output = model(collated(config, backbone, store))
    assert model.head is None and "loss_mlm" not in output.metrics
    assert output.loss.item() == output.metrics["loss_contrastive"].item()


def test_encode_is_the_mean_of_unmasked_text(backbone: Backbone) -> None:
    model = declutr.DeCLUTR.build(declutr.Config(**SMALL), backbone).eval()
    sentences = backbone.tokenizer(["the old bridge", "winter music in the garden"])["input_ids"]
    expected = [backbone.encoder(pack_lists([ids]), tokens=True).last_TH.mean(0) for ids in sentences]
    torch.testing.assert_close(model.encode(pack_lists(sentences)), torch.stack(expected), atol=1e-6, rtol=1e-5)


def test_spans_beyond_510_tokens_are_cut(backbone: Backbone, tmp_path: Path) -> None:
    config = declutr.Config(anchors=1, min_length=600, max_length=600)
    batch = collated(config, backbone, store_of(backbone, tmp_path, 1200, 1300))
    assert {len(ids) for name in batch.inputs for ids in lists_of(batch.inputs[name])} == {512}


def test_T24_short_documents_are_dropped_and_counted(
    tiny_settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """2 * A * max_length = 32 tokens are accepted, 31 are left out, and training never meets them."""
    run = parse_run(tiny_settings("declutr", train_corpus="documents", train_batch_size=2) | settings_of("drop"))
    paths = documents_of(tmp_path, 31, 32, 40, 5, 33)
    with caplog.at_level(logging.WARNING):
        batches = Batches.open(run, paths, load_backbone(run.train.encoder))
    assert batches.rows.tolist() == [1, 2, 4]
    assert "documents: 2 of 5 rows left out" in caplog.text
    assert [batches[step].inputs["anchors"].rows for step in range(20)] == [4] * 20


def settings_of(short_documents: str) -> dict[str, object]:
    return {"method.min_length": 2, "method.max_length": 8, "method.short_documents": short_documents}


def test_short_documents_adapt(tiny_settings, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """2 * A * min_length = 8 tokens are needed; a document of n tokens has spans of at most n // 4."""
    run = parse_run(tiny_settings("declutr", train_corpus="documents", train_batch_size=4) | settings_of("adapt"))
    with caplog.at_level(logging.WARNING):
        batches = Batches.open(run, documents_of(tmp_path, 7, 8, 20, 31, 90), load_backbone(run.train.encoder))
    assert batches.rows.tolist() == [1, 2, 3, 4]
    assert "3 of 4 documents have fewer than 32 tokens" in caplog.text
    longest = [0] * 5
    for seed in range(50):
        share = Share(batches.store, batches.rows, batches.rows, partial(random_streams.augmentation, seed, 0))
        for i, ids in enumerate(lists_of(batches.collate(share).inputs["anchors"])):
            longest[1 + i // 2] = max(longest[1 + i // 2], len(ids) - 2)
    assert longest == [0, 2, 4, 6, 7]


def test_documents_are_lower_cased_before_a_cased_tokenizer(tiny_encoder: Path, tmp_path: Path) -> None:
    """scripts/preprocess_openwebtext.py, whose `lowercase` is on by default: str.lower of the whole text."""
    cased = shutil.copytree(tiny_encoder, tmp_path / "cased")
    for name, setting in (
        ("tokenizer.json", {"normalizer": None}),
        ("tokenizer_config.json", {"do_lower_case": False}),
    ):
        (cased / name).write_text(json.dumps(json.loads((cased / name).read_text()) | setting))
    flat = {"method": "declutr", "train.encoder": str(cased), "train.corpus": "file", "train.batch_size": 2}
    spans = {"method.min_length": 1, "method.max_length": 2, "method.short_documents": "adapt", "method.anchors": 1}
    backbone, ids = load_backbone(str(cased)), {}
    for name, text in (("capitals", "The River Stone\nOLD Bridge"), ("lower", "the river stone\nold bridge")):
        paths = DataPaths(train_file=tmp_path / f"{name}.txt", cache=tmp_path / "cache")
        (tmp_path / f"{name}.txt").write_text(text)
        for lower in (True, False):
            store = Batches.open(parse_run(flat | spans | {"method.lower_case": lower}), paths, backbone).store
            ids[name, lower] = store.column("text").flat.tolist()
    assert ids["capitals", True] == ids["lower", True] == ids["lower", False] != ids["capitals", False]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "method.max_length=512 needs 2048 tokens and the longest has 40; .* or method.short_documents=adapt$"),
        ({"anchors": 4, "min_length": 8, "short_documents": "adapt"}, "method.min_length=8 needs 64 .* a lower value$"),
    ],
)
def test_nothing_long_enough_is_one_line(backbone: Backbone, tmp_path: Path, settings: dict, line: str) -> None:
    with pytest.raises(ConfigError, match=f"^no document is long enough: .*{line}") as error:
        declutr.DeCLUTR.usable_rows(declutr.Config(**settings), store_of(backbone, tmp_path, 40, 12))
    assert len(error.value.problems) == 1


def test_spans_beyond_the_positions_are_refused(backbone: Backbone) -> None:
    declutr.DeCLUTR.build(declutr.Config(max_length=62), backbone)
    for length in (63, 512):
        with pytest.raises(ConfigError, match=f"^spans too long: method.max_length={length}, .* 64 positions; .* 62$"):
            declutr.DeCLUTR.build(declutr.Config(max_length=length), backbone)


def test_a_missing_head_is_refused_only_where_it_is_read(backbone: Backbone) -> None:
    backbone.head = None
    with pytest.raises(ConfigError, match=r"^no masked-LM head: method.objective=both, .*or contrastive$"):
        declutr.DeCLUTR.build(declutr.Config(**SMALL), backbone)
    declutr.DeCLUTR.build(declutr.Config(**SMALL, objective="contrastive"), backbone)
    declutr.DeCLUTR.build(declutr.Config(**SMALL), backbone, training=False)


def test_crossed_lengths_are_refused(backbone: Backbone) -> None:
    with pytest.raises(ConfigError, match="^span lengths cross: method.min_length=9, method.max_length=8"):
        declutr.DeCLUTR.make_collate(declutr.Config(min_length=9, max_length=8), backbone.tokenizer, 32)


def test_positives_are_not_normalised_before_their_mean(backbone: Backbone, tmp_path: Path) -> None:
    """T24: normalised vectors would give another loss."""
    config = declutr.Config(**SMALL, objective="contrastive")
    model, batch = (
        declutr.DeCLUTR.build(config, backbone),
        collated(config, backbone, store_of(backbone, tmp_path, 40, 60)),
    )
    anchors, positives = (model.encode(batch.inputs[name]) for name in ("anchors", "positives"))
    raw, unit = (p.unflatten(0, (-1, 2)).mean(1) for p in (positives, F.normalize(positives, dim=-1)))
    assert model(batch).loss.item() == pytest.approx(nt_xent(anchors, raw).item(), rel=1e-6)
    assert abs(nt_xent(anchors, raw).item() - nt_xent(anchors, unit).item()) > 1e-5


@pytest.mark.slow
def test_real_documents(data_dir: Path) -> None:
    run = parse_run({"method": "declutr", "train.corpus": "documents", "train.batch_size": 4})
    batches = Batches.open(run, DataPaths.from_folder(data_dir), load_backbone(run.train.encoder))
    assert (len(batches.rows), batches.store.rows) == (1797, 1823), "26 are too short in words for two anchors"
    assert max(batches[0].inputs["anchors"].lengths_N.tolist()) <= 512
