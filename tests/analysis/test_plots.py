"""Figures hold what the table holds, and are written whole or not at all."""

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.aggregate import Baseline, Table, aggregate
from analysis.plots import axis_figure, learning_figure
from analysis.table_spec import TableSpec


@pytest.fixture
def table() -> Table:
    rows = [{"rate": rate} for rate in (0.1, 0.2, 0.3)]
    spec = TableSpec(
        id="X", axes=["rate"], columns=["dev"], rows=rows, published=[{"key": rows[0], "cells": {"dev": 80.0}}]
    )
    lines = [{**row, "seed": seed, "column": "dev", "value": 50.0 + seed} for row in rows[:2] for seed in (1, 2, 3)]
    return aggregate(spec, pd.DataFrame(lines), baselines=[Baseline("word counts", {"dev": 49.0})])


def test_an_axis_figure_shows_seeds_mean_noise_baseline_and_paper(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k)))
    path = axis_figure(table, tmp_path / "figures" / "x.png")
    assert imread(path).shape[1] == 1050
    assert [entry.name for entry in path.parent.iterdir()] == ["x.png"]
    ours, paper = drawn[0].axes
    assert len(ours.collections[-1].get_offsets()) == 6
    legend = ours.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "± seed sd (1.00)", "mean over seeds", "one seed", "without training: word counts", "published (right scale)",
    ]  # fmt: skip
    assert list(paper.lines[0].get_ydata()) == [80.0]


def test_a_failed_drawing_leaves_the_old_picture(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.png"
    path.write_text("old")

    def broken(self: Figure, to: Path, **options: object) -> None:
        Path(to).write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        axis_figure(table, path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_learning_figure_skips_points_without_the_metric(tmp_path: Path) -> None:
    points = [{"examples": 64 * step, "metrics": {"dev": 50.0 + step} if step % 2 else {}} for step in range(1, 6)]
    assert learning_figure({"seed 1": points, "seed 2": []}, "dev", tmp_path / "curve.png").stat().st_size > 5000


def test_an_empty_table_still_draws(tmp_path: Path) -> None:
    spec = TableSpec(id="X", axes=["rate"], columns=["dev"], rows=[{"rate": 1}])
    assert axis_figure(aggregate(spec, pd.DataFrame()), tmp_path / "x.png").exists()
