"""SimCSE and DCPCSE with masked LM, and DiffCSE, against the authors' forward passes: the loss, and every gradient."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoTokenizer, BertForMaskedLM, PretrainedConfig, RobertaForMaskedLM

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone, read_encoder
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.folders import find_weights
from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.transformers_io import encoder_to_transformers, head_to_transformers
from cse_train.methods import dcpcse, diffcse, simcse
from cse_train.methods.base import Batch, Share
from cse_train.text.corpora import open_source
from cse_train.text.tokens import open_store
from tests.cse_train.methods.released import restated
from tests.cse_train.methods.released.restated import Tensors

MASK = 4


@pytest.fixture
def config(config_of, kind: str) -> PretrainedConfig:
    """Without dropout."""
    return config_of(kind, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=64)


@pytest.fixture
def backbone(config: PretrainedConfig, stirred, tiny_encoder: Path) -> Backbone:
    """BERT or RoBERTa with its masked-LM head; the tokenizer is not used."""
    model = (BertForMaskedLM if config.model_type == "bert" else RobertaForMaskedLM)(config)
    stirred(model)
    encoder, head = read_encoder(model.state_dict(), config)
    return Backbone("random", encoder, AutoTokenizer.from_pretrained(tiny_encoder), head)


@pytest.fixture
def batch(sentences: list[list[int]], config: PretrainedConfig) -> Batch:
    """Ragged sentences and both views masked; in BERT's, masking has drawn [PAD] as a random word."""
    rows = [np.array(ids) for ids in sentences]
    masking = Masking(0.3, MASK, config.pad_token_id, config.vocab_size, tuple(range(5)))
    rngs = [np.random.default_rng(i) for i in range(2 * len(rows))]
    masked, at_M, target_M = masking.pack(rows * 2, rngs)
    if config.model_type == "bert":
        masked.ids_T[at_M[3]] = config.pad_token_id
    text = pack_lists(rows, pad_id=config.pad_token_id)
    return Batch({"text": text, "masked": masked}, len(rows), {"at_M": at_M, "target_M": target_M})


