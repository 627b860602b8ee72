"""DiffCSE's losses: reductions (T12), conditioning (T13), lambda 0 (T15), the other objectives."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertForMaskedLM

from cse_train import random_streams
from cse_train.encoder.backbone import Backbone
from cse_train.fields import ConfigError
from cse_train.losses import info_nce
from cse_train.methods import diffcse, simcse
from cse_train.methods.base import Batch, Share
from cse_train.methods.diffcse import DiffCSE
from cse_train.methods.options.diffcse import Config
from cse_train.text.tokens import TokenStore
from tests.cse_train.packs import lists_of

ROWS = np.arange(8)
SHIPPED = partial(Config, generator="words-l1-h64")


def by_loop(model: DiffCSE, batch: Batch) -> tuple[list[float], list[bool]]:
    """Cross-entropy and whether it is a real token, slot by slot, without dropout."""
    edited = model._fill_edits(batch)
    views = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    task = model.discriminator
    logits = task.head(task.hidden(edited.packed, views)).log_softmax(-1)
    entropies = [-row[int(label)].item() for row, label in zip(logits, edited.replaced_T, strict=True)]
    return entropies, edited.packed.attended_T().tolist()


@pytest.mark.parametrize("reduction", ["mean_all", "mean_attended", "sum"])
def test_T12_reductions_equal_a_loop_over_slots(batch_of, still, reduction: str, step) -> None:
    config = SHIPPED(reduction=reduction, generator_dropout=False, lambda_weight=0.5)
    batch, model = batch_of(config), still(config)
    entropies, real = by_loop(model, batch)
    kept = [e for e, is_real in zip(entropies, real, strict=True) if is_real]
    expected = {"mean_all": np.mean(entropies), "mean_attended": np.mean(kept), "sum": np.sum(kept)}[reduction]
    output = step(model, batch)
    assert output.metrics["loss_rtd"].item() == pytest.approx(expected, rel=1e-5)
    whole = output.metrics["loss_contrastive"] + 0.5 * output.metrics["loss_rtd"]
    assert output.loss.item() == pytest.approx(whole.item(), rel=1e-6)


def test_T12_padding_dilutes_mean_all_and_nothing_else(batch_of, still, step) -> None:
    """A longer sentence on another rank widens this rank's batch, where the reduction counts padding."""
    far = np.concatenate([ROWS[:2], [35]])
    losses = {}
    for reduction in ("mean_all", "mean_attended"):
        config = SHIPPED(reduction=reduction, generator_dropout=False)
        alone, beside = batch_of(config, ROWS[:2]), batch_of(config, ROWS[:2], far)
        model = still(config)
        losses[reduction] = [step(model, b).metrics["loss_rtd"].item() for b in (alone, beside)]
        if reduction == "mean_all":
            assert {g.width for g in beside.inputs["edited"].groups} == {14}
            assert beside.inputs["edited"].ids_T.shape != alone.inputs["edited"].ids_T.shape
    assert losses["mean_all"][0] != pytest.approx(losses["mean_all"][1], rel=1e-3)
    assert losses["mean_attended"][0] == pytest.approx(losses["mean_attended"][1], rel=1e-6)


def test_T12_a_lambda_for_the_sum_is_that_of_the_mean_over_the_tokens(batch_of, still, step) -> None:
    mean = SHIPPED(reduction="mean_attended", generator_dropout=False, lambda_weight=0.1)
    batch = batch_of(mean)
    tokens = int(batch.inputs["edited"].lengths_N.sum())
    total = SHIPPED(reduction="sum", generator_dropout=False, lambda_weight=0.1 / tokens)
    assert step(still(mean), batch).loss.item() == pytest.approx(step(still(total), batch).loss.item(), rel=1e-6)


def test_T13_conditioning_equals_transformers_on_concatenated_embeddings(batch_of, still, tiny_encoder: Path) -> None:
    """[h, e_1, ...]: h stands where [CLS]'s embedding output stood, with nothing added to it."""
    config = SHIPPED(generator_dropout=False, reduction="mean_attended")
    batch, model = batch_of(config), still(config).eval()
    edited = model._fill_edits(batch)
    condition = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    ours = lists_of(edited.packed, model.discriminator.hidden(edited.packed, condition)[:, 5])
    bert = BertForMaskedLM.from_pretrained(tiny_encoder, attn_implementation="eager").eval().bert
    for i, ids in enumerate(lists_of(edited.packed, edited.packed.ids_T)):
        embedded = bert.embeddings(torch.tensor([ids]))
        joined = torch.cat([condition[i][None, None], embedded[:, 1:]], dim=1)
        theirs = bert.encoder(joined, attention_mask=None).last_hidden_state[0, :, 5]
        torch.testing.assert_close(torch.tensor(ours[i]), theirs, atol=2e-5, rtol=0)


