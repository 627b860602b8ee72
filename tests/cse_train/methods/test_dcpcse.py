"""DCPCSE's own promises: prompts and MLP alone train, the energy loss, the masked-LM loss that fades."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig

from cse_train import checkpoint, random_streams
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.losses import energy_hinge, info_nce, masked_lm
from cse_train.methods import dcpcse
from cse_train.methods.base import load_method
from cse_train.text.file_corpora import PAIR_COLUMNS
from cse_train.training.optimiser import optimiser_of
from tests.cse_train.methods.parts import parts_of


@pytest.fixture
def parts(tiny_settings, text_file: Path, triplets_file: Path):
    """Options -> (run, model in training mode, a batch of 6, its store); dropout 0 unless told."""

    def make(dropout: float = 0.0, **options: object):
        file = text_file if options.get("objective", "unsupervised") == "unsupervised" else triplets_file
        run, model, batch, store, _ = parts_of(tiny_settings("dcpcse"), file, np.arange(6), dropout, **options)
        with torch.no_grad():
            model.prompted.prompts.weight.mul_(30)
        return run, model, batch, store

    return make


def by_column(model, store, names: tuple[str, ...]) -> list[torch.Tensor]:
    return [model.encode(pack_lists([store.column(name).row(i) for i in range(6)])) for name in names]


@pytest.mark.parametrize(("projector", "count"), [("mlp", 885_504), ("batchnorm", 2_657_280)])
def test_T20_trainable_parameters_at_base_size(tiny_encoder: Path, projector: str, count: int) -> None:
    tokenizer = load_backbone(str(tiny_encoder)).tokenizer
    with torch.device("meta"):
        backbone = Backbone("base", Encoder(BertConfig()), tokenizer)
        model = dcpcse.DCPCSE.build(dcpcse.Config(prompt_length=16, projector=projector), backbone)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == count


def test_T21_encoder_is_bit_identical_after_ten_steps_and_the_optimiser_never_had_it(parts) -> None:
    run, model, batch, _ = parts(dropout=0.1, mlm_weight=0.1)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    head = {n for n in trained if n.startswith("head.")}
    assert trained - head == {"prompted.prompts.weight", "pooler.projector.dense.weight", "pooler.projector.dense.bias"}
    before = {n: p.clone() for n, p in model.named_parameters()}
    optimiser = optimiser_of(model, run.train)
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(trained)
    for index in range(10):
        random_streams.seed_dropout(0, index, 0)
        loss = model(batch).loss
        assert torch.isfinite(loss)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (name not in trained), name


def test_T5_two_views_differ_by_the_encoders_dropout_or_the_prompts(parts) -> None:
    for options in ({"prompt_dropout": True}, {"prompt_dropout": False}):
        _, model, batch, _ = parts(dropout=0.1, **options)
        one, two = model._views(batch.inputs["text"], 6)
        assert (one - two).abs().max() > 1e-3
    model.eval()
    one, two = model._views(batch.inputs["text"], 6)
    torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-6)


def test_prompts_alone_carry_augmentation_noise(parts) -> None:
    _, model, batch, _ = parts()
    model.prompted.prompts.rate = 0.1
    one, two = model._views(batch.inputs["text"], 6)
    assert (one - two).abs().max() > 1e-3


def test_energy_loss_is_added_to_that_of_simcse_on_triplets(parts) -> None:
    options = {"objective": "triplets", "hard_negative_weight": 2.0, "pooler": "cls"}
    _, model, batch, store = parts(energy_margin=0.2, **options)
    views = by_column(model, store, PAIR_COLUMNS)
    contrastive = info_nce(views[0], views[1], hard_negatives_BD=views[2], hard_negative_weight=2.0)
    hinge = energy_hinge(*views, margin=0.2)
    output = model(batch)
    torch.testing.assert_close(output.loss, contrastive + 10 * hinge)
    torch.testing.assert_close(output.metrics["loss_energy"], hinge.detach())
    _, plain, batch, _ = parts(**options)
    torch.testing.assert_close(plain(batch).loss, contrastive)


def test_masked_lm_weight_fades_by_the_step_that_the_checkpoint_keeps(parts) -> None:
    _, model, batch, _ = parts(mlm_weight=0.1, mlm_decay=0.5)
    weights = []
    for step in range(3):
        metrics = model(batch).metrics
        weights.append((metrics["loss"] - metrics["loss_contrastive"]) / metrics["loss_mlm"])
        assert model.state_dict()["steps"] == step + 1
    expected = [0.1 * 0.5 ** (step / 100) for step in range(3)]
    assert torch.stack(weights).tolist() == pytest.approx(expected, rel=1e-4)
    _, resumed, _, _ = parts(mlm_weight=0.1, mlm_decay=0.5)
    resumed.load_state_dict(model.state_dict())
    assert resumed._mlm_weight().item() == pytest.approx(0.1 * 0.5**0.03)


def test_T23_masked_lm_loss_reads_through_the_prompts(parts) -> None:
    _, model, batch, _ = parts(mlm_weight=0.1)
    hidden = model.prompted(batch.inputs["masked"], tokens=True)
    logits = model.head(hidden.last_TH[batch.tensors["at_M"]], model.prompted.encoder.word.weight)
    total, count = masked_lm(logits, batch.tensors["target_M"])
    assert batch.inputs["masked"].rows == 12, "both views are masked"
    torch.testing.assert_close(model(batch).metrics["loss_mlm"], (total / count).detach())
    plain = model.prompted.encoder(batch.inputs["masked"], tokens=True).last_TH
    assert (plain - hidden.last_TH).abs().max() > 1e-2


def test_export_refuses_what_would_lose_its_prompts(parts, tmp_path: Path) -> None:
    run, model, _, _ = parts()
    checkpoint.save_best(tmp_path / "run", run, model, {})
    with pytest.raises(ConfigError, match="^not exportable: format=hf, method=dcpcse: no model of transformers reads"):
        export(tmp_path / "run", tmp_path / "out", "hf")


def test_prompts_that_overflow_positions_are_named_before_training(parts) -> None:
    """The tiny encoder has 64 positions, the longest sentence 16 tokens or fewer."""
    with pytest.raises(
        ConfigError, match=r"^prompts overflow positions: method.prompt_length=60 and \d+ tokens, of 64"
    ):
        parts(prompt_length=60)
    parts(prompt_length=60, position_shift=False)


def test_options_that_need_what_is_not_there_are_named(tiny_encoder: Path) -> None:
    backbone = load_backbone(str(tiny_encoder))
    with pytest.raises(ConfigError, match=r"^no hard negatives: method.energy_margin=0.2, method.objective=pairs"):
        dcpcse.DCPCSE.build(dcpcse.Config(energy_margin=0.2, objective="pairs"), backbone)
    backbone.head = None
    with pytest.raises(ConfigError, match=r"^no masked-LM head: method.mlm_weight=0.1"):
        dcpcse.DCPCSE.build(dcpcse.Config(mlm_weight=0.1), backbone)
    assert dcpcse.DCPCSE.build(dcpcse.Config(mlm_weight=0.1), backbone, training=False).head is None
    assert load_method("dcpcse").columns(dcpcse.Config(objective="pairs")) == ("sent0", "sent1")
