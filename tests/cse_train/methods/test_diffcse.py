"""DiffCSE's own promises: labels (T11), reductions (T12), conditioning (T13), lambda 0 (T15), the generator (T16)."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertForMaskedLM

from cse_train import streams
from cse_train.config import DataPaths
from cse_train.fields import ConfigError
from cse_train.losses.info_nce import info_nce
from cse_train.methods import diffcse, simcse
from cse_train.methods.base import Batch, Share
from cse_train.methods.diffcse import Config, DiffCSE
from cse_train.modules.backbone import Backbone, load_backbone
from cse_train.modules.packing import Packed, pack_lists
from cse_train.text.sources import open_source
from cse_train.text.tokens import TokenStore, open_store

ROWS = np.arange(8)
SHIPPED = partial(Config, generator="wiki-l1-h64")


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


@pytest.fixture
def store(backbone: Backbone, text_file: Path) -> TokenStore:
    return open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)


@pytest.fixture
def batch_of(backbone: Backbone, store: TokenStore):
    """(configuration, rows, rows of all ranks) -> a batch."""

    def collate(config: Config, rows: np.ndarray = ROWS, together: np.ndarray | None = None) -> Batch:
        share = Share(store, rows, rows if together is None else together, partial(streams.augmentation, 0, 0))
        return diffcse.make_collate(config, backbone.tokenizer, 16)(share)

    return collate


@pytest.fixture
def model_of(backbone: Backbone):
    """Configuration -> a model in training mode, its new weights seeded, the backbone untouched."""

    def build(config: Config) -> DiffCSE:
        streams.seed_new_weights(0)
        return diffcse.build(config, copy.deepcopy(backbone)).train()

    return build


class Fixed(nn.Module):
    """A generator that says what it is told."""

    def __init__(self, ids_T: Tensor) -> None:
        super().__init__()
        self.ids_T = ids_T

    def predict(self, packed: Packed) -> Tensor:
        return self.ids_T


def by_row(packed: Packed, values_T: Tensor) -> list[list]:
    """Packed slots as one list a sentence, in batch order, padding cut off."""
    rows = [row.flatten().tolist() for _, block in packed.split(values_T[:, None]) for row in block]
    cut = [row[:n] for row, n in zip(rows, packed.lengths_N.tolist(), strict=True)]
    return [cut[i] for i in packed.order_N.argsort().tolist()]


def step(model: nn.Module, batch: Batch, index: int = 0):
    streams.seed_dropout(0, index, 0)
    return model(batch)


# ---- what is edited, and the labels


def test_T11_labels_are_where_the_edited_ids_differ(batch_of, model_of, store: TokenStore) -> None:
    config = SHIPPED()
    batch, model = batch_of(config), model_of(config)
    edited = model._edited(batch)
    ids, labels = by_row(edited.packed, edited.packed.ids_T), by_row(edited.packed, edited.replaced_T)
    for i in range(16):
        original = store.column("text").row(ROWS[i % 8]).tolist()
        assert labels[i] == [a != b for a, b in zip(ids[i], original, strict=True)]
        assert ids[i][0] == original[0] and not labels[i][0]
    padding = ~edited.packed.attended_T()
    assert padding.any() and not edited.replaced_T[padding].any() and not edited.packed.ids_T[padding].any()
    share = sum(map(sum, labels)) / sum(map(len, labels))
    assert step(model, batch).metrics["replaced_fraction"].item() == pytest.approx(share, abs=0.2)
    assert edited.replaced_fraction().item() == pytest.approx(share, abs=1e-6) and 0 < share < 1


def test_T11_an_identity_generator_replaces_nothing(batch_of, model_of) -> None:
    batch, model = batch_of(SHIPPED()), model_of(SHIPPED())
    model.generator = Fixed(batch.tensors["source_T"])
    assert not model._edited(batch).replaced_T.any()
    assert step(model, batch).metrics["replaced_fraction"].item() == 0


def test_T11_unmasked_tokens_are_replaced_too_where_the_generator_disagrees(batch_of, model_of) -> None:
    """Masking as good as nothing: [SEP] and plain tokens still change, [CLS] never."""
    batch, model = batch_of(SHIPPED(masking_ratio=1e-9)), model_of(SHIPPED())
    assert not batch.tensors["chosen_T"].any()
    assert model._edited(batch).replaced_T.any()
    model.generator = Fixed(torch.full_like(batch.tensors["source_T"], 77))
    edited = model._edited(batch)
    assert torch.equal(edited.replaced_T, edited.packed.attended_T() & (edited.packed.positions_T > 0))


def test_the_views_are_masked_independently_and_never_at_special_tokens(batch_of, backbone: Backbone) -> None:
    batch = batch_of(SHIPPED(masking_ratio=0.5))
    chosen = by_row(batch.inputs["edited"], batch.tensors["chosen_T"])
    assert chosen[:8] != chosen[8:] and not any(row[0] or row[-1] for row in chosen)


def test_insertion_fills_only_what_was_inserted(batch_of, model_of, store: TokenStore) -> None:
    config = SHIPPED(operator="insert", masking_ratio=0.15)
    batch, model = batch_of(config), model_of(config)
    edited = model._edited(batch)
    ids, labels = by_row(edited.packed, edited.packed.ids_T), by_row(edited.packed, edited.replaced_T)
    for i in range(16):
        original = store.column("text").row(ROWS[i % 8]).tolist()
        assert [t for t, new in zip(ids[i], labels[i], strict=True) if not new] == original
        assert sum(labels[i]) == max(1, round(0.15 * (len(original) - 2)))
    assert not (edited.packed.ids_T == 4).any() or 4 in model.generator.predict(batch.inputs["edited"])


def test_deletion_needs_no_generator_and_labels_what_follows(batch_of, model_of) -> None:
    config = Config(operator="delete", masking_ratio=0.15)
    model, batch = model_of(config), batch_of(config)
    assert model.generator is None and diffcse.inputs(config) == {}
    edited = model._edited(batch)
    assert torch.equal(edited.replaced_T, batch.tensors["edited_T"]) and edited.replaced_T.any()
    assert torch.isfinite(step(model, batch).loss)


def test_T32_the_next_sentence_is_the_next_row_of_the_file(batch_of, store: TokenStore) -> None:
    rows = np.array([5, 0, 38])
    column = store.column("text")
    for source, wanted in (("next", [6, 1, 39]), ("both", [5, 0, 38, 5, 0, 38, 6, 1, 39])):
        batch = batch_of(SHIPPED(source=source), rows)
        found = by_row(batch.inputs["edited"], batch.tensors["source_T"])
        assert found[: len(wanted)] == [column.row(i).tolist() for i in wanted]
    assert diffcse.usable_rows(SHIPPED(source="next"), store).tolist() == list(range(39))
    assert len(diffcse.usable_rows(SHIPPED(), store)) == 40


# ---- the replaced-token loss


def by_loop(model: DiffCSE, batch: Batch) -> tuple[list[float], list[bool]]:
    """Cross-entropy and whether it is a real token, slot by slot, without dropout."""
    edited = model._edited(batch)
    views = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    task = model.discriminator
    logits = task.head(task.hidden(edited.packed, views)).log_softmax(-1)
    entropies = [-row[int(label)].item() for row, label in zip(logits, edited.replaced_T, strict=True)]
    return entropies, edited.packed.attended_T().tolist()


@pytest.fixture
def still(tiny_encoder: Path):
    """Configuration -> a model without any dropout."""

    def build(config: Config) -> DiffCSE:
        streams.seed_new_weights(0)
        return diffcse.build(config, load_backbone(str(tiny_encoder), dropout=0.0)).train()

    return build


@pytest.mark.parametrize("reduction", ["mean_all", "mean_attended", "sum"])
def test_T12_reductions_equal_a_loop_over_slots(batch_of, still, reduction: str) -> None:
    config = SHIPPED(reduction=reduction, generator_dropout=False, lambda_weight=0.5)
    batch, model = batch_of(config), still(config)
    entropies, real = by_loop(model, batch)
    kept = [e for e, is_real in zip(entropies, real, strict=True) if is_real]
    expected = {"mean_all": np.mean(entropies), "mean_attended": np.mean(kept), "sum": np.sum(kept)}[reduction]
    output = step(model, batch)
    assert output.metrics["loss_rtd"].item() == pytest.approx(expected, rel=1e-5)
    whole = output.metrics["loss_contrastive"] + 0.5 * output.metrics["loss_rtd"]
    assert output.loss.item() == pytest.approx(whole.item(), rel=1e-6)


def test_T12_padding_dilutes_mean_all_and_nothing_else(batch_of, still) -> None:
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


def test_T12_a_lambda_for_the_sum_is_that_of_the_mean_over_the_tokens(batch_of, still) -> None:
    mean = SHIPPED(reduction="mean_attended", generator_dropout=False, lambda_weight=0.1)
    batch = batch_of(mean)
    tokens = int(batch.inputs["edited"].lengths_N.sum())
    total = SHIPPED(reduction="sum", generator_dropout=False, lambda_weight=0.1 / tokens)
    assert step(still(mean), batch).loss.item() == pytest.approx(step(still(total), batch).loss.item(), rel=1e-6)


# ---- conditioning


def test_T13_conditioning_equals_transformers_on_concatenated_embeddings(batch_of, still, tiny_encoder: Path) -> None:
    """[h, e_1, ...]: h stands where [CLS]'s embedding output stood, with nothing added to it."""
    config = SHIPPED(generator_dropout=False, reduction="mean_attended")
    batch, model = batch_of(config), still(config).eval()
    edited = model._edited(batch)
    condition = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    ours = by_row(edited.packed, model.discriminator.hidden(edited.packed, condition)[:, 5])
    bert = BertForMaskedLM.from_pretrained(tiny_encoder, attn_implementation="eager").eval().bert
    for i, ids in enumerate(by_row(edited.packed, edited.packed.ids_T)):
        embedded = bert.embeddings(torch.tensor([ids]))
        joined = torch.cat([condition[i][None, None], embedded[:, 1:]], dim=1)
        theirs = bert.encoder(joined, attention_mask=None).last_hidden_state[0, :, 5]
        torch.testing.assert_close(torch.tensor(ours[i]), theirs, atol=2e-5, rtol=0)


