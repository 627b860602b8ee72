"""A winner against its untrained encoder and further models in one command; intervals over the winner's seeds."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import cse
from analysis.ledger import Ledger
from cse.cli import screen
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.score import save_cosines
from tests.commands import printed, refused
from tests.cse.compare.models import PROTOCOL, SET, A, B, Capture, book, facts
from tests.documents import validated
from tests.run_values import score_of

ENCODER = "words-l4-h128"
"""With which E7's runs at profile small begin."""


def graded(ledger: Ledger, names: Sequence[str], noise: float) -> list[float]:
    """Kept cosines of each run, with noise of its own; the scores that they have."""
    pairs, values = load_pairs(SET, DataPaths()), []
    for seed, name in enumerate(names):
        file = Path("results/runs", name, "scores", "kept.npz").resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        cosines = pairs.gold + noise * np.random.default_rng(seed).normal(size=len(pairs))
        digest = save_cosines(file, cosines, pairs.gold)
        values.append(100 * float(scipy.stats.spearmanr(cosines, pairs.gold).statistic))
        ledger.add_score(name, score_of(SET, values[-1], PROTOCOL | {"data_hash": pairs.content_hash}, file, digest))
    return values


@pytest.fixture
def scored(ledger: Ledger) -> list[float]:
    values = graded(ledger, book(ledger, 0.24, [62.0, 64.0, 66.0]), 0.5)
    graded(ledger, book(ledger, 0.08, [60.0, 61.0, 62.0]), 3.0)
    return values


def test_the_untrained_encoder_and_another_run_share_the_level(capsys: Capture, scored: list[float]) -> None:
    said = validated("compare", printed(capsys, "compare", A, "untrained", "--also", B, "--format", "json"))
    (column,), (pairs,), (other,) = said["columns"], said["pairs"], said["also"]
    model = open_model(Path(ENCODER), pooler="cls_no_mlp")
    (theirs,) = evaluate(model, DataPaths(), [SET], {})
    assert (column["column"], column["B"]["values"]) == (SET, [pytest.approx(theirs.value, abs=1e-9)])
    assert (column["word"], column["level"], said["B"]["label"]) == (
        "better",
        0.0125,
        f"{ENCODER} without training, pooler cls_no_mlp",
    )
    (over_seeds,) = facts(capsys, "compare", A, "untrained", "--over", "seeds", "--level", "0.0125")["columns"]
    test = scipy.stats.ttest_1samp(np.array(scored) - theirs.value, 0.0)
    above, wide = (test.confidence_interval(1 - each["level"]) for each in (over_seeds, column))
    assert over_seeds["scope"] == "seeds" and over_seeds["interval"] == pytest.approx([above.low, above.high], abs=1e-6)
    assert column["scope"] == "both" and column["interval"][0] < wide.low < wide.high < column["interval"][1]
    assert pairs["seeds"] == [3, 1]
    assert [each["column"] for each in other["columns"]] == ["sts_dev", SET] and other["B"]["name"] == B
    assert {each["level"] for each in other["columns"]} == {0.0125}, "two columns share the half"
    made = cse.compare(A, "untrained", also=[B])
    assert made.also[0].columns[0].difference == 3.0 and made.columns[0].difference == column["difference"]


def test_it_is_told_at_80_columns_and_in_every_format(
    capsys: Capture, scored: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ("compare", A, "untrained", "--also", "words-l1-h64", "--also", B, "--pooler", "mean")
    for form in ("tex", "html", "csv"):
        text = printed(capsys, *argv, "--format", form)
        assert "against" in text and f"{ENCODER} without training" in text.replace("\\_", "_"), form
    monkeypatch.setattr(screen, "width", lambda: 80)
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(capsys, *argv))
    assert max(map(len, text.split("\n"))) <= 80
    flat = " ".join(text.split())
    assert f"B: {ENCODER} without training, pooler cls_no_mlp" in flat and text.count("- A: ") == 3
    assert "with 3 models compared, any word of all is wrong at most 5% of the time" in flat
    assert "intervals over seeds are those of A's; the other side is taken as it is" in flat


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            ("words-l1-h64", "untrained"),
            "no encoder to go back to: B=untrained is that of runs with an encoder of ours",
        ),
        ((A, B, "--also", A), "one model twice: "),
        ((A, B, "--also", "E7x"), "unknown model: model=E7x; "),
    ],
)
def test_each_mistake_is_one_line(capsys: Capture, scored: list[float], argv: tuple[str, ...], line: str) -> None:
    assert refused(capsys, "compare", *argv).startswith(f"cse: {line}")
