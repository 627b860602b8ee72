"""What a suite says of its metrics: which value is better and how wide the range is; a silent loss is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cse_train.evaluate.suites.registry import columns, sense, span
from cse_train.fields import ConfigError
from cse_train.plugins import registry

SUITE = """
NAME = "mine"
COLUMNS = ("mine:loss", "mine:accuracy", "mine:reach")
NEEDS = ()


def evaluate(model, paths):
    return []
"""


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mine.py"
    registry.forget()


def test_a_plug_ins_loss_without_a_direction_is_one_line(suite: Path) -> None:
    suite.write_text(SUITE)
    registry.use([str(suite)])
    with pytest.raises(ConfigError) as error:
        columns("mine")
    assert error.value.problems == ["no direction: suite=mine metric=loss; name it in LOWER of the suite, or in HIGHER"]


def test_a_plug_in_declares_directions_and_ranges(suite: Path) -> None:
    suite.write_text(SUITE + '\nLOWER, SPANS = ("loss",), {"accuracy": 1.0}\n')
    registry.use([str(suite)])
    assert [sense(column) for column in columns("mine")] == ["lower", "higher", "higher"]
    assert [span(column) for column in columns("mine")] == [None, 1.0, None]
    assert (sense("sts_test"), span("sts_test")) == ("higher", 100.0)


@pytest.mark.parametrize(
    ("column", "better", "width"),
    [
        ("sts_test", "higher", 100.0),
        ("generated_dev:40", "higher", 100.0),
        ("mteb:STSBenchmark", "higher", 100.0),
        ("sts_test:uniformity", "lower", 1.0),
        ("sts_test:alignment (positives gold > 4)", "lower", 1.0),
        ("lengths:gap", None, 100.0),
        ("repetition:bias", None, 100.0),
        ("edits:deletion", None, 1.0),
        ("faq:recall@1", "higher", 100.0),
    ],
)
def test_the_metrics_of_ours_are_declared(column: str, better: str | None, width: float) -> None:
    assert (sense(column), span(column)) == (better, width)
