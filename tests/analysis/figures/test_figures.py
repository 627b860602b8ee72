"""Figures hold what the table holds, and are written whole or not at all."""

from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.figures.canvas import distinct, metric_name, save
from analysis.figures.study import effects_plot
from analysis.figures.table import axis_plot
from analysis.tables.aggregate import Baseline, Row, Table, aggregate
from analysis.tables.columns import entry_of
from analysis.tables.spec import PaperRow, TableSpec
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