def test_T13_the_loss_depends_on_the_embedding_and_trains_the_encoder(batch_of, model_of) -> None:
    config = SHIPPED(contrastive=False, lambda_weight=1.0)
    batch, model = batch_of(config), model_of(config)
    edited = model._edited(batch)
    condition = torch.randn(16, 32, requires_grad=True)
    model.discriminator.eval()
    loss, _ = model.discriminator(edited, condition)
    loss.backward()
    assert (condition.grad.abs().sum(1) > 0).all()
    assert model.discriminator(edited, condition.detach() * 2)[0].item() != loss.item()
    step(model, batch).loss.backward()
    assert model.encoder.layers[0].qkv.weight.grad.abs().max() > 0


def test_T13_every_edited_sentence_sees_the_embedding_of_its_own_view(batch_of, model_of) -> None:
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


def test_T13_generator_is_bit_identical_after_10_steps(batch_of, model_of) -> None:
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


# ---- the other objectives


def test_T14_extra_examples_share_one_batch_norm_with_the_views(batch_of, model_of) -> None:
    config = SHIPPED(task="none", extra="negatives")
    model, seen = model_of(config), {}
    model.pooler.register_forward_hook(lambda _, __, out: seen.update(views=out))
    step(model, batch_of(config))
    rows = seen["views"].flatten(0, 1)
    assert seen["views"].shape == (3, 8, 32)
    torch.testing.assert_close(rows.mean(0), torch.zeros(32), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.var(0, unbiased=False), torch.ones(32), atol=1e-2, rtol=0)
    assert seen["views"][:2].flatten(0, 1).mean(0).abs().max() > 1e-3


