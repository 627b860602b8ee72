"""DeCLUTR's averages from its printed tasks (tables 1, S3 and S4)."""

import pytest

from cse_train.evaluate.protocol import Protocol, Score
from cse_train.evaluate.suites.declutr import GROUPS, averages, declutr_average
from cse_train.fields import ConfigError

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
    found = declutr_average(whole(row))
    assert found.groups == {
        "downstream": pytest.approx(downstream, abs=5e-4),
        "probing": pytest.approx(probing, abs=5e-4),
    }
    assert round(found.average, 2) == average and found.missing == ()


def test_the_mean_over_all_tasks_is_another_number() -> None:
    scores = whole("base")
    assert sum(scores.values()) / len(scores) == pytest.approx(76.60, abs=0.005)


def test_a_set_that_is_not_whole_is_refused_unless_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"^partial average: tasks=2 of 28, without CR, MPQA, .*, CoordInv; score"):
        declutr_average({"MR": 80.0, "WC": 60.0})
    found = declutr_average({"MR": 80.0, "SUBJ": 90.0, "WC": 60.0}, partial=True)
    assert (found.average, found.groups) == (72.5, {"downstream": 85.0, "probing": 60.0})
    assert len(found.missing) == 25 and "CoordInv" in found.missing


def test_a_group_without_tasks_does_not_count_as_zero() -> None:
    found = declutr_average({"MR": 80.0, "CR": 90.0}, partial=True)
    assert (found.average, found.groups) == (85.0, {"downstream": 85.0})


def test_unknown_and_no_tasks() -> None:
    with pytest.raises(ConfigError, match=r"^unknown task: task=SST-2; did you mean SST2\?"):
        declutr_average({"SST-2": 80.0}, partial=True)
    with pytest.raises(ConfigError, match=r"^partial average: tasks=0 of 28"):
        declutr_average({}, partial=True)


def result(suite: str, value: float, details: dict[str, float] | None = None, **changes: str) -> Score:
    kind = {"aggregation": "mean"} if suite.startswith("sts") else {"rule": "senteval, 10 folds, adam"}
    about = {"suite": suite, "pooler": "mean", "split": "test", "data_hash": suite} | kind | changes
    protocol = Protocol(max_length=512, **about)  # type: ignore[arg-type]
    return Score(suite=suite, metric="m", value=value, protocol=protocol, details=details or {})


def test_average_of_what_other_suites_found() -> None:
    given = [result("mr", 80.0), result("mrpc", 70.0, {"f1": 80.0}), result("sts12", 60.0), result("sts_test", 1.0)]
    found = {r.metric: r for r in averages(given, partial=True)}
    assert found["downstream"].value == found["average"].value == pytest.approx((80 + 75 + 60) / 3)
    assert found["average"].details["tasks"] == {"MR": 80.0, "MRPC": 75.0, "STS12": 60.0}
    assert (found["average"].protocol.aggregation, found["average"].protocol.rule) == (
        "mean of group means",
        "3 of 28 tasks",
    )
    with pytest.raises(ConfigError, match=r"^partial average: tasks=3 of 28, without CR"):
        averages(given)


def test_tasks_under_another_protocol_are_refused() -> None:
    given = [result("mr", 80.0, rule="fast, 10 folds"), result("sts12", 60.0, aggregation="all")]
    with pytest.raises(ConfigError) as error:
        averages(given, partial=True)
    assert error.value.problems == [
        "another protocol: rule=fast, 10 folds of mr; DeCLUTR's average is over senteval, 10 folds, adam",
        "another protocol: aggregation=all of sts12; DeCLUTR's average is over mean",
    ]
