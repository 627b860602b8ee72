"""No figure cuts a text off or lays one on another: of the tables in docs/results, and of studies made here.

CSE_PICTURES=FOLDER keeps the pictures.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.figures.canvas import save
from analysis.figures.study import budget_plot, effects_plot, histogram_plot, importance_plot, learning_plot, plane_plot
from analysis.figures.table import axis_plot
from analysis.statistics.importance import importance
from analysis.study.figure_data import EDGES, RATING_GROUPS, Band, Plane, PlanePoint, RatingHistogram, SpentBudget
from analysis.tables.aggregate import Baseline, Row, Table
from analysis.tables.columns import Entry
from analysis.tables.spec import TableSpec
from search_spaces.catalog import load_space
from tests.analysis.figures.boxes import faults

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"
FILES = sorted(path for path in RESULTS.rglob("*.json") if '"axes"' in path.read_text(encoding="utf8"))
WITHOUT = (
    "untrained [CLS]", "untrained mean", "untrained first-last", "untrained layer 1 + last", "untrained, whitened",
    "word counts", "idf bag of words",
)  # fmt: skip
"""Rows without training as `cse demo` prints them."""
LONG = [
    f"method=esimcse learning_rate={rate} temperature={t} dup_rate=0.{n}1357 queue_multiple={n}.5 pooler=cls_train_only"
    for n, (rate, t) in enumerate(zip((1e-5, 3e-5, 1e-4, 3e-4) * 2, (0.01, 0.03, 0.05, 0.1) * 2, strict=True), 1)
]
"""Cells of a search whose names have much in common."""


def looked_at(figure: Figure, name: str) -> list[str]:
    lines = faults(figure)
    if folder := os.environ.get("CSE_PICTURES"):
        save(figure, Path(folder) / f"{name}.png")
    return lines


def seeds_of(entry: dict[str, Any]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Values and seeds that have the entry's mean and deviation: a page says no more of them."""
    places = np.arange(entry["n"]) - (entry["n"] - 1) / 2
    unit = places / places.std(ddof=1) if entry["n"] > 1 else places
    values = [] if entry["mean"] is None else entry["mean"] + (entry["sd"] or 0.0) * unit
    return tuple(map(float, values)), tuple(range(len(values)))


def table_of(file: Path, *, searched: bool = False) -> Table:
    """A table as its JSON tells it, with rows without training beside."""
    plain = json.loads(file.read_text(encoding="utf8"))
    rows = [
        Row(
            row["key"],
            {c: Entry(e["n"], e["mean"], e["sd"], e["published"], *seeds_of(e)) for c, e in row["cells"].items()},
        )
        for row in plain["rows"]
    ]
    means = [e.mean for row in rows for e in row.entries.values() if e.mean is not None] or [50.0]
    lines = [Baseline(name, dict.fromkeys(plain["columns"], min(means) - 2 * i)) for i, name in enumerate(WITHOUT)]
    keys = [row.key for row in rows]
    space = load_space(plain["id"])
    metric = space.paper.metric if space.paper else ""
    spec = TableSpec(
        id=plain["id"], title=space.title, axes=plain["axes"], columns=plain["columns"], rows=keys, metric=metric,
        searched=searched,
    )  # fmt: skip
    return Table(spec, rows, lines, {}, [])


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_tables(file: Path) -> None:
    table = table_of(file)
    for column in table.spec.columns:
        assert looked_at(axis_plot(table, column), f"table-{file.stem}-{column}".replace("/", "_")) == []


def test_the_table_of_a_search_of_four_axes() -> None:
    generator = np.random.default_rng(0)
    axes = ["train.learning_rate", "method.temperature", "method.dup_rate", "method.queue_multiple"]
    keys = [dict(zip(axes, (10 ** -(3 + 2 * u[0]), 0.01 + u[1] / 9, u[2], 1 + u[3]), strict=True))
            for u in generator.uniform(size=(10, 4))]  # fmt: skip
    rows = [
        Row(key, {"sts_dev": Entry(2, 60 + i, 0.5, None, (59.5 + i, 60.5 + i), (0, 1))}) for i, key in enumerate(keys)
    ]
    spec = TableSpec(id="X", title="A search", axes=axes, columns=["sts_dev"], searched=True)
    figure = axis_plot(Table(spec, rows, [Baseline(WITHOUT[0], {"sts_dev": 20.0})], {}, []))
    assert looked_at(figure, "table-search") == []
    names = [label.get_text().replace("\n", " ") for label in figure.axes[0].get_yticklabels()]
    assert all(axis.partition(".")[2] + "=" in name for axis in axes for name in names[:-1])
    assert names[-1] == "untrained [CLS]: 20.00, far off this scale"


