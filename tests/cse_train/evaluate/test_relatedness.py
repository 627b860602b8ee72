"""Learned relatedness against SentEval's procedure run plainly, on made grades and on the real sets."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate import classifiers
from cse_train.evaluate.models import open_model
from cse_train.evaluate.suites.transfer import embed_task, evaluate
from cse_train.evaluate.tasks import GRADED, Examples, load_task
from tests.cse_train.evaluate.plain_senteval import encoded, plain_relatedness


def made(count: int, seed: int) -> Examples:
    """Grades from 0 to 5 in steps of 0.2 that show, under noise, in one of six features."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 26, count) / 5
    noise = rng.normal(0, 1, (count, 6))
    return Examples((noise + gold[:, None] * (np.arange(6) == 2)).astype(np.float32), gold)


@pytest.fixture
def splits() -> dict[str, Examples]:
    return {"train": made(200, 1), "dev": made(60, 2), "test": made(80, 3)}


def test_a_grade_is_shared_between_its_neighbours_by_hand() -> None:
    rows = classifiers.probabilities(np.array([3.6, 5.0, 1.0, 0.6, 0.0])).tolist()
    assert rows == [
        pytest.approx([0, 0, 0.4, 0.6, 0]),
        [0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0],
        pytest.approx([0.6, 0, 0, 0, 0]),
        [0, 0, 0, 0, 0],
    ]


def test_grades_are_encoded_as_senteval_encodes_them() -> None:
    gold = np.concatenate([np.arange(0, 5.001, 0.05), np.random.default_rng(0).uniform(0, 5, 50)])
    np.testing.assert_allclose(classifiers.probabilities(gold).numpy(), encoded(gold), atol=1e-6)


def test_the_gradient_is_torch_s() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, weights = torch.randn(7, 4, generator=generator), torch.randn(5, 4, generator=generator)
    targets = classifiers.probabilities(np.linspace(0, 5, 7))
    leaf = weights.clone().requires_grad_()
    torch.nn.functional.mse_loss((inputs @ leaf.T).softmax(1), targets).backward()
    torch.testing.assert_close(classifiers._gradient(inputs, targets, weights), leaf.grad, atol=1e-7, rtol=1e-5)


def test_made_grades_equal_the_plain_loop(splits: dict[str, Examples], seeded_apart: None) -> None:
    assert_equal(splits)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GRADED)
def test_real_tasks_equal_the_plain_loop(name: str, data_dir: Path, seeded_apart: None) -> None:
    task = load_task(name, DataPaths.from_folder(data_dir))
    assert_equal(embed_task(open_model(Path("words-l2-h128"), pooler="mean"), task))


def assert_equal(splits: dict[str, Examples]) -> None:
    """No test pair's grade is 1e-4 away, which equal numbers of epochs and equal weights alone can give."""
    result = classifiers.score_relatedness(splits)
    expected = plain_relatedness({name: (split.features, split.labels) for name, split in splits.items()})
    apart = np.abs(result.predicted - expected.predicted)
    print(f"{expected.epochs} epochs, Spearman {result.spearman} {expected.spearman}, largest difference {apart.max()}")
    assert len(result.predicted) == len(expected.predicted) and int((apart > 1e-4).sum()) == 0
    for name in ("devpearson", "pearson", "spearman", "mse"):
        assert getattr(result, name) == pytest.approx(getattr(expected, name), abs=1e-3), name


def test_the_fourth_failure_ends_the_training_and_the_best_weights_are_kept(
    splits: dict[str, Examples], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A better round between does not reset the count, and training never exceeds 21 rounds of 50 epochs."""
    correlations = iter([10.0, 9.0, 20.0, 20.0, 19.0, 18.0, 99.0])
    monkeypatch.setattr(classifiers, "pearson", lambda a, b: next(correlations))
    monkeypatch.setattr(classifiers, "ROUND_EPOCHS", 1)
    rounds: list[torch.Tensor] = []
    expected = classifiers._expect
    monkeypatch.setattr(classifiers, "_expect", lambda x, w: rounds.append(w.clone()) or expected(x, w))
    features = {name: classifiers.add_constant(split.features) for name, split in splits.items()}
    targets = classifiers.probabilities(splits["train"].labels)
    best, weights = classifiers._fit_grades(features["train"], targets, features["dev"], splits["dev"].labels)
    assert best == 20.0 and len(rounds) == 6 and torch.equal(weights, rounds[2])
    monkeypatch.setattr(classifiers, "ROUND_EPOCHS", 50)
    monkeypatch.setattr(classifiers, "pearson", lambda a, b: float(len(rounds)))
    rounds.clear()
    one = slice(0, 64)
    classifiers._fit_grades(features["train"][one], targets[one], features["dev"], splits["dev"].labels)
    assert len(rounds) == 21


def test_T8_scores_state_their_rule_and_touch_no_random_state(
    counter, small: DataPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifiers, "RELATEDNESS_EPOCHS", 100)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    sick, stsb = evaluate(counter, small, members=GRADED)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())
    assert (sick.column, stsb.column) == GRADED and sick.value == sick.details["spearman"]
    assert sick.protocol.rule == "senteval, learned relatedness" and sick.protocol.data_hash != stsb.protocol.data_hash
    assert set(sick.details) == {"devpearson", "pearson", "spearman", "mse"}
    sick_dev, _ = evaluate(counter, small, members=GRADED, mode="dev")
    assert (sick_dev.column, sick_dev.value) == ("sick_relatedness_dev", sick.details["devpearson"])
    assert sick_dev.protocol.split == "dev"
