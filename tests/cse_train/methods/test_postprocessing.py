"""Flow and whitening as methods on a frozen encoder, and the flow's determinant, first batch and loop."""

import math
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
from cse_train.methods.flow import ActNorm, FlowStep, Glow
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


@pytest.fixture
def glow() -> Glow:
    """Two levels of two steps on eight dimensions in fp64, every parameter moved."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    made = Glow(8, levels=2, depth=2, width=5).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return made


def rows(count: int, size: int = 8) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_log_determinant_is_that_of_the_whole_jacobian(glow: Glow) -> None:
    for x_D in rows(4):
        jacobian_DD = torch.autograd.functional.jacobian(lambda x: glow(x[None])[0], x_D)
        torch.testing.assert_close(glow.log_det, torch.linalg.slogdet(jacobian_DD).logabsdet)
        assert (jacobian_DD != torch.diag(jacobian_DD.diag())).any(), "a flow that mixes nothing proves nothing"
    assert glow.log_det.abs() > 0.1


def test_likelihood_is_the_density_under_the_change_of_variables(glow: Glow) -> None:
    """Li et al., eq. 4: log p(x) = log N(f(x); 0, 1) + log |det df/dx|, with the Jacobian from autograd."""
    x_ND = rows(3)
    prior = torch.distributions.MultivariateNormal(torch.zeros(8).double(), torch.eye(8).double())
    wanted = 0.0
    for x_D in x_ND:
        jacobian_DD = torch.autograd.functional.jacobian(lambda x: glow(x[None])[0], x_D)
        likelihood = prior.log_prob(glow(x_D[None])[0]) + torch.linalg.slogdet(jacobian_DD).logabsdet
        wanted -= likelihood.item() / (8 * math.log(2)) / 3
    assert bits_per_dimension(glow(x_ND), glow.log_det).item() == pytest.approx(wanted)


def test_equals_a_loop_over_numbers(glow: Glow) -> None:
    """Written out for each row: actnorm, reversal, one half moved by a network of the other; then a level less."""
    with torch.no_grad():
        x_ND = rows(3)
        np.testing.assert_allclose(glow(x_ND).numpy(), [by_loop(glow, x.tolist()) for x in x_ND], atol=1e-12)


def by_loop(glow: Glow, x: list[float]) -> list[float]:
    final: list[float] = []
    for at, level in enumerate(glow.levels):
        if at == 1:
            final, x = [*final, *x[4:]], x[:4]
        for step in level:
            x = normed(step.norm, x)[::-1]
            half = len(x) // 2
            x = x[:half] + [value + shift for value, shift in zip(x[half:], network(step, x[:half]), strict=True)]
    return [*final, *x]


def normed(norm: ActNorm, x: list[float]) -> list[float]:
    both = zip(x, norm.shift[0].tolist(), norm.s[0].tolist(), strict=True)
    return [(value + shift) * math.exp(3 * s) for value, shift, s in both]


def network(step: FlowStep, x: list[float]) -> list[float]:
    parts = step.network
    for linear, norm in zip(parts.inner, parts.norms, strict=True):
        x = [sum(w * value for w, value in zip(row, x, strict=True)) for row in linear.weight.tolist()]
        x = [max(0.0, value) for value in normed(norm, x)]
    last = zip(parts.last.weight.tolist(), parts.last.bias.tolist(), parts.s[0].tolist(), strict=True)
    return [(sum(w * v for w, v in zip(row, x, strict=True)) + bias) * math.exp(3 * s) for row, bias, s in last]


def test_one_step_by_hand() -> None:
    """(1, 2) + (1, 0) = (2, 2), times (1, e^3); reversed (2 e^3, 2); the network is still 0; log_det is 0 + 3."""
    step = FlowStep(2, 4)
    with torch.no_grad():
        step.norm.shift.copy_(torch.tensor([[1.0, 0.0]]))
        step.norm.s.copy_(torch.tensor([[0.0, 1.0]]))
        y = step(torch.tensor([[1.0, 2.0]]))
    assert y.tolist() == [[pytest.approx(2 * math.exp(3)), 2.0]]
    assert step.norm.log_det.item() == 3.0


def test_the_first_batch_gives_every_actnorm_mean_0_and_variance_1() -> None:
    torch.manual_seed(0)
    glow = Glow(8, levels=2, depth=2, width=5).double()
    x_ND = rows(50) * torch.arange(1.0, 9.0) + 3
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for module in glow.modules():
        if isinstance(module, ActNorm):
            module.register_forward_hook(lambda _, __, y: seen.append((y.mean(0), y.square().mean(0))))
    glow.initialise(x_ND)
    assert glow.initialised and len(seen) == 4 + 8
    for mean_D, square_D in seen:
        torch.testing.assert_close(mean_D, torch.zeros_like(mean_D))
        torch.testing.assert_close(square_D, torch.ones_like(square_D), atol=1e-3, rtol=0)


def test_a_new_flow_only_orders_the_dimensions_anew() -> None:
    """The networks begin at 0: four halves of eight dimensions leave in turn, each reversed as often as there are
    steps."""
    glow = Glow(8, levels=3, depth=1, width=4)
    assert glow(torch.arange(8.0)[None]).tolist() == [[3, 2, 1, 0, 6, 7, 5, 4]]
    assert glow.log_det.item() == 0


def test_weights_are_drawn_from_the_run_s_own_stream() -> None:
    torch.manual_seed(3)
    made = [Glow(8, 2, 2, 500).levels[0][0].network.inner[0].weight for _ in range(2)]
    assert not torch.equal(*made)
    assert made[0].std().item() == pytest.approx(0.05, abs=0.003)


def test_a_size_that_does_not_halve_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^size does not halve: method.levels=3, .* 300 dimensions; give levels"):
        Glow(300, levels=3, depth=3, width=32)
