"""Published values at the paper's own scale: how often their words are wrong, where the truth is known.

A published value is drawn as one more run of its row. An independent rule of numpy and scipy stands beside the judge's.
"""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from analysis.answers.judge import Judgement, judge
from analysis.statistics.contrasts import Array
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import entry_of
from analysis.tables.spec import TableSpec

ROWS, COLUMNS = 4, 8
DEVIATION = 0.84
"""Standard deviation over seeds in points, that of SimCSE on BERT-base."""
PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data" / "public_runs" / "simple_simcse"


def judge_values(values_RCS: Array, published_RC: Array) -> dict[tuple[int, int], Judgement]:
    """Returns (row, column) -> judgement on a table at the paper's own scale."""
    columns = [str(column) for column in range(values_RCS.shape[1])]
    rows = [
        Row({"x": row}, {
            name: entry_of(dict(enumerate(values_S.tolist())), float(published))
            for name, values_S, published in zip(columns, values_CS, published_C, strict=True)
        })
        for row, (values_CS, published_C) in enumerate(zip(values_RCS, published_RC, strict=True))
    ]  # fmt: skip
    table = Table(TableSpec(id="T", axes=["x"], columns=columns), rows, [], {}, [])
    return {(row, int(name)): judgement for (row, name), judgement in judge(table, same_scale=True).items()}


def differs(values_S: Array, published: float, values: int) -> bool:
    """The rule written down again: the p value of one further seed, by ranks where these can reach it, else by t."""
    level, n = 0.05 / values, len(values_S)
    if 2 / (n + 1) <= level:
        beyond = min(np.sum(values_S <= published), np.sum(values_S >= published))
        return bool(2 * (beyond + 1) / (n + 1) <= level)
    away = abs(values_S.mean() - published)
    error = values_S.std(ddof=1) * np.sqrt(1 + 1 / n)
    return bool(2 * scipy.stats.t.sf(away / error, n - 1) < level)


def draw_words(cases: int, seeds: int, rows: int, columns: int, worse: float) -> list[Counter[str]]:
    """Returns the counts of words of each simulated table; runs are `worse` points below the published ones."""
    rng, counts = np.random.default_rng(seeds), []
    for _ in range(cases):
        runs_RCS = rng.normal(75, DEVIATION, (rows, 1, seeds + 1)) + rng.normal(0, 0.5, (rows, columns, seeds + 1))
        published_RC, values_RCS = runs_RCS[..., -1] + worse, runs_RCS[..., :-1]
        judged = judge_values(values_RCS, published_RC)
        for place, judgement in judged.items():
            expected = differs(values_RCS[place], published_RC[place], rows * columns)
            assert judgement.word == ("different" if expected else "one seed could give it")
        counts.append(Counter(judgement.word for judgement in judged.values()))
    return counts


@pytest.mark.parametrize("cases", [pytest.param(40, id="fast"), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("seeds", "rows", "columns"), [(3, ROWS, COLUMNS), (50, ROWS, COLUMNS), (50, 1, 1)])
def test_a_perfect_replication_is_rarely_called_different(cases: int, seeds: int, rows: int, columns: int) -> None:
    counts = draw_words(cases, seeds, rows, columns, 0.0)
    wrong = np.mean([count["different"] > 0 for count in counts])
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / cases), "some value of a table is called different"


@pytest.mark.parametrize("cases", [pytest.param(40, id="fast"), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("seeds", "rows", "columns", "least", "most"),
    [(3, ROWS, COLUMNS, 0.0, 0.02), (50, ROWS, COLUMNS, 0.05, 0.3), (50, 1, 1, 0.3, 0.7)],
)
def test_how_often_two_points_are_found(
    cases: int, seeds: int, rows: int, columns: int, least: float, most: float
) -> None:
    """Three seeds find two points of one published run hardly ever, and say so: one seed could give it."""
    counts = draw_words(cases, seeds, rows, columns, 2.0)
    found = sum(count["different"] for count in counts) / (cases * rows * columns)
    assert least <= found <= most


def test_percentiles_are_numpys() -> None:
    """The "inverted_cdf" quantile at a value's percentile is the highest seed that is not above the value."""
    rng = np.random.default_rng(5)
    for seeds in (10, 37, 50):
        values_S = rng.normal(75, 1, seeds).round(1)
        for published in rng.normal(75, 1, 40).round(1):
            percentile = judge_values(values_S[None, None], np.array([[published]]))[0, 0].percentile
            assert percentile == pytest.approx(scipy.stats.percentileofscore(values_S, published, kind="weak"))
            if percentile:
                quantile = np.percentile(values_S, percentile - 1e-9, method="inverted_cdf")
                assert quantile == values_S[values_S <= published].max()


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="no ../shared/data/public_runs beside the checkout")
@pytest.mark.parametrize(
    ("file", "published", "percentile", "word"),
    [
        ("bert-base-uncased", 76.25, 90.0, "one seed could give it"),
        ("bert-large-uncased", 78.41, 100.0, "different"),
        ("roberta-base", 76.57, 100.0, "different"),
        ("roberta-large", 78.90, 100.0, "different"),
    ],
)
def test_a_single_published_average_among_fifty_public_seeds(
    file: str, published: float, percentile: float, word: str
) -> None:
    """One value has the whole 5%, and fifty seeds have ranks at 2/51: the seeds of BERT-large are not normal."""
    rows = list(csv.DictReader((PUBLIC / f"{file}.csv").open(encoding="utf8")))
    values_S = np.array([float(row["avg"]) for row in rows])
    judgement = judge_values(values_S[None, None], np.array([[published]]))[0, 0]
    assert (judgement.word, judgement.percentile) == (word, percentile)
    assert judgement.percentile == 100 * np.mean(values_S <= published)
