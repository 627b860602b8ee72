"""ESimCSE's own promises: repetition on view 2 only, the queue (T18), the moving average (T19)."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.generator import fill_views
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import info_nce
from cse_train.methods import esimcse
from cse_train.methods.base import Batch, Share
from cse_train.methods.esimcse import MomentumEncoder, Queue
from cse_train.text.corpora import open_source
from cse_train.text.synonyms import STOP_WORDS
from cse_train.text.tokens import open_store
from tests.cse_train.packs import lists_of


@pytest.fixture
def batches(backbone: Backbone, text_file: Path):
    """Configuration -> five batches of 8."""

    def collate(config: esimcse.Config) -> list[Batch]:
        store = open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)
        make = esimcse.ESimCSE.make_collate(config, backbone.tokenizer, 16)
        rows = [np.arange(k, k + 8) for k in range(0, 40, 8)]
        return [make(Share(store, eight, eight, partial(random_streams.augmentation, 0, 0))) for eight in rows]

    return collate


def test_only_view_2_is_repeated(batches) -> None:
    plain, repeated = batches(esimcse.Config(dup_rate=0.0))[0], batches(esimcse.Config(dup_rate=0.5))[0]
    lengths = {name: dict(zip(b.inputs["text"].order_N.tolist(), b.inputs["text"].lengths_N.tolist(), strict=True))
               for name, b in (("plain", plain), ("repeated", repeated))}  # fmt: skip
    assert all(lengths["repeated"][i] == lengths["plain"][i] for i in range(8))
    grown = [lengths["repeated"][i] - lengths["plain"][i] for i in range(8, 16)]
    assert min(grown) >= 0 and sum(grown) > 0


def test_T18_queue_holds_the_last_momentum_embeddings_of_view_1_in_order(backbone: Backbone, batches) -> None:
    """With momentum 1 the queue is what the untouched encoder gives without dropout."""
    config = esimcse.Config(momentum=1.0, queue_multiple=2.5)
    model = esimcse.ESimCSE.build(config, backbone).train()
    untouched = copy.deepcopy(model).train()
    for index, batch in enumerate(batches(config)):
        assert len(model.queue) == min(index * 8, 20)
        output = model(batch)
        assert output.metrics["queue_rows"].item() == min(index * 8, 20)
        (-output.loss).backward()
    expected = [untouched.pooler(untouched.encoder.eval()(b.inputs["anchors"]))[0].detach() for b in batches(config)]
    torch.testing.assert_close(model.queue.rows_MD, torch.cat(expected)[-20:], atol=1e-6, rtol=1e-6)
    assert not model.queue.rows_MD.requires_grad


def test_T18_loss_has_the_queue_as_extra_columns(backbone: Backbone, batches) -> None:
    config = esimcse.Config()
    first, second = batches(config)[:2]
    model = esimcse.ESimCSE.build(config, backbone).train()
    model(first)
    held = model.queue.rows_MD.clone()
    views = model.pooler(model.encoder(second.inputs["text"]))[0]
    expected = info_nce(views[:8], views[8:], held)
    assert model(second).loss.item() == pytest.approx(expected.item(), abs=1e-5)


def test_T19_moving_average_of_pre_step_weights(backbone: Backbone) -> None:
    online = backbone.encoder
    average = MomentumEncoder(online, 0.9, "pretrained")
    seen = []
    for _ in range(4):
        seen.append({name: value.detach().clone() for name, value in online.named_parameters()})
        average.update(online)
        with torch.no_grad():
            torch._foreach_add_(list(online.parameters()), 0.1)
    for name, value in average.average.named_parameters():
        past = sum(0.9 ** (3 - i) * weights[name] for i, weights in enumerate(seen))
        torch.testing.assert_close(value, 0.9**4 * seen[0][name] + 0.1 * past)


def test_T19_initial_weights(backbone: Backbone) -> None:
    same = MomentumEncoder(backbone.encoder, 0.995, "pretrained").average.state_dict()
    assert all(torch.equal(same[name], value) for name, value in backbone.encoder.state_dict().items())
    other = MomentumEncoder(backbone.encoder, 0.995, "random").average
    assert not torch.equal(other.word.weight, backbone.encoder.word.weight)
    assert torch.equal(other.embedding_norm.weight, torch.ones(32)) and not other.embedding_norm.bias.any()


def test_queue_smaller_than_a_batch_keeps_the_newest() -> None:
    queue = Queue(0.5)
    queue.enqueue(torch.arange(4.0)[:, None])
    queue.enqueue(torch.arange(4.0, 8.0)[:, None])
    assert queue.rows_MD.flatten().tolist() == [6.0, 7.0]


def test_queue_survives_a_checkpoint() -> None:
    queue, other = Queue(2.0), Queue(2.0)
    queue.enqueue(torch.arange(6.0).view(3, 2))
    other.load_state_dict(queue.state_dict())
    assert torch.equal(other.rows_MD, queue.rows_MD)


def test_no_queue_is_simcse_with_repetition(backbone: Backbone, batches) -> None:
    config = esimcse.Config(queue_multiple=0.0)
    model = esimcse.ESimCSE.build(config, backbone)
    assert model.momentum is None and "anchors" not in batches(config)[0].inputs
    assert not [name for name in model.state_dict() if name.startswith("momentum.")]


@pytest.fixture
def views(backbone: Backbone, text_file: Path):
    """(Config, max_seq_length) -> view 1 and view 2 of all 40 lines, the lines, and the batch."""

    def collate(config: esimcse.Config, length: int) -> tuple[list, list, list[str], Batch]:
        kept = esimcse.ESimCSE.tokens_kept(config, length)
        store = open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, kept)
        rows = np.arange(40)
        share = Share(store, rows, rows, partial(random_streams.augmentation, 0, 0))
        batch = esimcse.ESimCSE.make_collate(config, backbone.tokenizer, length)(share)
        both = lists_of(batch.inputs["text"])
        return both[:40], both[40:], text_file.read_text(encoding="utf8").split("\n"), batch

    return collate


@pytest.mark.parametrize("rule", ["paper", "released"])
@pytest.mark.parametrize("extension", ["word", "stop_word", "mask"])
def test_T17_E4_view_2_is_the_longer_text_tokenised_and_then_truncated(
    extension: str, rule: str, views, backbone: Backbone
) -> None:
    """Walk both texts: behind a word there may stand the word again, a stop word, or [MASK], and nothing else."""
    allowed = {"word": lambda word: [word], "stop_word": lambda _: STOP_WORDS, "mask": lambda _: ["[MASK]"]}[extension]
    _, longer, lines, _ = views(esimcse.Config(extension=extension, dup_rule=rule), 64)
    added = 0
    for line, ids in zip(lines, longer, strict=True):
        seen = backbone.tokenizer.decode(ids[1:-1]).split()
        for word in line.split():
            assert seen.pop(0) == word
            if seen and seen[0] in allowed(word):
                added += 1
                seen.pop(0)
        assert not seen
    assert added > 20
    anchors, short, _, _ = views(esimcse.Config(extension=extension, dup_rule=rule), 8)
    assert anchors == backbone.tokenizer(lines, truncation=True, max_length=8)["input_ids"]
    assert short == [ids if len(ids) <= 8 else [*ids[:7], ids[-1]] for ids in longer]


def test_E4_masked_prediction_is_the_generators_first_choice_in_the_inserted_places(views, backbone: Backbone) -> None:
    mask_id = backbone.tokenizer.mask_token_id
    config = esimcse.Config(extension="masked_prediction", generator="words-l1-h64")
    anchors, masked, _, batch = views(config, 16)
    assert masked == views(esimcse.Config(extension="mask"), 16)[1]
    assert masked == lists_of(batch.inputs["blanks"])
    assert lists_of(batch.inputs["anchors"]) == anchors
    model = esimcse.ESimCSE.build(config, backbone).train()
    filled = lists_of(fill_views(model.generator, batch.inputs, batch.tensors)[0]["text"])
    for ids, new in zip(masked, filled[40:], strict=True):
        predicted = model.generator.predict(pack_lists([ids])).tolist()
        assert new == [p if old == mask_id else old for old, p in zip(ids, predicted, strict=True)]
    assert filled[:40] == anchors
    before = {name: value.clone() for name, value in model.generator.state_dict().items()}
    model(batch).loss.backward()
    assert all(p.grad is None for p in model.generator.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.generator.state_dict().items())
    assert esimcse.ESimCSE.build(config, backbone, training=False).generator is None


def test_T17_subwords_are_doubled_after_truncation_and_may_grow_beyond_it(views) -> None:
    anchors, longer, _, _ = views(esimcse.Config(dup_rate=0.9), 8)
    assert max(map(len, anchors)) == 8 < max(map(len, longer))
    for ids, view in zip(anchors, longer, strict=True):
        assert [new for i, new in enumerate(view) if i == 0 or view[i - 1] != new] == ids


@pytest.mark.parametrize("scope", ["gathered", "local"])
def test_queue_smaller_than_the_batch_is_one_line(scope: str, backbone: Backbone) -> None:
    config = esimcse.Config(queue_multiple=0.5, queue_scope=scope)
    line = f"^queue smaller than the batch: method.queue_multiple=0.5, method.queue_scope={scope}; use at least 1, or 0"
    for call in (
        partial(esimcse.ESimCSE.make_collate, config, backbone.tokenizer, 16),
        partial(esimcse.ESimCSE.build, config, backbone),
    ):
        with pytest.raises(ConfigError, match=line) as error:
            call()
        assert len(error.value.problems) == 1
