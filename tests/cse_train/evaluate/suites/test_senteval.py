"""SentEval's transfer and probing tasks on files of its layout: which number of each counts, on test and on dev."""

import importlib.util
import random
import statistics
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate import tasks
from cse_train.evaluate.pairs import STS_YEARS
from cse_train.evaluate.suites import probing, senteval, sts, transfer
from cse_train.evaluate.suites.registry import problems
from cse_train.evaluate.suites.transfer import embed_task, evaluate
from cse_train.evaluate.tasks import GRADED, MORE_TASKS, PROBING, RECIPES, TASKS, load_task, scorer
from cse_train.fields import ConfigError
from cse_train.results import Protocol, Score
from search_spaces.catalog import load_space
from tests.cse_train.evaluate.plain_senteval import plain
from tests.cse_train.evaluate.small_tasks import WORDS, sentence, write

AVERAGED = (*transfer.TASKS, *MORE_TASKS, *STS_YEARS)


def made(task: str, value: float, **details: float) -> Score:
    metric, kind = "spearman", {"aggregation": "mean"}
    if task not in STS_YEARS:
        metric = "spearman" if task.endswith("relatedness") else "accuracy"
        kind = {"rule": "senteval, 10 folds, adam"}
    protocol = Protocol(suite=task, pooler="mean", split="test", max_length=512, data_hash=task, **kind)  # type: ignore[arg-type]
    return Score(suite=task, metric=metric, value=value, protocol=protocol, details=details)


def dev_of(task: str) -> str:
    return "devpearson" if task.endswith("relatedness") else "devacc"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """Each task's test score is its place times 2, its dev score 1 more; what each suite was asked for."""
    values = {task: 2.0 * place for place, task in enumerate(AVERAGED)}
    options: dict[str, dict[str, str]] = {}

    def classified(*_: object, members: tuple[str, ...] = transfer.TASKS, **given: str) -> list[Score]:
        options["/".join(members)] = given
        scores = [made(task, values[task], **{dev_of(task): values[task] + 1}) for task in members]
        scores = [made("mrpc", values["mrpc"], devacc=13.0, f1=20.0) if s.suite == "mrpc" else s for s in scores]
        return [*scores, made("transfer", 99.0)] if members == transfer.TASKS else scores

    def cosines(*_: object, members: tuple[str, ...], **given: str) -> list[Score]:
        options["/".join(members)] = given
        return [made(year, values[year]) for year in members]

    monkeypatch.setattr(senteval, "require", lambda names, paths: None)
    monkeypatch.setattr(transfer, "evaluate", classified)
    monkeypatch.setattr(sts, "evaluate", cosines)
    return options


def test_test_mean_by_hand(asked: dict[str, dict[str, str]]) -> None:
    """The 16 tasks score 0, 2 .. 30, sum 240; MRPC, at place 6, counts as the mean of its accuracy 12 and its F1 20."""
    *scores, mean = senteval.evaluate(None, DataPaths())  # type: ignore[arg-type]
    assert tuple(score.column for score in (*scores, mean)) == senteval.COLUMNS
    assert mean.value == pytest.approx((240 + 4) / 16)
    assert tuple(mean.details["tasks"]) == AVERAGED and mean.details["tasks"]["mrpc"] == 16.0
    assert (mean.protocol.rule, mean.protocol.split) == ("senteval, 10 folds, adam, 16 of 18 downstream tasks", "test")
    assert {score.column: score.value for score in scores}["mrpc:f1"] == 20.0


def test_dev_mean_by_hand(asked: dict[str, dict[str, str]]) -> None:
    """Eleven tasks are 1 higher than on test and MRPC's F1 does not count; STS12-16 have no dev set."""
    [mean] = senteval.evaluate_dev(None, DataPaths())  # type: ignore[arg-type]
    assert (mean.column, mean.protocol.split) == ("senteval_dev", "dev")
    assert mean.value == pytest.approx((240 + 11) / 16)
    assert mean.details["tasks"]["mrpc"] == 13.0 and mean.details["tasks"]["sts12"] == 22.0


def test_every_task_is_scored_by_the_paper_s_protocol(asked: dict[str, dict[str, str]]) -> None:
    senteval.evaluate(None, DataPaths())  # type: ignore[arg-type]
    seven, more, years = "/".join(transfer.TASKS), "/".join(MORE_TASKS), "/".join(STS_YEARS)
    assert asked == {seven: {}, more: {}, years: {"aggregation": "mean"}}


@pytest.mark.parametrize(("row", "mean"), [("roberta-base", 79.4216), ("distilroberta-base", 77.9656)])
def test_the_mean_of_the_paper_s_own_tasks(row: str, mean: float) -> None:
    """(18 x 78.1583 - 74.18 - 61.92) / 16 and (18 x 76.7992 - 73.72 - 61.22) / 16; with SNLI and COCO it is table 1."""
    paper = load_space("L5").paper
    assert paper is not None
    cells = next(printed.cells for printed in paper.rows if printed.key == {"method": "declutr", "train.encoder": row})
    stored = {paper.scores[column]: value for column, value in cells.items() if column in paper.scores}
    scores = [made(task, stored[task]) for task in AVERAGED if task in stored]
    scores += [made(year, stored[f"{year}:spearman_mean"]) for year in STS_YEARS]
    f1 = Score(suite="mrpc", metric="f1", value=stored["mrpc:f1"], protocol=scores[0].protocol)
    values = senteval.test_values([*scores, f1])
    assert set(values) == set(AVERAGED) and fmean(values.values()) == pytest.approx(mean, abs=5e-4)
    with_both = fmean([*values.values(), cells["SNLI"], cells["COCO"]])
    assert with_both == pytest.approx({"roberta-base": 78.16, "distilroberta-base": 76.80}[row], abs=0.005)


