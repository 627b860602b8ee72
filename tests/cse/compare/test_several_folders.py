"""Several folders of one training are its seeds: two sides of three, three beside one, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from tests.commands import printed, refused
from tests.cse.compare.models import SET, Capture, facts
from tests.cse_train.encoders import tokenizer_of, write_encoder
from tests.documents import validated


@pytest.fixture
def values(somewhere: Path) -> dict[str, float]:
    """Folder -> its score: encoders with random weights, each of another spread."""
    scores = {}
    for place, name in enumerate(("a0", "a1", "a2", "b0", "b1", "b2")):
        write_encoder(somewhere / name, "bert", tokenizer_of("[CLS]", "[SEP]"), initializer_range=0.1 * (1 + place))
        (score,) = evaluate(open_model(somewhere / name, pooler="mean"), DataPaths(), [SET], {})
        scores[name] = score.value
    return scores


MORE = ("--pooler", "mean", "--suite", SET)


def test_folders_are_seeds_of_which_none_is_common(capsys: Capture, values: dict[str, float]) -> None:
    argv = ("compare", "a0,a1,a2", "b0, b1, b2", *MORE)
    said = validated("compare", printed(capsys, *argv, "--format", "json"))
    ((column,), (pairs,)) = said["columns"], said["pairs"]
    assert [Path(folder).name for folder in said["A"]["folders"]] == ["a0", "a1", "a2"]
    for side, name in (("A", "a"), ("B", "b")):
        expected = sorted(value for folder, value in values.items() if folder.startswith(name))
        assert sorted(column[side]["values"]) == pytest.approx(expected, abs=1e-9) and column[side]["n"] == 3
    a, b = (np.array([value for folder, value in values.items() if folder.startswith(name)]) for name in "ab")
    half = scipy.stats.t.ppf(0.975, 2) * np.sqrt(a.var(ddof=1) / 3 + b.var(ddof=1) / 3)
    assert column["interval"] == pytest.approx([a.mean() - b.mean() - half, a.mean() - b.mean() + half], abs=1e-6)
    assert (column["common"], pairs["seeds"]) == (0, [3, 3])
    assert "a0,a1,a2 (3 folders, each taken for a seed)" in printed(capsys, *argv)


def test_several_beside_one_are_compared_with_it_as_it_is(capsys: Capture, values: dict[str, float]) -> None:
    (column,) = facts(capsys, "compare", "a0,a1,a2", "b1", *MORE)["columns"]
    above = scipy.stats.ttest_1samp([values[name] - values["b1"] for name in ("a0", "a1", "a2")], 0.0)
    interval = above.confidence_interval(0.95)
    assert column["interval"] == pytest.approx([interval.low, interval.high], abs=1e-6)
    assert "3 seeds of A, and B has none" in column["reason"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("a0,a1,a0", "b0"), "no seeds of one training: model=a0,a1,a0: a folder stands twice; name each folder once"),
        (("a0,a1", "a1,b0"), "one model twice: A=a0,a1, B=a1,b0: both are "),
        (("a0,none", "b0"), "unknown model: model=none; "),
    ],
)
def test_each_mistake_is_one_line(capsys: Capture, somewhere: Path, argv: tuple[str, str], line: str) -> None:
    for name in ("a0", "a1", "b0"):
        (somewhere / name).mkdir()
    assert refused(capsys, "compare", *argv, *MORE).startswith(f"cse: {line}")
