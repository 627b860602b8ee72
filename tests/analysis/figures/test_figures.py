"""Figures hold what the table holds, and are written whole or not at all."""

from pathlib import Path
from typing import BinaryIO

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.figures.canvas import save
from analysis.figures.table import axis_plot
from analysis.tables.aggregate import Baseline, Table, aggregate
from analysis.tables.spec import TableSpec


@pytest.fixture
def table() -> Table:
    rows = [{"rate": rate} for rate in (0.1, 0.2, 0.3)]
    spec = TableSpec(
        id="X", axes=["rate"], columns=["dev"], rows=rows, published=[{"key": rows[0], "cells": {"dev": 80.0}}]
    )
    lines = [{**row, "seed": seed, "column": "dev", "value": 50.0 + seed} for row in rows[:2] for seed in (1, 2, 3)]
    return aggregate(spec, lines, baselines=[Baseline("word counts", {"dev": 49.0})])


def test_an_axis_plot_shows_seeds_mean_noise_baseline_and_paper(table: Table) -> None:
    figure = axis_plot(table)
    ours, paper = figure.axes
    assert len(ours.collections[-1].get_offsets()) == 6
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "± seed sd (1.00)", "mean over seeds", "one seed", "without training: word counts", "published (right scale)",
    ]  # fmt: skip
    assert list(paper.lines[0].get_ydata()) == [80.0]
    spans = [high - low for low, high in (ours.get_ylim(), paper.get_ylim())]
    assert spans[0] == pytest.approx(spans[1])


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
