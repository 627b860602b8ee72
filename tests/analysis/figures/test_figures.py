"""Figures hold what the table holds, are written whole or not at all, and cut no text off."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.figures.canvas import distinct, metric_name, save
from analysis.figures.study import budget_plot, effects_plot, histogram_plot, importance_plot, learning_plot, plane_plot
from analysis.figures.table import axis_plot
from analysis.statistics.importance import importance
from analysis.study.figure_data import EDGES, RATING_GROUPS, Band, Plane, PlanePoint, RatingHistogram, SpentBudget
from analysis.tables.aggregate import Baseline, Row, Table, aggregate
from analysis.tables.columns import entry_of
from analysis.tables.spec import PaperRow, TableSpec
from search_spaces.catalog import load_space
from tests.analysis.figures.boxes import faults
from tests.run_values import value_of


@pytest.fixture
def table() -> Table:
    rows = [{"rate": rate} for rate in (0.1, 0.2, 0.3)]
    spec = TableSpec(
        id="X", axes=["rate"], columns=["dev"], rows=rows, published=[PaperRow(key=rows[0], cells={"dev": 80.0})]
    )
    lines = [value_of(row, 50.0 + seed, column="dev", seed=seed) for row in rows[:2] for seed in (1, 2, 3)]
    return aggregate(
        spec, lines, baselines=[Baseline("word counts", {"dev": 20.0}), Baseline("untrained [CLS]", {"dev": 49.0})]
    )


def test_an_axis_of_numbers_is_a_scatter_of_seeds_mean_interval_start_and_paper(table: Table) -> None:
    figure = axis_plot(table)
    ours, paper = figure.axes
    seeds, means = ours.collections[0], ours.containers[0]
    assert len(seeds.get_offsets()) == 6
    assert list(means[0].get_xdata()) == [0.1, 0.2] and list(means[0].get_ydata()) == [52.0, 52.0]
    assert means[0].get_linestyle() == "None", "no line through the rows"
    low, high = means[2][0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-5), "Student's t of two degrees, sd 1, 3 seeds"
    assert [line.get_ydata() for line in ours.lines if line.get_linestyle() == "--"] == [[49.0, 49.0]]
    assert paper.collections[0].get_offsets().tolist() == [[0.1, 80.0]]
    spans = [high - low for low, high in (ours.get_ylim(), paper.get_ylim())]
    assert spans[0] == pytest.approx(spans[1])


def test_rows_of_words_are_a_list(table: Table) -> None:
    rows = [replace(row, key={"rate": name}) for row, name in zip(table.rows, ("low", "middle", "high"), strict=True)]
    spec = replace(table.spec, rows=[row.key for row in rows])
    figure = axis_plot(replace(table, spec=spec, rows=rows))
    ours = figure.axes[0]
    assert [label.get_text() for label in ours.get_yticklabels()] == [
        "rate=low", "rate=middle", "rate=high", "untrained [CLS]",
    ]  # fmt: skip
    assert list(ours.containers[0][0].get_ydata()) == [0, 1] and ours.containers[0][0].get_linestyle() == "None"


def test_a_searchs_rows_begin_with_the_best_and_end_with_those_without_a_number() -> None:
    """A row without a number stood first, and so did a mean of 0."""
    means = {"none": None, "nought": 0.0, "low": -1.0, "high": 2.0}
    rows = [Row({"rate": name}, {"dev": entry_of({} if mean is None else {0: mean})}) for name, mean in means.items()]
    spec = TableSpec(id="X", title="", axes=["rate"], columns=["dev"], rows=[row.key for row in rows], searched=True)
    names = [label.get_text() for label in axis_plot(Table(spec, rows, [], {}, [])).axes[0].get_yticklabels()]
    assert names == ["rate=high", "rate=nought", "rate=low", "rate=none"]


def test_a_start_far_below_is_said_and_not_drawn(table: Table) -> None:
    figure = axis_plot(replace(table, baselines=[Baseline("untrained [CLS]", {"dev": -300.0})]))
    assert not [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert "untrained [CLS], -300.00, is far off this scale" in figure.axes[0].get_title(loc="left")


def test_far_numbers_stand_on_a_log_axis() -> None:
    spec = TableSpec(id="X", axes=["rate"], columns=["dev"], rows=[{"rate": rate} for rate in (1e-5, 1e-4, 1e-3)])
    lines = [value_of(row, 50.0, column="dev") for row in spec.rows]
    assert axis_plot(aggregate(spec, lines)).axes[0].get_xscale() == "log"


def test_names_of_scores() -> None:
    assert metric_name("sts_dev") == metric_name("sts_dev", "STS-B dev, Spearman x 100") == "STS-B dev, Spearman x 100"
    both = "STS-B dev, Spearman x 100; transfer_dev is the mean dev accuracy of seven tasks"
    assert metric_name("transfer_dev", both) == "transfer_dev, the mean dev accuracy of seven tasks"
    assert metric_name("MR") == "MR"


def test_names_of_cells_keep_what_differs() -> None:
    assert distinct(["method=a rate=0.1234567", "method=a rate=0.2"]) == ["rate=0.1235", "rate=0.2"]
    assert distinct(["momentum=0.99999 seed 1"]) == ["momentum=0.99999 seed 1"]


def test_a_figure_is_saved_whole(table: Table, tmp_path: Path) -> None:
    path = save(axis_plot(table), tmp_path / "figures" / "x.png")
    assert imread(path).shape[1] == 1050
    assert [entry.name for entry in path.parent.iterdir()] == ["x.png"]


def test_a_failed_drawing_leaves_the_old_picture(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.png"
    path.write_text("old")

    def broken(self: Figure, to: BinaryIO, **options: object) -> None:
        to.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        save(axis_plot(table), path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_an_empty_table_still_draws(tmp_path: Path) -> None:
    spec = TableSpec(id="X", axes=["rate"], columns=["dev"], rows=[{"rate": 1}])
    assert save(axis_plot(aggregate(spec, [])), tmp_path / "x.png").exists()


def _means(panel: Axes) -> dict[str, dict[float, float]]:
    """Name of a series in a panel of effects -> place -> mean."""
    return {
        str(marks.get_label()): dict(zip(*(map(float, part) for part in marks.lines[0].get_data()), strict=True))
        for marks in panel.containers
    }


def test_effects_keep_rows_apart_that_differ_in_more_than_the_axis() -> None:
    """S3 in short: a row with fixed dropout has 0.1 too, and entered that value's mean."""
    rows = [((0.0, False), 62.0), ((0.1, False), 67.0), ((0.1, False), 68.0), ((0.1, True), 62.0), ((0.2, False), 68.5)]
    keys = [dict(zip(("train.dropout", "method.fixed_dropout"), key, strict=True)) for key, _ in rows]
    figure = effects_plot(keys, [score for _, score in rows], ["train.dropout"], "sts_dev")
    (panel,) = figure.axes
    ours = {"fixed_dropout=no": {0.0: 62.0, 0.1: 67.5, 0.2: 68.5}, "fixed_dropout=yes": {0.1: 62.0}}
    assert _means(panel) == ours
    assert [text.get_text() for text in panel.get_legend().get_texts()] == list(ours)


