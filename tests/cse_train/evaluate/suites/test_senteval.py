"""SentEval's tasks as DeCLUTR averages them: which number of each task counts, on test and on dev."""

from statistics import fmean

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import STS_YEARS
from cse_train.evaluate.suites import senteval, sts, transfer
from cse_train.evaluate.tasks import MORE_TASKS
from cse_train.fields import ConfigError
from cse_train.results import Protocol, Score
from search_spaces.catalog import load_space

TASKS = (*transfer.TASKS, *MORE_TASKS, *STS_YEARS)


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
    values = {task: 2.0 * place for place, task in enumerate(TASKS)}
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
    assert tuple(mean.details["tasks"]) == TASKS and mean.details["tasks"]["mrpc"] == 16.0
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
    scores = [made(task, stored[task]) for task in TASKS if task in stored]
    scores += [made(year, stored[f"{year}:spearman_mean"]) for year in STS_YEARS]
    f1 = Score(suite="mrpc", metric="f1", value=stored["mrpc:f1"], protocol=scores[0].protocol)
    values = senteval.test_values([*scores, f1])
    assert set(values) == set(TASKS) and fmean(values.values()) == pytest.approx(mean, abs=5e-4)
    with_both = fmean([*values.values(), cells["SNLI"], cells["COCO"]])
    assert with_both == pytest.approx({"roberta-base": 78.16, "distilroberta-base": 76.80}[row], abs=0.005)


def test_missing_data_is_one_line_before_anything_is_encoded() -> None:
    for evaluate in (senteval.evaluate, senteval.evaluate_dev):
        with pytest.raises(ConfigError, match=r"^missing data: mr needs senteval/downstream"):
            evaluate(None, DataPaths())  # type: ignore[arg-type]