def test_T13_the_loss_depends_on_the_embedding_and_trains_the_encoder(batch_of, model_of, step) -> None:
    config = SHIPPED(contrastive=False, lambda_weight=1.0)
    batch, model = batch_of(config), model_of(config)
    edited = model._fill_edits(batch)
    condition = torch.randn(16, 32, requires_grad=True)
    model.discriminator.eval()
    loss, _ = model.discriminator(edited, condition)
    loss.backward()
    assert (condition.grad.abs().sum(1) > 0).all()
    assert model.discriminator(edited, condition.detach() * 2)[0].item() != loss.item()
    step(model, batch).loss.backward()
    assert model.encoder.layers[0].qkv.weight.grad.abs().max() > 0


def test_T13_every_edited_sentence_sees_the_embedding_of_its_own_view(batch_of, model_of, step) -> None:
    """With two dropout views and both sources, row k is conditioned on view k // B of sentence k % B."""
    config = SHIPPED(source="both")
    batch, model = batch_of(config), model_of(config)
    seen: dict[str, Tensor] = {}
    model.discriminator.register_forward_pre_hook(lambda _, args: seen.update(conditions=args[1]))
    model.pooler.register_forward_hook(lambda _, __, out: seen.update(views=out))
    step(model, batch)
    assert seen["conditions"].shape == (32, 32)
    for row in range(32):
        assert torch.equal(seen["conditions"][row], seen["views"][row // 8 % 2, row % 8])


def test_T13_generator_is_bit_identical_after_10_steps(batch_of, model_of, step) -> None:
    model = model_of(SHIPPED())
    batch = batch_of(SHIPPED())
    before = copy.deepcopy(model.generator.state_dict())
    started = model.discriminator.encoder.word.weight.detach().clone()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for index in range(10):
        step(model, batch, index).loss.backward()
        assert all(p.grad is None for p in model.generator.parameters())
        optimiser.step()
        optimiser.zero_grad()
    assert all(torch.equal(value, before[name]) for name, value in model.generator.state_dict().items())
    assert not torch.equal(model.discriminator.encoder.word.weight, started)


def test_the_discriminator_starts_as_the_encoder_and_shares_nothing(model_of) -> None:
    model = model_of(SHIPPED())
    for (name, mine), theirs in zip(
        model.encoder.named_parameters(), model.discriminator.encoder.parameters(), strict=True
    ):
        assert torch.equal(mine, theirs) and mine is not theirs, name


def test_T14_extra_examples_share_one_batch_norm_with_the_views(batch_of, model_of, step) -> None:
    config = SHIPPED(task="none", extra="negatives")
    model, seen = model_of(config), {}
    model.pooler.register_forward_hook(lambda _, __, out: seen.update(views=out))
    step(model, batch_of(config))
    rows = seen["views"].flatten(0, 1)
    assert seen["views"].shape == (3, 8, 32)
    torch.testing.assert_close(rows.mean(0), torch.zeros(32), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.var(0, unbiased=False), torch.ones(32), atol=1e-2, rtol=0)
    assert seen["views"][:2].flatten(0, 1).mean(0).abs().max() > 1e-3


def test_T15_lambda_0_equals_simcse_with_batch_norm_step_by_step(backbone: Backbone, store: TokenStore, step) -> None:
    """Tables 5 and 8 agree on 82.22; here every loss and every weight of the encoder agrees to the bit.

    Without gradient clipping: the norm over more tensors, all of the others zero, differs in the last bit.
    """
    ours, theirs = SHIPPED(lambda_weight=0.0), simcse.Config(projector="batchnorm")
    weights: list[Tensor] = []
    losses: list[list[float]] = []
    for method, config in ((diffcse.DiffCSE, ours), (simcse.SimCSE, theirs)):
        collate = method.make_collate(config, backbone.tokenizer, 16)
        random_streams.seed_new_weights(3)
        model = method.build(config, copy.deepcopy(backbone)).train()
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        losses.append([])
        for index in range(5):
            rows = np.arange(8) + 8 * index
            output = step(model, collate(Share(store, rows, rows, partial(random_streams.augmentation, 3, 0))), index)
            output.loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses[-1].append(output.loss.item())
        weights.append(model.encoder.layers[1].qkv.weight)
    assert losses[0] == losses[1] and len(set(losses[0])) == 5
    assert torch.equal(*weights)


@pytest.mark.parametrize("dropout", [True, False])
def test_T16_generator_dropout_is_an_option(batch_of, model_of, dropout: bool) -> None:
    config = SHIPPED(generator_dropout=dropout, masking_ratio=0.5)
    model, batch = model_of(config), batch_of(config, np.arange(40))
    first, second = (model._fill_edits(batch).packed.ids_T for _ in range(2))
    assert torch.equal(first, second) is not dropout
    assert torch.equal(*(model.eval()._fill_edits(batch).packed.ids_T for _ in range(2)))


def test_T16_a_generator_of_another_vocabulary_is_refused(backbone: Backbone, tmp_path: Path) -> None:
    other = copy.deepcopy(backbone.tokenizer)
    other.add_tokens(["newword"])
    BertForMaskedLM.from_pretrained(backbone.name).save_pretrained(tmp_path)
    other.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"^different vocabularies: .*26299 pieces"):
        diffcse.DiffCSE.build(Config(generator=str(tmp_path)), backbone)


def test_sampling_follows_torch_seed_and_is_not_greedy(batch_of, model_of) -> None:
    config = SHIPPED(sampling="sample", generator_dropout=False, masking_ratio=0.5)
    model, batch = model_of(config), batch_of(config)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(model._fill_edits(batch).packed.ids_T)
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_extra_negatives_and_positives(batch_of, model_of, step) -> None:
    """Negatives: hard negatives of SimCSE's softmax. Positives: the mean of two InfoNCE terms."""
    for extra in ("negatives", "positives"):
        config = SHIPPED(task="none", extra=extra, masking_ratio=0.15)
        model, seen = model_of(config), {}
        model.pooler.register_forward_hook(lambda _, __, out, seen=seen: seen.update(views=out))
        loss = step(model, batch_of(config)).loss.item()
        one, two, edited = seen["views"]
        both = (info_nce(one, two) + info_nce(one, edited)) / 2
        expected = info_nce(one, two, hard_negatives_BD=edited) if extra == "negatives" else both
        assert loss == pytest.approx(expected.item(), abs=1e-6)


def test_conditional_masked_lm_is_the_mean_over_chosen_tokens(batch_of, still, step) -> None:
    config = Config(task="masked_lm", masking_ratio=0.3, lambda_weight=0.5)
    batch, model = batch_of(config), still(config)
    assert model.generator is None and config.inputs() == {}
    conditions = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    task, chosen = model.discriminator, batch.tensors["chosen_T"]
    assert torch.equal(model._fill_edits(batch).packed.ids_T, batch.inputs["edited"].ids_T)
    logits = task.head(task.hidden(batch.inputs["edited"], conditions), task.encoder.word.weight)
    expected = F.cross_entropy(logits[chosen], batch.tensors["source_T"][chosen])
    output = step(model, batch)
    assert output.metrics["loss_mlm"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_corrective_lm_is_the_mean_over_real_tokens(batch_of, still, step) -> None:
    config = SHIPPED(task="corrective_lm", generator_dropout=False)
    batch, model = batch_of(config), still(config)
    edited = model._fill_edits(batch)
    conditions = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    hidden = model.discriminator.hidden(edited.packed, conditions)[edited.packed.attended_T()]
    words = model.discriminator.head(hidden, model.discriminator.encoder.word.weight).softmax(-1)
    copying = model.discriminator.copy(hidden).sigmoid()[:, 0]
    ids, source = (t[edited.packed.attended_T()] for t in (edited.packed.ids_T, edited.source_T))
    p = (ids == source) * copying + (1 - copying) * words.gather(1, source[:, None])[:, 0]
    assert step(model, batch).metrics["loss_corrective"].item() == pytest.approx(-p.log().mean().item(), rel=1e-4)