def test_T15_lambda_0_equals_simcse_with_batch_norm_step_by_step(backbone: Backbone, store: TokenStore) -> None:
    """Tables 5 and 8 agree on 82.22; here every loss and every weight of the encoder agrees to the bit.

    Without gradient clipping: the norm over more tensors, all of the others zero, differs in the last bit.
    """
    ours, theirs = SHIPPED(lambda_weight=0.0), simcse.Config(projector="batchnorm")
    weights: list[Tensor] = []
    losses: list[list[float]] = []
    for module, config in ((diffcse, ours), (simcse, theirs)):
        collate = module.make_collate(config, backbone.tokenizer, 16)
        streams.seed_new_weights(3)
        model = module.build(config, copy.deepcopy(backbone)).train()
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        losses.append([])
        for index in range(5):
            rows = np.arange(8) + 8 * index
            output = step(model, collate(Share(store, rows, rows, partial(streams.augmentation, 3, 0))), index)
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
    first, second = (model._edited(batch).packed.ids_T for _ in range(2))
    assert torch.equal(first, second) is not dropout
    assert torch.equal(*(model.eval()._edited(batch).packed.ids_T for _ in range(2)))


def test_T16_a_generator_of_another_vocabulary_is_refused(backbone: Backbone, tmp_path: Path) -> None:
    other = copy.deepcopy(backbone.tokenizer)
    other.add_tokens(["newword"])
    BertForMaskedLM.from_pretrained(backbone.name).save_pretrained(tmp_path)
    other.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"^different vocabularies: .*8193 pieces"):
        diffcse.build(Config(generator=str(tmp_path)), backbone)


