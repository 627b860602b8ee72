"""DeCLUTR's averages from its printed tasks (tables 1, S3 and S4)."""

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.protocol import Protocol, Score
from cse_train.evaluate.suites import declutr, sts, transfer
from cse_train.evaluate.suites.declutr import GROUPS, averages, means

BASE = {
    "CR": 90.15,
    "MR": 84.89,
    "MPQA": 89.39,
    "SUBJ": 95.19,
    "SST2": 89.68,
    "SST5": 50.18,
    "TREC": 93.60,
    "MRPC": (75.25 + 82.80) / 2,
    "SNLI": 74.18,
    "SICK-E": 82.95,
    "SICK-R": 79.39,
    "STS-B": 78.84,
    "COCO": 61.92,
    **dict(zip(GROUPS["downstream"][-5:], (64.21, 70.40, 69.99, 77.51, 75.35), strict=True)),
}
SMALL = {
    "CR": 88.03,
    "MR": 82.54,
    "MPQA": 89.86,
    "SUBJ": 94.94,
    "SST2": 87.59,
    "SST5": 48.42,
    "TREC": 92.40,
    "MRPC": (75.54 + 82.68) / 2,
    "SNLI": 73.72,
    "SICK-E": 82.69,
    "SICK-R": 78.35,
    "STS-B": 77.26,
    "COCO": 61.22,
    **dict(zip(GROUPS["downstream"][-5:], (64.10, 65.80, 67.89, 75.63, 72.84), strict=True)),
}
PROBING = {
    "base": (79.74, 69.98, 37.25, 72.96, 87.50, 88.29, 85.72, 82.92, 65.60, 68.03),
    "small": (85.83, 74.51, 38.04, 73.78, 85.26, 87.72, 85.48, 83.08, 62.06, 62.61),
}


def whole(row: str) -> dict[str, float]:
    tasks = BASE if row == "base" else SMALL
    return tasks | dict(zip(GROUPS["probing"], PROBING[row], strict=True))


@pytest.mark.parametrize(
    ("row", "downstream", "probing", "average"),
    [("base", 78.158, 73.799, 75.98), ("small", 76.799, 73.837, 75.32)],
)
def test_published_averages_are_means_of_the_group_means(
    row: str, downstream: float, probing: float, average: float
) -> None:
    table = means(whole(row))
    assert table == {
        "downstream": pytest.approx(downstream, abs=5e-4),
        "probing": pytest.approx(probing, abs=5e-4),
        "average": pytest.approx(average, abs=5e-3),
    }


def test_the_mean_over_all_tasks_is_another_number() -> None:
    scores = whole("base")
    assert sum(scores.values()) / len(scores) == pytest.approx(76.60, abs=0.005)


def test_tasks_that_are_absent_do_not_count() -> None:
    table = means({"MR": 80.0, "SUBJ": 90.0, "WC": 60.0})
    assert table == {"downstream": 85.0, "probing": 60.0, "average": 72.5}


def test_a_group_without_tasks_does_not_count_as_zero() -> None:
    assert means({"MR": 80.0, "CR": 90.0}) == {"downstream": 85.0, "average": 85.0}


def result(suite: str, value: float, details: dict[str, float] | None = None, **changes: str) -> Score:
    kind = {"aggregation": "mean"} if suite.startswith("sts") else {"rule": "senteval, 10 folds, adam"}
    about = {"suite": suite, "pooler": "mean", "split": "test", "data_hash": suite} | kind | changes
    protocol = Protocol(max_length=512, **about)  # type: ignore[arg-type]
    return Score(suite=suite, metric="m", value=value, protocol=protocol, details=details or {})


def test_average_of_what_other_suites_found() -> None:
    given = [result("mr", 80.0), result("mrpc", 70.0, {"f1": 80.0}), result("sts12", 60.0)]
    scores = {score.metric: score for score in averages(given)}
    assert scores["downstream"].value == scores["average"].value == pytest.approx((80 + 75 + 60) / 3)
    details = scores["average"].details
    assert details["tasks"] == {"MR": 80.0, "MRPC": 75.0, "STS12": 60.0}
    assert len(details["missing"]) == 25 and "CoordInv" in details["missing"]
    assert (scores["average"].protocol.aggregation, scores["average"].protocol.rule) == (
        "mean of group means",
        "3 of 28 tasks",
    )


def test_every_task_is_scored_by_the_paper_s_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, dict[str, str]] = {}

    def score(*_: object, members: tuple[str, ...], **options: str) -> list[Score]:
        asked[members[0]] = options
        return [result(members[0], 50.0, {"f1": 50.0})]

    for suite in (transfer, sts):
        monkeypatch.setattr(suite, "evaluate", score)
    declutr.evaluate(None, DataPaths())  # type: ignore[arg-type]
    assert asked == {name: {} for name in declutr.TRANSFER} | {name: {"aggregation": "mean"} for name in declutr.STS}