def laid_out(packed: Packed, pad: int, values_T: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A pack's ids, or other values of its slots, and its mask as rows [N, L] in batch order."""
    rows = packed.unpacked(packed.ids_T if values_T is None else values_T)
    width = max(map(len, rows))
    ids = torch.tensor(np.array([np.pad(row, (0, width - len(row)), constant_values=pad) for row in rows]))
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


def labels_of(batch: Batch) -> Tensor:
    """What stood at masked positions, -100 elsewhere [2 * B, L]."""
    masked = batch.inputs["masked"]
    target_T = torch.full_like(masked.ids_T, -100).index_copy(0, batch.tensors["at_M"], batch.tensors["target_M"])
    return laid_out(masked, -100, target_T)[0]


def gradients(encoder: Encoder) -> Tensors:
    """Under transformers' names; zero where there is none."""
    holder = copy.deepcopy(encoder)
    holder.load_state_dict(
        {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in encoder.named_parameters()}
    )
    return encoder_to_transformers(holder)


def weights_of(backbone: Backbone) -> tuple[Tensors, Tensors]:
    """Encoder and head, with the decoder that the release loads: what the word embeddings are."""
    assert isinstance(backbone.encoder, Encoder) and backbone.head is not None
    body = encoder_to_transformers(backbone.encoder)
    name = f"{restated.PREDICTIONS[backbone.config.model_type][2]}.decoder.weight"
    return body, head_to_transformers(backbone.head, backbone.config) | {
        name: body["embeddings.word_embeddings.weight"]
    }


def head_gradients(head: nn.Module, config: PretrainedConfig) -> Tensors:
    holder = copy.deepcopy(head)
    with torch.no_grad():
        for mine, theirs in zip(holder.parameters(), head.parameters(), strict=True):
            mine.copy_(theirs.grad)
    name = f"{restated.PREDICTIONS[config.model_type][2]}.decoder.weight"
    return head_to_transformers(holder, config) | {name: holder.decoder.detach()}


def assert_alike(ours: Tensors, theirs: Tensors) -> None:
    """Every gradient, by the largest entry of all. fp32 sums in another order differ by 1.3e-5 of it on an AVX2 CPU."""
    scale = max(leaf.grad.abs().max() for leaf in theirs.values() if leaf.grad is not None)
    for name, leaf in theirs.items():
        expected = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        assert (ours[name] - expected).abs().max() <= 3e-5 * scale, name


def test_the_restated_body_is_that_of_transformers(config, peer_of, sentences, pad) -> None:
    peer = peer_of(config)
    given = pad(sentences, config.pad_token_id)
    expected = peer(**given).last_hidden_state
    found = restated.body(dict(peer.named_parameters()), config, given["input_ids"], given["attention_mask"])
    real = given["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def test_simcse_with_masked_lm_is_the_release(backbone, batch: Batch, config) -> None:
    body, head = map(restated.leaves, weights_of(backbone))
    model = simcse.SimCSE.build(simcse.Config(mlm_weight=0.1), backbone).train()
    mlp = restated.leaves(model.pooler.projector.state_dict())
    (ids, mask), (masked_ids, masked_mask) = (
        laid_out(batch.inputs[n], config.pad_token_id) for n in ("text", "masked")
    )
    pooled = restated.body(body, config, ids.repeat(2, 1), mask.repeat(2, 1))[:, 0]
    views = torch.tanh(restated.linear(mlp, "dense", pooled)).chunk(2)
    hidden = restated.body(body, config, masked_ids, masked_mask)
    expected = restated.contrastive(*views) + 0.1 * restated.mlm_loss(head, config, hidden, labels_of(batch))
    expected.backward()
    output = model(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-6, rel=1e-6)
    assert_alike(gradients(model.encoder) | head_gradients(model.head, config), body | head)
    assert_alike({n: p.grad for n, p in model.pooler.projector.named_parameters()}, mlp)


def test_dcpcse_with_masked_lm_is_the_release(backbone, batch: Batch, config) -> None:
    body, head = weights_of(backbone)
    head = restated.leaves(head)
    random_streams.seed_new_weights(0)
    model = dcpcse.DCPCSE.build(dcpcse.Config(mlm_weight=0.1, prompt_length=5), backbone).train()
    with torch.no_grad():
        model.prompted.prompts.weight.mul_(30)
    mlp = restated.leaves(model.pooler.projector.state_dict())
    prefix_LKPH = model.prompted.prompts.weight.detach().clone().requires_grad_()
    layers, _, length, width = prefix_LKPH.shape
    heads = config.num_attention_heads

    def prompt(rows: int) -> list[Tensor]:
        """get_prompt: an embedding [P, layers * 2 * heads * D] for every row."""
        table = prefix_LKPH.permute(2, 0, 1, 3).reshape(length, -1).expand(rows, -1, -1)
        return list(table.view(rows, length, layers * 2, heads, width // heads).permute(2, 0, 3, 1, 4).split(2))

    (ids, mask), (masked_ids, masked_mask) = (
        laid_out(batch.inputs[n], config.pad_token_id) for n in ("text", "masked")
    )
    ids, mask = ids.repeat(2, 1), mask.repeat(2, 1)
    pooled = restated.body(body, config, ids, mask, prompt(len(ids)))[:, 0]
    views = torch.tanh(restated.linear(mlp, "dense", pooled)).chunk(2)
    hidden = restated.body(body, config, masked_ids, masked_mask, prompt(len(ids)))
    expected = restated.contrastive(*views) + 0.1 * restated.mlm_loss(head, config, hidden, labels_of(batch))
    expected.backward()
    output = model(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-6, rel=1e-6)
    assert_alike(
        {"prompts": model.prompted.prompts.weight.grad, **head_gradients(model.head, config)},
        {"prompts": prefix_LKPH, **head},
    )
    assert_alike({n: p.grad for n, p in model.pooler.projector.named_parameters()}, mlp)
    assert all(p.grad is None for p in model.prompted.encoder.parameters())


@pytest.mark.parametrize(("method", "options"), [(simcse.SimCSE, simcse.Config), (dcpcse.DCPCSE, dcpcse.Config)])
def test_a_tied_decoder_is_the_word_embedding(backbone, batch: Batch, method, options) -> None:
    model = method.build(options(mlm_weight=0.1, mlm_decoder="tied"), backbone).train()
    assert model.head.decoder is None and not [name for name in model.state_dict() if "decoder" in name]
    free = method.build(options(mlm_weight=0.1), copy.deepcopy(backbone)).train()
    free.load_state_dict(model.state_dict() | {"head.decoder": free.head.decoder})
    torch.testing.assert_close(model(batch).loss, free(batch).loss)


def test_diffcse_is_the_release_padding_included(kind: str, random_encoder, text_file: Path, tmp_path: Path) -> None:
    """The generator is frozen and runs in transformers; [PAD] has no gradient in either encoder."""
    folder, generator_folder = random_encoder(kind), find_weights() / "words-l1-h64"
    backbone = load_backbone(str(folder), dropout=0.0)
    config, tokenizer = backbone.config, backbone.tokenizer
    options = diffcse.Config(generator="words-l1-h64", generator_dropout=False, lambda_weight=0.5)
    random_streams.seed_new_weights(0)
    model = diffcse.DiffCSE.build(options, backbone).train()
    store = open_store(open_source("file", DataPaths(train_file=text_file)), tokenizer, 16)
    rows = np.arange(8)
    share = Share(store, rows, rows, partial(random_streams.augmentation, 0, 0))
    batch = diffcse.DiffCSE.make_collate(options, tokenizer, 16)(share)
    generator = BertForMaskedLM.from_pretrained(generator_folder).eval()
    encoder, discriminator = (restated.leaves(encoder_to_transformers(backbone.encoder)) for _ in range(2))
    mlp = restated.leaves(dict(model.pooler.projector.named_parameters()))
    head = restated.leaves(model.discriminator.head.state_dict())

    ids, mask = (one.repeat(2, 1) for one in laid_out(batch.inputs["text"], config.pad_token_id))
    views_NH = restated.projection_mlp(mlp, restated.body(encoder, config, ids, mask)[:, 0])
    mlm_ids, _ = laid_out(batch.inputs["edited"], tokenizer.pad_token_id)
    with torch.no_grad():
        guessed = generator(mlm_ids, attention_mask=mask)[0].argmax(-1)
    guessed[:, 0] = tokenizer.cls_token_id
    replaced = (guessed != ids) * mask
    hidden = restated.body(discriminator, config, guessed * mask, mask, cls_input_NH=views_NH)
    scores = F.linear(hidden, head["weight"], head["bias"])
    expected = restated.contrastive(*views_NH.chunk(2))
    expected = expected + 0.5 * F.cross_entropy(scores.view(-1, 2), replaced.view(-1))
    expected.backward()

    assert (mask == 0).any() and replaced.any()
    output = model(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-6, rel=1e-6)
    assert_alike(gradients(model.encoder), encoder)
    assert_alike(gradients(model.discriminator.encoder), discriminator)
    assert_alike({n: p.grad for n, p in model.discriminator.head.named_parameters()}, head)
    assert_alike({n: p.grad for n, p in model.pooler.projector.named_parameters()}, mlp)
    for one in (model.encoder, model.discriminator.encoder):
        assert not one.word.weight.grad[config.pad_token_id].any()
