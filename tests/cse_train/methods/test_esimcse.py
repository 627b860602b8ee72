"""ESimCSE's own promises: repetition on view 2 only, the queue (T18), the moving average (T19)."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import streams
from cse_train.config import DataPaths
from cse_train.losses.info_nce import info_nce
from cse_train.methods import esimcse
from cse_train.methods.base import Batch, Share
from cse_train.modules.backbone import Backbone, load_backbone
from cse_train.modules.momentum import MomentumEncoder
from cse_train.modules.queue import Queue
from cse_train.text.sources import open_source
from cse_train.text.tokens import open_store


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder), dropout=0.0)


@pytest.fixture
def batches(backbone: Backbone, text_file: Path):
    """Configuration -> five batches of 8."""

    def collate(config: esimcse.Config) -> list[Batch]:
        store = open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)
        make = esimcse.make_collate(config, backbone.tokenizer, 16)
        rows = [np.arange(k, k + 8) for k in range(0, 40, 8)]
        return [make(Share(store, eight, eight, partial(streams.augmentation, 0, 0))) for eight in rows]

    return collate


def test_only_view_2_is_repeated(batches) -> None:
    plain, repeated = batches(esimcse.Config(dup_rate=0.0))[0], batches(esimcse.Config(dup_rate=0.5))[0]
    lengths = {name: dict(zip(b.inputs["views"].order_N.tolist(), b.inputs["views"].lengths_N.tolist(), strict=True))
               for name, b in (("plain", plain), ("repeated", repeated))}  # fmt: skip
    assert all(lengths["repeated"][i] == lengths["plain"][i] for i in range(8))
    grown = [lengths["repeated"][i] - lengths["plain"][i] for i in range(8, 16)]
    assert min(grown) >= 0 and sum(grown) > 0


def test_t18_queue_holds_the_last_momentum_embeddings_of_view_1_in_order(backbone: Backbone, batches) -> None:
    """With momentum 1 the queue is what the untouched encoder gives without dropout."""
    config = esimcse.Config(momentum=1.0, queue_multiple=2.5)
    model = esimcse.build(config, backbone).train()
    untouched = copy.deepcopy(model).train()
    for index, batch in enumerate(batches(config)):
        assert len(model.queue) == min(index * 8, 20)
        output = model(batch)
        assert output.metrics["queue_rows"].item() == min(index * 8, 20)
        (-output.loss).backward()
    expected = [untouched.pooler(untouched.encoder.eval()(b.inputs["anchors"]))[0].detach() for b in batches(config)]
    torch.testing.assert_close(model.queue.rows_MD, torch.cat(expected)[-20:], atol=1e-6, rtol=1e-6)
    assert not model.queue.rows_MD.requires_grad


def test_t18_loss_has_the_queue_as_extra_columns(backbone: Backbone, batches) -> None:
    config = esimcse.Config()
    first, second = batches(config)[:2]
    model = esimcse.build(config, backbone).train()
    model(first)
    held = model.queue.rows_MD.clone()
    views = model.pooler(model.encoder(second.inputs["views"]))[0]
    expected = info_nce(views[:8], views[8:], held)
    assert model(second).loss.item() == pytest.approx(expected.item(), abs=1e-5)


def test_t19_moving_average_of_pre_step_weights(backbone: Backbone) -> None:
    online = backbone.encoder
    average = MomentumEncoder(online, 0.9, "pretrained")
    start = online.layers[0].qkv.weight.detach().clone()
    seen = []
    for _ in range(4):
        seen.append(online.layers[0].qkv.weight.detach().clone())
        average.update(online)
        with torch.no_grad():
            online.layers[0].qkv.weight.add_(0.1)
    expected = 0.9**4 * start + 0.1 * sum(0.9 ** (3 - i) * value for i, value in enumerate(seen))
    torch.testing.assert_close(average.average.layers[0].qkv.weight, expected)


def test_t19_initial_weights(backbone: Backbone) -> None:
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
    model = esimcse.build(config, backbone)
    assert model.momentum is None and "anchors" not in batches(config)[0].inputs
    assert not [name for name in model.state_dict() if name.startswith("momentum.")]