@pytest.mark.parametrize("number", [1, 2, 4, 9])
def test_effects_and_importance(number: int) -> None:
    generator = np.random.default_rng(number)
    makers = {
        "train.learning_rate": lambda: float(10 ** generator.uniform(-5.5, -3)),
        "method": lambda: str(generator.choice(["simcse", "esimcse", "diffcse", "declutr", "dcpcse", "mirror_bert"])),
        "train.batch_size": lambda: int(generator.choice([16, 64, 128, 512])),
        "method.dup_rate": lambda: float(generator.uniform(0.0, 0.4)),
        "method.fixed_dropout": lambda: bool(generator.integers(2)),
        "train.corpus": lambda: str(generator.choice(["wiki", "nli_entailment_and_contradiction", "generated"])),
        "train.lr": lambda: float(generator.choice([1e-5, 2e-5, 3e-5, 5e-5, 1e-4, 2e-4])),
        "method.momentum": lambda: [None, 0.995, 0.9995][int(generator.integers(3))],
        "method.temperature": lambda: float(generator.choice([0.001, 0.01, 0.05, 0.1, 1.0])),
    }
    axes = list(makers)[:number]
    keys = [{axis: makers[axis]() for axis in axes} for _ in range(60)]
    scores = [float(score) for score in generator.normal(60, 4, 60)]
    assert looked_at(effects_plot(keys, scores, axes, "sts_dev"), f"effects-{number}") == []
    shares = importance(keys, scores, axes)
    assert shares is not None
    assert looked_at(importance_plot(shares), f"importance-{number}") == []


@pytest.mark.parametrize("number", [1, 3, 8])
def test_curves_that_end_alike(number: int) -> None:
    examples = tuple(range(6400, 6400 * 21, 6400))
    bands = [
        Band(name, 3, examples, tuple(60 - 20 / (i + 1) + n / 50 for i in range(20)), (0.5,) * 20)
        for n, name in enumerate(LONG[:number])
    ]
    assert looked_at(learning_plot(bands, "sts_dev"), f"learning-{number}") == []


@pytest.mark.parametrize("number", [1, 40])
def test_budget(number: int) -> None:
    scores = tuple(float(score) for score in np.random.default_rng(0).normal(60, 3, number))
    spent = tuple(25600 * (i + 1) for i in range(number))
    expected = tuple(sorted(scores))
    assert looked_at(budget_plot(SpentBudget(spent, scores, expected), "generated_dev"), f"budget-{number}") == []


@pytest.mark.parametrize("number", [1, 8, 30])
def test_plane(number: int) -> None:
    generator = np.random.default_rng(0)
    names = LONG[:number] if number <= len(LONG) else [f"dup_rate={i}" for i in range(number)]
    points = [
        PlanePoint(name, *(float(x) for x in generator.normal([0.3, -2, 60], 0.02))) for name in names for _ in range(3)
    ]
    assert looked_at(plane_plot(Plane(tuple(points), "x"), "sts_dev"), f"plane-{number}") == []


@pytest.mark.parametrize("number", [1, 2])
def test_cosines(number: int) -> None:
    counts = np.random.default_rng(0).integers(0, 90, (len(RATING_GROUPS), len(EDGES) - 1))
    histograms = [RatingHistogram(name, 3, counts, (0.1, 0.3, None, 0.5, 0.7)) for name in LONG[:number]]
    assert looked_at(histogram_plot(histograms), f"cosines-{number}") == []


def test_what_is_cut_off_or_overlaps_is_seen() -> None:
    figure = Figure(figsize=(3, 2))
    for x, name in ((0.5, "left of two"), (0.55, "right of two"), (0.95, "much too long for here")):
        figure.text(x, 0.5, name)
    lines = faults(figure)
    assert any(line.startswith("outside: 'much too long") for line in lines)
    assert any("'left of two' and 'right of two'" in line for line in lines)