def test_missing_data_is_one_line_before_anything_is_encoded() -> None:
    for score in (senteval.evaluate, senteval.evaluate_dev):
        with pytest.raises(ConfigError, match=r"^missing data: mr needs senteval/downstream"):
            score(None, DataPaths())  # type: ignore[arg-type]


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


pytest.importorskip("sklearn", reason="pip install 'cse-search[transfer]'")
COUNTS = {"train": 90, "dev": 30, "test": 40}
LABELS = ("PRES", "PAST", "FUTURE")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataPaths:
    """Three classes in every file, whose splits stand mixed."""
    monkeypatch.setattr(tasks, "PROBING_COUNTS", COUNTS)
    short = {split: name for name, split in tasks.PROBING_SPLITS.items()}
    rows = [(short[split], at) for split, count in COUNTS.items() for at in range(count)]
    for place, file in enumerate(PROBING.values()):
        lines = [f"{split}\t{LABELS[at % 3]}\t{sentence(at + place, at % 3)}" for split, at in rows[::2] + rows[1::2]]
        write(tmp_path / "probing" / file, lines, "utf-8")
    return DataPaths(senteval=tmp_path / "downstream")


def test_every_file_is_of_senteval() -> None:
    assert len(PROBING) == 10 and all(name.endswith(".txt") for name in PROBING.values())
    assert sum(tasks.PROBING_COUNTS.values()) == 120_000


def test_classes_are_numbered_by_name_and_examples_sorted_by_tokens_then_class(paths: DataPaths) -> None:
    task = load_task("tense", paths)
    assert task.classes == 3 and {split: len(part.labels) for split, part in task.splits.items()} == COUNTS
    split = task.splits["dev"]
    keys = [(len(text.split()), int(label)) for text, label in zip(split.texts[0], split.labels, strict=True)]
    assert keys == sorted(keys)
    at = split.texts[0].index(sentence(4 + list(PROBING).index("tense"), 4 % 3))
    assert LABELS[4 % 3] == "PAST" and sorted(LABELS).index("PAST") == 1 and split.labels[at] in range(3)
    by_class = {WORDS[number]: sorted(LABELS).index(label) for number, label in enumerate(LABELS)}
    assert all(
        by_class[text.split()[-1]] == label for text, label in zip(split.texts[0], split.labels.tolist(), strict=True)
    )


def test_ten_accuracies_and_their_mean(counter, paths: DataPaths) -> None:
    *tasks, mean = probing.evaluate(counter, paths)
    assert tuple(score.column for score in (*tasks, mean)) == probing.COLUMNS
    assert mean.value == pytest.approx(sum(score.value for score in tasks) / 10)
    assert mean.details["tasks"] == {score.suite: score.value for score in tasks}
    assert [score.column for score in probing.evaluate(counter, paths, members=["wc"])] == ["wc"]


def test_the_dev_mean_is_over_the_dev_accuracies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten tasks whose dev accuracies are 1, 2 .. 10; those on test are 50."""

    def scored(model: object, paths: DataPaths, *, members: tuple[str, ...]) -> list[Score]:
        facts = {"pooler": "mean", "split": "test", "max_length": 512, "rule": "senteval, 10 folds, adam"}
        return [
            Score(
                suite=name,
                metric="accuracy",
                value=50.0,
                protocol=Protocol(suite=name, data_hash=name, **facts),
                details={"devacc": float(place)},
            )
            for place, name in enumerate(members, 1)
        ]

    monkeypatch.setattr(transfer, "evaluate", scored)
    [mean] = probing.evaluate_dev(None, DataPaths())  # type: ignore[arg-type]
    assert (mean.column, mean.value, mean.protocol.split) == ("probing_dev", 5.5, "dev")
    assert mean.details["tasks"]["coordinv"] == 10.0


def test_a_task_equals_the_plain_loop(counter, paths: DataPaths) -> None:
    task = load_task("somo", paths)
    splits = transfer.embed_task(counter, task)
    state = np.random.get_state()
    with torch.random.fork_rng():
        expected = plain({name: (part.features, part.labels) for name, part in splits.items()}, 3, "test")
    np.random.set_state(state)
    outcome = scorer("senteval")(splits, task.classes, RECIPES["test"])
    assert (outcome.predicted == expected.predicted).all()
    assert (outcome.devacc, outcome.accuracy) == (expected.devacc, expected.accuracy)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tr\tPLUPERFECT", "unreadable line: {path}:1: 'tr.tPLUPERFECT'; fetch the file again"),
        ("xx\tPAST\tgood", "unreadable line: {path}:1: 'xx.tPAST.tgood'; fetch the file again"),
        ("te\tPLUPERFECT\tgood", "unreadable line: {path}:1: 'te.tPLUPERFECT.tgood'; fetch the file again"),
        ("te\tPAST\tgood", "truncated data: tense train: 90 lines expected, 89 found in {path}; fetch it again"),
    ],
)
def test_a_line_of_another_format_is_named(line: str, message: str, paths: DataPaths, tmp_path: Path) -> None:
    path = tmp_path / "probing" / PROBING["tense"]
    path.write_text("\n".join([line, *path.read_text().split("\n")[1:]]))
    with pytest.raises(ConfigError, match=message.format(path=path)) as error:
        load_task("tense", paths)
    assert len(error.value.problems) == 1


def test_what_is_absent_is_one_line(tmp_path: Path) -> None:
    [line] = problems(["probing"], DataPaths(senteval=tmp_path / "downstream"))
    path = tmp_path / "probing" / "sentence_length.txt"
    assert line.startswith(f"missing data: sentlen needs {path} of 120000 lines; ")
