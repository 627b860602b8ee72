"""Flow and whitening as methods: every text of a row counts, on a frozen encoder of any origin; what is exported."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import checkpoint as checkpoints
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import make_pooled
from cse_train.evaluate.models import open_model
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.losses import bits_per_dimension
from cse_train.training.loop import train
from tests.cse_train.methods.parts import parts_of

BOTH = pytest.mark.parametrize("method", ["flow", "whitening"])


@pytest.fixture
def parts(tiny_settings: Callable[..., dict]):
    """method, file, options -> model in training mode, a batch of ten rows, the ids of the rows' texts."""

    def make(method: str, file: Path, **options: object):
        rows = np.arange(10)
        _, model, batch, store, _ = parts_of(tiny_settings(method), file, rows, dropout=0.5, **options)
        return model, batch, [store.column(name).row(i) for name in store.columns for i in rows]

    return make


@BOTH
def test_every_text_of_a_row_counts(method: str, parts, text_file: Path, triplets_file: Path) -> None:
    for file, columns in ((text_file, 1), (triplets_file, 3)):
        model, batch, ids = parts(method, file)
        model.eval()
        assert (batch.examples, batch.inputs["text"].rows) == (10, 10 * columns)
        plain = make_pooled(model.encoder, "first_last_layer1")(pack_lists(ids))
        torch.testing.assert_close(model.embed(batch.inputs["text"]), plain, atol=1e-5, rtol=1e-5)


def test_whitening_s_texts_have_covariance_1(parts, triplets_file: Path) -> None:
    model, batch, ids = parts("whitening", triplets_file)
    model(batch)
    made = model.encode(pack_lists(ids)).double().numpy()
    assert made.shape == (30, 4)
    np.testing.assert_allclose(np.cov(made.T), np.eye(4), atol=1e-4)
    np.testing.assert_allclose(made.mean(0), 0, atol=1e-5)


def test_whitening_s_loss_is_the_distance_from_the_mean(parts, text_file: Path) -> None:
    model, batch, _ = parts("whitening", text_file)
    rows = model.embed(batch.inputs["text"]).double().numpy()
    assert model(batch).loss.item() == pytest.approx(((rows - rows.mean(0)) ** 2).mean(), rel=1e-6)


def test_flow_s_loss_is_the_likelihood_of_its_texts(parts, text_file: Path) -> None:
    model, batch, _ = parts("flow", text_file, encoder_dropout=False)
    first = model(batch).loss.item()
    rows = model.embed(batch.inputs["text"])
    assert first == pytest.approx(bits_per_dimension(model.after(rows), model.after.log_det).item())
    shift = model.after.levels[0][0].norm.shift.clone()
    model(batch)
    assert torch.equal(model.after.levels[0][0].norm.shift, shift), "the first batch alone sets actnorm"


def test_flow_s_loss_is_the_sum_over_columns_as_released_or_the_mean(parts, triplets_file: Path) -> None:
    """Three columns: the sum is three times the mean, and so is its gradient, which is clipped."""
    losses, gradients = {}, {}
    for loss in ("sum", "mean"):
        model, batch, _ = parts("flow", triplets_file, encoder_dropout=False, loss=loss)
        output = model(batch).loss
        output.backward()
        losses[loss] = output.item()
        gradients[loss] = model.after.levels[0][0].norm.shift.grad
    assert losses["sum"] == pytest.approx(3 * losses["mean"], rel=1e-6)
    torch.testing.assert_close(gradients["sum"], 3 * gradients["mean"])


def test_the_first_column_of_the_first_batch_sets_flow_s_actnorm_as_released_or_all_texts_do(
    parts, triplets_file: Path
) -> None:
    """Actnorm gives mean 0 and variance 1 to the texts that set it."""
    for first_batch, count in (("first_column", 10), ("all", 30)):
        model, batch, _ = parts("flow", triplets_file, encoder_dropout=False, first_batch=first_batch)
        model(batch)
        made = model.after.levels[0][0].norm(model.embed(batch.inputs["text"])[:count]).detach()
        torch.testing.assert_close(made.mean(0), torch.zeros(32), atol=1e-4, rtol=0)
        torch.testing.assert_close(made.var(0, unbiased=False), torch.ones(32), atol=1e-3, rtol=0)


def test_flow_s_frozen_encoder_drops_out_in_training_alone_as_released_or_never(parts, text_file: Path) -> None:
    for encoder_dropout in (True, False):
        model, batch, _ = parts("flow", text_file, encoder_dropout=encoder_dropout)
        pack = batch.inputs["text"]
        assert torch.equal(model.embed(pack), model.embed(pack)) != encoder_dropout
        model.eval()
        assert torch.equal(model.embed(pack), model.embed(pack))


@BOTH
def test_another_pooler(method: str, parts, text_file: Path) -> None:
    model, batch, ids = parts(method, text_file, pooler="mean")
    model.eval()
    plain = make_pooled(model.encoder, "mean")(pack_lists(ids))
    torch.testing.assert_close(model.embed(batch.inputs["text"]), plain, atol=1e-5, rtol=1e-5)


def test_a_run_with_too_little_text_is_one_line(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    run = parse_run(tiny_settings("whitening", method_dimensions=None, train_evaluations=5))
    with pytest.raises(ConfigError, match=r"^too few sentences: 32 sentences so far, .* 32 are wanted; give more text"):
        train(run, DataPaths(train_file=text_file), tmp_path, lambda _: False)


@pytest.fixture
def trained(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> Callable[..., Path]:
    """method, settings -> the folder of a short run."""

    def make(method: str, **changes: object) -> Path:
        run = parse_run(tiny_settings(method, train_evaluations=1, **changes))
        train(run, DataPaths(train_file=text_file), tmp_path / method, lambda _: False)
        return tmp_path / method

    return make


def test_whitening_is_exported_as_a_linear_layer(trained: Callable[..., Path], text_file: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    folder, texts = trained("whitening"), text_file.read_text().split("\n")
    agreement = export(folder / "best", tmp_path / "out")
    loaded = library.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    ours = open_model(folder).embed(texts)
    assert ours.shape == (40, 4) and agreement.largest < 1e-4
    np.testing.assert_allclose(loaded.encode(texts), ours, atol=1e-4)
    with pytest.raises(ConfigError, match="^not exportable: format=hf, method=whitening: no model of transformers"):
        export(folder / "best", tmp_path / "hf", "hf")


def test_a_flow_is_not_exported(trained: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="^not exportable: method=flow is more than an encoder, a pooler"):
        export(trained("flow") / "best", tmp_path / "out")


@BOTH
def test_another_pooler_than_the_fitted_one_is_refused(method: str, trained: Callable[..., Path]) -> None:
    folder = trained(method)
    with pytest.raises(ConfigError, match=rf"^another pooler: pooler=mean of .* {method} was fitted to first_last_la"):
        open_model(folder, pooler="mean")


@BOTH
@pytest.mark.parametrize("form", ["hf", "sentence-transformers"])
def test_an_exported_folder_is_an_encoder_to_work_on(
    method: str, form: str, trained: Callable[..., Path], checkpoint: Callable[..., tuple], tmp_path: Path
) -> None:
    """The tables' SBERT-flow and SBERT-whitening are a flow and a whitening on a model that was trained before."""
    best, first = checkpoint("simcse", "bert", pooler="mean")
    export(best, tmp_path / "sbert", form)
    folder = trained(method, train_encoder=str(tmp_path / "sbert"))
    _, model, _ = checkpoints.load_model(folder)
    ours, theirs = model.encoder.state_dict(), first.encoder.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)