@pytest.mark.parametrize(("left_out", "means"), [(0, {"": {0.0: 4.5, 1.0: 5.5}}), (1, {})])
def test_a_mean_over_many_rows_is_drawn_where_each_value_has_as_many_of_each(left_out: int, means: object) -> None:
    grid = [(value, other) for value in (0.0, 1.0) for other in range(10)]
    keys = [{"lr": value, "other": other} for value, other in grid][: len(grid) - left_out]
    scores = [value + other for value, other in grid][: len(keys)]
    named = {
        "" if name.startswith("_") else name: marks
        for name, marks in _means(effects_plot(keys, scores, ["lr"], "m").axes[0]).items()
    }
    assert named == means


def test_a_setting_that_goes_with_the_axis_makes_no_further_row() -> None:
    keys = [{"lr": lr, "name": f"at {lr}"} for lr in (1.0, 1.0, 2.0)]
    (series,) = _means(effects_plot(keys, [1.0, 2.0, 5.0], ["lr"], "m").axes[0]).values()
    assert series == {1.0: 1.5, 2.0: 5.0}


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


def seeds_of(entry: dict[str, Any]) -> list[float]:
    """Values of seeds that have the entry's mean and deviation: a page says no more of them."""
    places = np.arange(entry["n"]) - (entry["n"] - 1) / 2
    unit = places / places.std(ddof=1) if entry["n"] > 1 else places
    values = [] if entry["mean"] is None else entry["mean"] + (entry["sd"] or 0.0) * unit
    return list(map(float, values))


def table_of(file: Path, *, searched: bool = False) -> Table:
    """A table as its JSON tells it, with rows without training beside."""
    plain = json.loads(file.read_text(encoding="utf8"))
    rows = [
        Row(
            row["key"],
            {c: entry_of(dict(enumerate(seeds_of(e))), e["published"]) for c, e in row["cells"].items()},
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
    rows = [Row(key, {"sts_dev": entry_of({0: 59.5 + i, 1: 60.5 + i})}) for i, key in enumerate(keys)]
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