def test_sampling_follows_torch_seed_and_is_not_greedy(batch_of, model_of) -> None:
    config = SHIPPED(sampling="sample", generator_dropout=False, masking_ratio=0.5)
    model, batch = model_of(config), batch_of(config)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(model._edited(batch).packed.ids_T)
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_extra_negatives_and_positives(batch_of, model_of) -> None:
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


def test_conditional_masked_lm_is_the_mean_over_chosen_tokens(batch_of, still) -> None:
    config = Config(task="masked_lm", masking_ratio=0.3, lambda_weight=0.5)
    batch, model = batch_of(config), still(config)
    assert model.generator is None and diffcse.inputs(config) == {}
    conditions = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    task, chosen = model.discriminator, batch.tensors["chosen_T"]
    assert torch.equal(model._edited(batch).packed.ids_T, batch.inputs["edited"].ids_T)
    logits = task.head(task.hidden(batch.inputs["edited"], conditions), task.encoder.word.weight)
    expected = F.cross_entropy(logits[chosen], batch.tensors["source_T"][chosen])
    output = step(model, batch)
    assert output.metrics["loss_mlm"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_corrective_lm_is_the_mean_over_real_tokens(batch_of, still) -> None:
    config = SHIPPED(task="corrective_lm", generator_dropout=False)
    batch, model = batch_of(config), still(config)
    edited = model._edited(batch)
    conditions = model.pooler(model.encoder(batch.inputs["text"], views=2)).flatten(0, 1)
    hidden = model.discriminator.hidden(edited.packed, conditions)[edited.packed.attended_T()]
    words = model.discriminator.head(hidden, model.discriminator.encoder.word.weight).softmax(-1)
    copying = model.discriminator.copy(hidden).sigmoid()[:, 0]
    ids, source = (t[edited.packed.attended_T()] for t in (edited.packed.ids_T, edited.source_T))
    p = (ids == source) * copying + (1 - copying) * words.gather(1, source[:, None])[:, 0]
    assert step(model, batch).metrics["loss_corrective"].item() == pytest.approx(-p.log().mean().item(), rel=1e-4)


# ---- every row of tables 3 to 8 and 15

TABLES = {
    "T3_without_contrastive": {"contrastive": False},
    "T3_next": {"source": "next"},
    "T3_both": {"source": "both"},
    "T3_masked_lm_same": {"task": "masked_lm"},
    "T3_masked_lm_next": {"task": "masked_lm", "source": "next"},
    "T3_masked_lm_both": {"task": "masked_lm", "source": "both"},
    "T3_corrective_lm": {"task": "corrective_lm"},
    "T4_replace": {"masking_ratio": 0.15},
    "T4_insert": {"operator": "insert", "masking_ratio": 0.15},
    "T4_delete": {"operator": "delete", "masking_ratio": 0.15},
    "T4_all": {"operator": "all", "masking_ratio": 0.15},
    "T5_without_batch_norm": {"projector": "mlp"},
    "T5_simcse_with_batch_norm": {"task": "none"},
    "T6_bigger_generator": {"generator": "wiki-l2-h128"},
    "T7_half_masked": {"masking_ratio": 0.5},
    "T8_tenth": {"lambda_weight": 0.1},
    **{
        f"T15_{extra}_{operator}": {"task": "none", "extra": extra, "operator": operator, "masking_ratio": 0.15}
        for extra in ("positives", "negatives")
        for operator in ("replace", "insert", "delete")
    },
    "pooler_mean": {"pooler": "mean"},
    "extra_with_mean": {"pooler": "mean", "task": "none", "extra": "negatives"},
}


@pytest.mark.parametrize("row", TABLES)
def test_every_row_trains_all_it_has(batch_of, model_of, row: str) -> None:
    config = SHIPPED(**TABLES[row])
    model, batch = model_of(config), batch_of(config, np.array([0, 9, 18, 27]))
    output = step(model, batch)
    output.loss.backward()
    assert torch.isfinite(output.loss) and all(torch.isfinite(v) for v in output.metrics.values())
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert {"loss", "positive_cosine", "uniformity"} <= output.metrics.keys()
    assert ("replaced_fraction" in output.metrics) is (config.task != "none" or config.extra != "none")


def test_one_word_sentences_train_with_every_operator(backbone: Backbone, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("river\nstone\nbridge\nold\nmarket\n", encoding="utf8")
    store = open_store(open_source("file", DataPaths(train_file=tmp_path / "short.txt")), backbone.tokenizer, 16)
    share = Share(store, np.arange(4), np.arange(4), partial(streams.augmentation, 0, 0))
    for operator in ("replace", "insert", "delete", "all"):
        config = SHIPPED(operator=operator)
        batch = diffcse.make_collate(config, backbone.tokenizer, 16)(share)
        assert batch.inputs["edited"].lengths_N.min() >= 3
        assert torch.isfinite(step(diffcse.build(config, copy.deepcopy(backbone)).train(), batch).loss)


# ---- refusals


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"contrastive": False, "task": "none"}, "nothing to train: method.contrastive=False, method.task=none"),
        ({"contrastive": False, "lambda_weight": 0.0}, "nothing to train: "),
        ({"extra": "positives"}, "two uses of the edited sentence: method.extra=positives, method.task=replaced_token"),
        ({"task": "masked_lm", "operator": "insert"}, "no such task: method.task=masked_lm, method.operator=insert"),
        ({"task": "none", "source": "next"}, "no conditional task: method.source=next"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(backbone: Backbone, options: dict, line: str) -> None:
    for call in (partial(diffcse.build, Config(**options), backbone),
                 partial(diffcse.make_collate, Config(**options), backbone.tokenizer, 16)):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value).startswith(line) and "\n" not in str(caught.value)


def test_scoring_needs_neither_discriminator_nor_generator(backbone: Backbone) -> None:
    model = diffcse.build(Config(), backbone, training=False)
    assert not [name for name in model.state_dict() if name.startswith(diffcse.TRAINING_ONLY)]
    assert model.eval().encode(pack_lists([[2, 9, 3]])).shape == (1, 32)


def test_the_generator_is_an_input_of_the_run() -> None:
    assert diffcse.inputs(SHIPPED()) == {"generator": load_backbone("wiki-l1-h64").content_hash}
