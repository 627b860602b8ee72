import importlib.util
import random
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.transfer import embed_task, evaluate
from cse_train.evaluate.tasks import GRADED, MORE_TASKS, RECIPES, TASKS, load_task, scorer
from cse_train.fields import ConfigError

pytest.importorskip("sklearn", reason="pip install 'cse-search[transfer]'")


def test_seven_results_and_the_papers_average(counter, small: DataPaths) -> None:
    *results, average = evaluate(counter, small, protocol="fast")
    assert [result.suite for result in results] == list(TASKS)
    assert all(result.metric == "accuracy" and result.value == round(result.value, 2) for result in results)
    assert average.suite == "transfer" and average.value == statistics.fmean(result.value for result in results)
    assert average.details["unrounded"] == statistics.fmean(result.details["unrounded"] for result in results)
    assert average.details["unrounded"] == pytest.approx(average.value, abs=0.005)
    assert average.details["tasks"] == {result.suite: result.value for result in results}
    assert len(counter.calls) == len(TASKS)  # one encoding pass per task


def test_some_tasks_have_no_average(counter, small: DataPaths) -> None:
    assert [result.suite for result in evaluate(counter, small, protocol="fast", members=["trec", "cr"])] == [
        "trec",
        "cr",
    ]


@pytest.mark.parametrize("name", MORE_TASKS)
def test_a_task_beside_the_seven_is_scored_alone(name: str, counter, small: DataPaths) -> None:
    [result] = evaluate(counter, small, protocol="fast", members=[name])
    assert result.column == name if name in GRADED else f"{name}:accuracy (fast, 10 folds)"
    assert 0 < result.value <= 100


def test_dev_mode_gives_dev_accuracy_alone(counter, small: DataPaths) -> None:
    [result] = evaluate(counter, small, mode="dev", members=["mrpc"])
    assert (result.metric, result.protocol.split, result.value) == ("devacc", "dev", result.details["devacc"])
    assert "accuracy" not in result.details and "f1" not in result.details


def test_test_mode_gives_both_and_mrpc_its_f1(counter, small: DataPaths) -> None:
    task = load_task("mrpc", small)
    [result] = evaluate(counter, small, members=["mrpc"])
    outcome = scorer("senteval")(embed_task(counter, task), 2, RECIPES["test"])
    assert (result.value, result.details["devacc"]) == (outcome.accuracy, outcome.devacc)
    labels, predicted = task.splits["test"].labels.tolist(), outcome.predicted.tolist()
    hits = sum(a == b == 1 for a, b in zip(labels, predicted, strict=True))
    assert result.details["f1"] == round(100 * 2 * hits / (sum(labels) + sum(predicted)), 2)


def test_protocols_tell_modes_and_classifiers_apart(counter, small: DataPaths) -> None:
    rules = {
        evaluate(counter, small, protocol=protocol, mode=mode, members=["sst2"])[0].protocol
        for protocol in ("senteval", "fast")
        for mode in ("test", "dev")
    }
    assert len(rules) == 4
    assert {found.rule for found in rules} == {
        "senteval, 10 folds, adam",
        "senteval, 5 folds, rmsprop",
        "fast, 10 folds",
        "fast, 5 folds",
    }
    assert {(found.pooler, found.max_length) for found in rules} == {("mean", 16)}


def test_pairs_become_difference_and_product(counter, small: DataPaths) -> None:
    task = load_task("mrpc", small)
    left, right = (counter.embed(side) for side in task.splits["test"].texts)
    found = embed_task(counter, task)["test"].features
    assert (found == np.concatenate([abs(left - right), left * right], axis=1)).all()


@pytest.mark.parametrize("protocol", ["senteval", "fast"])
def test_T8_no_global_random_state_is_touched(protocol, counter, small: DataPaths) -> None:
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    evaluate(counter, small, protocol=protocol, mode="dev", members=["cr", "trec", "sst2"])
    assert torch.equal(before[0], torch.get_rng_state())
    assert all(np.array_equal(a, b) for a, b in zip(before[1], np.random.get_state(), strict=True))
    assert before[2] == random.getstate()


def test_T8_training_with_and_without_transfer_gives_the_same_losses(counter, small: DataPaths) -> None:
    def losses(evaluated: bool) -> list[float]:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
            found = []
            for _ in range(4):
                loss = model(torch.randn(16, 4)).square().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                found.append(loss.item())
                if evaluated:
                    evaluate(counter, small, mode="dev", members=["sst2"])
            return found

    assert losses(True) == losses(False)


def test_the_same_call_gives_the_same_numbers(counter, small: DataPaths) -> None:
    assert evaluate(counter, small, members=["trec"]) == evaluate(counter, small, members=["trec"])


def test_an_unknown_task_is_one_line(counter, small: DataPaths) -> None:
    with pytest.raises(ConfigError, match=r"unknown task: tasks=mrcp; .*mrpc") as error:
        evaluate(counter, small, members=["mrcp"])
    assert len(error.value.problems) == 1 and counter.calls == []


def test_data_are_read_before_anything_is_encoded(counter, small: DataPaths, tmp_path: Path) -> None:
    (tmp_path / "MRPC" / "msr_paraphrase_test.txt").unlink()
    with pytest.raises(ConfigError, match="missing data: mrpc"):
        evaluate(counter, small)
    assert counter.calls == []


def test_without_scikit_learn_one_line_tells_what_to_install(
    counter, small: DataPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'cse-search\[transfer\]'"):
        evaluate(counter, small)
