"""Whitening: the covariance of what comes out, numpy's closed form, by hand, and too little text."""

import math

import numpy as np
import pytest
import torch

from cse_train.encoder.frozen_encoder import Whitener
from cse_train.evaluate.baselines import whiten
from cse_train.fields import ConfigError


def rows(count: int = 400, size: int = 6) -> np.ndarray:
    """Correlated, of unlike scales, far from 0."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, size)) @ rng.normal(size=(size, size)) * np.logspace(-2, 1, size) + 5


def fitted(rows_ND: np.ndarray, *, parts: int = 1, **options: object) -> Whitener:
    whitener = Whitener(rows_ND.shape[1], **options)
    for part in np.array_split(rows_ND, parts):
        whitener.add(torch.from_numpy(part))
    return whitener


def test_mean_0_and_covariance_1() -> None:
    made = fitted(rows())(torch.from_numpy(rows())).double().numpy()
    np.testing.assert_allclose(made.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(np.cov(made.T), np.eye(6), atol=1e-5)


def test_equals_numpy_s_closed_form() -> None:
    """Su et al., eq. 3 to 6, as the released compute_kernel_bias: U / sqrt(s) of the covariance; signs are free."""
    data, new = rows(), rows(30) - 1
    u, s, _ = np.linalg.svd(np.cov(data.T))
    wanted = (new - data.mean(0)) @ (u / np.sqrt(s))
    made = fitted(data)(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(np.abs(made), np.abs(wanted), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(made @ made.T, wanted @ wanted.T, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(made @ made.T, (lambda x: x @ x.T)(whiten(new, data)), rtol=1e-5, atol=1e-4)


def test_by_hand() -> None:
    """(0, 0), (2, 0), (0, 4), (2, 4): mean (1, 2), variances 4/3 and 16/3, the second one first."""
    whitener = fitted(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]))
    mean, made = whitener.transform()
    assert mean.tolist() == [1.0, 2.0]
    wanted = [[0.0, math.sqrt(3) / 2], [math.sqrt(3) / 4, 0.0]]
    np.testing.assert_allclose(made.abs().numpy(), wanted, atol=1e-12)


def test_rows_may_come_in_any_parts() -> None:
    for one, other in zip(fitted(rows()).transform(), fitted(rows()[::-1].copy(), parts=7).transform(), strict=True):
        torch.testing.assert_close(one.abs(), other.abs(), rtol=1e-9, atol=1e-9)


def test_dimensions_keep_the_largest_variances() -> None:
    whole, cut = fitted(rows()), fitted(rows(), dimensions=2)
    new = torch.from_numpy(rows(10))
    torch.testing.assert_close(cut(new), whole(new)[:, :2])
    assert np.linalg.eigvalsh(np.cov(rows().T))[-1] == pytest.approx(
        (1 / cut.transform()[1][:, 0].square().sum()).item()
    )


def test_without_scale_the_mean_alone_is_taken_off() -> None:
    new = rows(10)
    made = fitted(rows(), scale=False)(torch.from_numpy(new))
    np.testing.assert_allclose(made.numpy(), new - rows().mean(0), rtol=1e-5)


def test_before_the_first_row_nothing_changes() -> None:
    new = torch.from_numpy(rows(3)).float()
    assert torch.equal(Whitener(6, dimensions=2)(new), new)


def test_too_little_text_is_one_line() -> None:
    few = "^too few sentences: 5 sentences so far, which vary in 4 of 6 directions; 6 are wanted; give more text"
    flat = rows()
    flat[:, 3] = flat[:, 2]
    singular = "^singular covariance: 400 sentences so far, which vary in 5 of 6 directions; 6 are wanted; give more"
    for data, line in ((rows(5), few), (flat, singular)):
        with pytest.raises(ConfigError, match=line) as error:
            fitted(data)(torch.from_numpy(data))
        assert len(error.value.problems) == 1
    assert fitted(flat, dimensions=5)(torch.from_numpy(flat)).shape == (400, 5)
    with pytest.raises(ConfigError, match=r"^too many dimensions: method.dimensions=7, the encoder has 6; give 6 at"):
        Whitener(6, dimensions=7)
