"""D2CSE's own promises: the frameworks of figure 3, one corruption of each sentence, the [CLS] prompt."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import BertConfig

from cse_train import random_streams
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import info_nce
from cse_train.methods import d2cse
from cse_train.training.optimiser import optimiser_of
from tests.cse_train.methods.parts import parts_of

FRAMEWORKS = ("a", "b", "c", "d")
ROWS = np.arange(6)


@pytest.fixture
def parts(tiny_settings, text_file: Path, triplets_file: Path):
    """Options -> (run, model in training mode with large prompts, a batch of 6, its store); dropout 0 unless told."""

    def make(dropout: float = 0.0, rows: np.ndarray = ROWS, **options: object):
        file = text_file if options.get("objective", "unsupervised") == "unsupervised" else triplets_file
        run, model, batch, store, _ = parts_of(tiny_settings("d2cse"), file, rows, dropout, together=ROWS, **options)
        with torch.no_grad():
            model.prompted.prompts.weight.mul_(30)
        return run, model, batch, store

    return make


def detection_gradients(model, batch, *wanted: str) -> list[torch.Tensor | None]:
    """Gradients of the replaced-token loss alone."""
    embeddings = model._embeddings(batch.inputs["text"])
    loss, _ = model._detection(batch, embeddings)
    parameters = [model.get_parameter(name) for name in wanted]
    return list(torch.autograd.grad(loss, parameters, allow_unused=True))


@pytest.mark.parametrize(("cls_prompt", "count"), [(False, 2_657_280), (True, 2_657_280 + 768)])
def test_T20_trainable_parameters_at_base_size(tiny_encoder: Path, cls_prompt: bool, count: int) -> None:
    tokenizer = load_backbone(str(tiny_encoder)).tokenizer
    for training, head in ((False, 0), (True, 1_538)):
        with torch.device("meta"):
            backbone = Backbone("base", Encoder(BertConfig()), tokenizer)
            model = d2cse.D2CSE.build(d2cse.Config(cls_prompt=cls_prompt), backbone, training)
        assert sum(p.numel() for p in model.parameters() if p.requires_grad) == count + head


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_T21_encoder_is_bit_identical_after_ten_steps(parts, framework: str) -> None:
    run, model, batch, _ = parts(dropout=0.1, framework=framework, cls_prompt=True)
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    assert all(name.startswith("prompted.encoder.") for name in frozen)
    assert len(frozen) == sum(1 for _ in model.prompted.encoder.parameters())
    assert any(n.startswith("discriminator.") for n, _ in model.named_parameters()) == (framework == "b")
    moving = {n: p.clone() for n, p in model.named_parameters() if p.requires_grad}
    optimiser = optimiser_of(model, run.train)
    for index in range(10):
        random_streams.seed_dropout(0, index, 0)
        loss = model(batch).loss
        assert torch.isfinite(loss)
        loss.backward()
        assert not [n for n in moving if model.get_parameter(n).grad is None]
        optimiser.step()
        optimiser.zero_grad()
    assert all(torch.equal(model.get_parameter(n), value) for n, value in frozen.items())
    assert not any(torch.equal(model.get_parameter(n), value) for n, value in moving.items())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_T13_the_detector_reads_the_embedding_in_a_b_and_d(parts, framework: str) -> None:
    _, model, batch, _ = parts(framework=framework)
    embeddings = model._embeddings(batch.inputs["text"]).detach().requires_grad_()
    loss, _ = model._detection(batch, embeddings)
    (gradient,) = torch.autograd.grad(loss, embeddings, allow_unused=True)
    (projector,) = detection_gradients(model, batch, "pooler.projector.inner.weight")
    if framework == "c":
        assert gradient is None and projector is None
    else:
        assert (gradient.abs().amax(1) > 0).all() and projector.abs().max() > 0
        other, _ = model._detection(batch, embeddings.roll(1, 0))
        assert abs(other - loss) > 1e-6


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_figure_3_prompts_are_in_front_of_the_detector_in_c_and_d(parts, framework: str) -> None:
    _, model, batch, _ = parts(framework=framework)
    embeddings = model._embeddings(batch.inputs["text"]).detach()
    before = model._detector_hidden(batch.inputs["corrupted"], embeddings)
    with torch.no_grad():
        model.prompted.prompts.weight.neg_()
    after = model._detector_hidden(batch.inputs["corrupted"], embeddings)
    assert torch.equal(before, after) == (framework in "ab")


@pytest.mark.parametrize("objective", ["unsupervised", "triplets"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_by_hand_one_sentence_at_a_time(parts, framework: str, objective: str) -> None:
    """Contrastive loss plus lambda times the mean over the real tokens of every sentence with its own embedding."""
    _, model, batch, store = parts(
        framework=framework, objective=objective, lambda_weight=0.5, reduction="mean_attended", cls_prompt=True
    )
    names = d2cse.D2CSE.columns(model.config)
    views = model._embeddings(batch.inputs["text"]).split(6)
    terms = []
    for view, name in zip(views, names * 2 if len(names) == 1 else names, strict=True):
        for i in range(6):
            old, new = store.column(name).row(i), store.column(f"corrupted_{name}").row(i)
            prompts, cls_word = model.prompted.prompts, model.prompted.cls_word
            guided = {"prompts": prompts, "cls_word_H": cls_word} if framework in "cd" else {}
            given = {} if framework == "c" else {"cls_output_NH": view[i : i + 1]}
            reader = model.discriminator if framework == "b" else model.prompted.encoder
            hidden_LH = reader(pack_lists([new]), tokens=True, **guided, **given).last_TH
            labels = torch.from_numpy((old != new).astype(np.int64))
            terms.append(F.cross_entropy(model.head(hidden_LH), labels, reduction="none"))
    expected = info_nce(views[0], views[1], hard_negatives_BD=views[2] if len(views) == 3 else None)
    expected = expected + 0.5 * torch.cat(terms).mean()
    torch.testing.assert_close(model(batch).loss, expected, atol=1e-5, rtol=1e-5)


def test_T11_labels_are_where_the_corrupted_token_differs(parts) -> None:
    _, _, batch, store = parts()
    packed, replaced_T = batch.inputs["corrupted"], batch.tensors["replaced_T"]
    assert packed.rows == 12, "both views have the one corruption"
    assert not replaced_T[packed.positions_T == 0].any() and not replaced_T[~packed.attended_T()].any()
    rows = zip(packed.order_N.tolist(), replaced_T.view(12, -1), strict=True)
    for row, labels in rows:
        differ = store.column("text").row(row % 6) != store.column("corrupted_text").row(row % 6)
        assert labels[: len(differ)].tolist() == differ.tolist()
    assert 0 < replaced_T.sum() < packed.lengths_N.sum()


def test_T12_the_released_mean_pads_every_ranks_share_to_the_longest_of_the_batch(parts) -> None:
    _, _, whole, store = parts()
    lengths = store.column("text").lengths[:6]
    short = np.argsort(lengths)[:2]
    assert lengths[short].max() < lengths.max()
    _, _, share, _ = parts(rows=short)
    assert [g.width for g in share.inputs["corrupted"].groups] == [lengths.max()]
    assert [g.width for g in whole.inputs["corrupted"].groups] == [lengths.max()]
    _, _, share, _ = parts(rows=short, reduction="mean_attended")
    assert max(g.width for g in share.inputs["corrupted"].groups) == lengths[short].max()


def test_T22_corruption_is_that_of_every_epoch_and_run(parts, tmp_path: Path) -> None:
    _, _, first, store = parts()
    _, _, second, again = parts(dropout=0.1, framework="a", lambda_weight=0.1)
    assert torch.equal(first.inputs["corrupted"].ids_T, second.inputs["corrupted"].ids_T)
    assert store.folder == again.folder
    assert parts(corruption_seed=1)[3].folder != store.folder
    assert parts(masking_ratio=0.2)[3].folder != store.folder


def test_metrics_name_the_parts_and_the_replaced_fraction(parts) -> None:
    _, model, batch, store = parts(lambda_weight=0.5)
    metrics = model(batch).metrics
    torch.testing.assert_close(metrics["loss"], metrics["loss_contrastive"] + 0.5 * metrics["loss_rtd"])
    rows = [(store.column("text").row(i) != store.column("corrupted_text").row(i)) for i in range(6)]
    assert metrics["replaced_fraction"].item() == pytest.approx(np.concatenate(rows).mean())
    assert 0 <= metrics["rtd_accuracy"] <= 1


def test_the_generator_is_an_input_of_the_run_and_a_missing_one_is_named(parts) -> None:
    assert set(d2cse.Config(generator="words-l1-h64").inputs()) == {"generator"}
    with pytest.raises(ConfigError, match="method.generator=no-such-model"):
        parts(generator="no-such-model")


def test_prompts_that_overflow_positions_are_named_before_the_corpus_is_corrupted(parts) -> None:
    with pytest.raises(ConfigError, match=r"^prompts overflow positions: method.prompt_length=60"):
        parts(prompt_length=60, generator="no-such-model")
