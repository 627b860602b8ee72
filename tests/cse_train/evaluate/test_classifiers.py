from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate import classifiers
from cse_train.evaluate.classifiers import Problem, add_constant, fit, hold_out, initial_weights
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.models import open_model
from cse_train.evaluate.suites.transfer import embed_task
from cse_train.evaluate.tasks import RECIPES, TASKS, ClassifierRecipe, Examples, TransferOutcome, load_task
from tests.cse_train.evaluate.plain_senteval import Plain, plain

pytest.importorskip("sklearn", reason="pip install 'cse-search[transfer]'")


def examples(count: int, classes: int, seed: int, width: int = 6) -> Examples:
    """Overlapping clusters around unit vectors."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    return Examples((np.eye(width)[labels] + rng.normal(0, 0.8, (count, width))).astype(np.float32), labels)


EXAMPLES = 600
"""Of each split of a real task: the plain loop takes 15 minutes for the 10,000 of SUBJ."""


def some_of(split: Examples) -> Examples:
    """At most EXAMPLES of all classes, as they are drawn."""
    rows = np.random.default_rng(0).permutation(len(split.labels))[:EXAMPLES]
    return Examples(split.features[rows], split.labels[rows])


def as_plain(splits: dict[str, Examples]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: (split.features, split.labels) for name, split in splits.items()}


def one_by_one(
    rows: Problem, made: Examples, decay: float, recipe: ClassifierRecipe, classes: int
) -> tuple[int, torch.Tensor]:
    """torch's own layer and optimiser on the same sample orders: best correct count and weights with the biases."""
    torch.manual_seed(1111)
    stream = np.random.RandomState(1111)
    if rows.permuted:
        stream.permutation(rows.permuted)
    model = torch.nn.Linear(made.features.shape[1], classes)
    kinds = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    optimiser = kinds[recipe.optimiser](model.parameters(), weight_decay=decay)
    x, y = torch.from_numpy(made.features), torch.from_numpy(made.labels)
    best, weights, lost = -1, torch.empty(0), 0
    while lost <= recipe.tenacity:
        for _ in range(recipe.epoch_size):
            for batch in np.split(order := stream.permutation(len(rows.train)), range(64, len(order), 64)):
                at = rows.train[batch]
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()
                optimiser.step()
        correct = int((model(x[rows.dev]).argmax(1) == y[rows.dev]).sum())
        if correct > best:
            best, weights = correct, torch.cat([model.weight, model.bias[:, None]], 1).detach().clone()
        else:
            lost += 1
    return best, weights


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_batched_equals_one_by_one(optimiser: str, classes: int, seeded_apart: None) -> None:
    recipe = ClassifierRecipe(folds=2, optimiser=optimiser, batch_size=64, tenacity=2, epoch_size=2)
    made, rows = examples(181, classes, seed=3), np.arange(181)
    problems = [Problem(rows[k:], rows[:k], (1e-5, 1e-2)) for k in (40, 41, 41)]
    problems += [hold_out(rows[:150], 1e-3), Problem(rows[:140], rows[140:], (1e-4, 1e-1))]
    found = fit(add_constant(made.features), made.labels, classes, problems, recipe)
    for problem, fitted in zip(problems, found, strict=True):
        for at, decay in enumerate(problem.decays):
            correct, weights = one_by_one(problem, made, decay, recipe, classes)
            assert fitted.correct[at] == correct
            torch.testing.assert_close(fitted.weights[:, at], weights, atol=2e-5, rtol=0)


def test_problems_together_equal_problems_alone() -> None:
    recipe = RECIPES["test"]
    made = examples(121, 2, seed=5)
    problems = [Problem(np.roll(np.arange(121), k)[:90], np.roll(np.arange(121), k)[90:]) for k in range(6)]
    features = add_constant(made.features)
    together = fit(features, made.labels, 2, problems, recipe)
    for problem, fitted in zip(problems, together, strict=True):
        [alone] = fit(features, made.labels, 2, [problem], recipe)
        assert (alone.correct == fitted.correct).all()
        torch.testing.assert_close(alone.weights, fitted.weights, atol=1e-5, rtol=0)


def test_early_stop_counts_every_failure_and_never_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([3, 2, 4, 4, 5, 1, 1, 9, 9, 9])
    monkeypatch.setattr(classifiers._Together, "_correct", lambda self, row, at: torch.tensor([next(accuracies)]))
    recipe = ClassifierRecipe(folds=2, optimiser="adam", batch_size=64, tenacity=2, epoch_size=1)
    made = examples(40, 2, seed=1)
    problem = Problem(np.arange(30), np.arange(30, 40), (1e-3,))
    [found] = fit(add_constant(made.features), made.labels, 2, [problem], recipe)
    assert found.correct.tolist() == [5]  # failures at rounds 2, 4, 6: the third of them ends it before the 9
    assert list(accuracies) == [1, 9, 9, 9]


def test_weights_start_as_torchs_layer_after_the_seed(seeded_apart: None) -> None:
    torch.manual_seed(1111)
    layer = torch.nn.Linear(17, 6)
    expected = torch.cat([layer.weight, layer.bias[:, None]], 1)
    torch.testing.assert_close(initial_weights(6, 17), expected, atol=0, rtol=0)


def test_held_out_is_the_first_twentieth_of_the_seeded_permutation() -> None:
    order = np.random.RandomState(1111).permutation(59)
    problem = hold_out(np.arange(100, 159), 1e-2)
    assert (problem.dev == 100 + order[:2]).all() and (problem.train == 100 + order[2:]).all()
    assert problem.decays == (1e-2,) and problem.permuted == 59


KINDS = {
    "nested": (("all", 90),),
    "cross-validated": (("train", 100), ("test", 60)),
    "split": (("train", 130), ("dev", 50), ("test", 60)),
}


@pytest.mark.parametrize(
    ("kind", "mode"), [("nested", "dev"), ("cross-validated", "dev"), ("split", "dev"), ("split", "test")]
)
def test_every_kind_of_task_equals_the_plain_loop_on_made_examples(kind: str, mode: str, seeded_apart: None) -> None:
    splits = {name: examples(count, 3, seed=at) for at, (name, count) in enumerate(KINDS[kind])}
    assert_equal(classifiers.score_senteval(splits, 3, RECIPES[mode]), plain(as_plain(splits), 3, mode))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "mode"), [("cr", "dev"), *((task, "test") for task in (*TASKS, "sst5", "sick_entailment"))]
)
def test_real_tasks_equal_the_plain_loop(name: str, mode: str, data_dir: Path, seeded_apart: None) -> None:
    task = load_task(name, DataPaths.from_folder(data_dir))
    whole = embed_task(open_model(Path("words-l2-h128"), pooler="mean"), task)
    splits = {name: some_of(split) for name, split in whole.items()}
    expected = plain(as_plain(splits), task.classes, mode)
    assert_equal(classifiers.score_senteval(splits, task.classes, RECIPES[mode]), expected)


def assert_equal(found: TransferOutcome, expected: Plain) -> None:
    """SentEval equality as the project states it: dev accuracy within 0.1, at most two test items apart."""
    apart = int((found.predicted != expected.predicted).sum())
    print(
        f"devacc {found.devacc} {expected.devacc}, accuracy {found.accuracy} {expected.accuracy}, items apart {apart}"
    )
    assert found.devacc == pytest.approx(expected.devacc, abs=0.1)
    assert len(found.predicted) == len(expected.predicted) and apart <= 2
    assert found.accuracy == pytest.approx(expected.accuracy, abs=0.4)


@pytest.mark.parametrize("largest", [3e19, np.inf, np.nan])
def test_embeddings_too_large_for_a_classifier_are_one_line(largest: float) -> None:
    """Adam's squared gradients were infinite and no weight moved: the accuracy was that of the start."""
    features = np.ones((40, 4), dtype=np.float32)
    features[:20] = largest
    with pytest.raises(NotFinite, match=r"^not finite: embeddings up to .*; lower train.learning_rate$"):
        add_constant(features)
    assert add_constant(np.full((2, 3), 1e18, dtype=np.float32)).isfinite().all()
