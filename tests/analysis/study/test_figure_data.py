"""Bands over seeds, rating groups and the budget, from numbers that can be checked by eye."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.figures.study import histogram_plot, learning_plot
from analysis.ledger import CurvePoint
from analysis.study.figure_data import EDGES, SpentBudget, band, budget, learning_bands, rating_histogram


def test_a_band_holds_what_every_seed_reached() -> None:
    found = band("x", [{10: 1.0, 20: 4.0, 30: 9.0}, {10: 3.0, 20: 6.0}])
    assert (found.examples, found.means) == ((10, 20), (2.0, 5.0))
    assert found.sds == pytest.approx((2**0.5, 2**0.5)) and found.seeds == 2
    assert band("x", [{10: 1.0}]).sds == (0.0,)


def test_a_run_whose_settings_name_no_dev_set_has_no_band() -> None:
    runs = {
        "a": SimpleNamespace(signature="s", config={"train.dev": "x"}),
        "b": SimpleNamespace(signature="t", config={}),
    }
    points = [CurvePoint(10, 1, 1.0, {"x": 1.0}, None, None)]
    study = SimpleNamespace(
        ranked=["a", "b"], cells={name: [(None, run)] for name, run in runs.items()}, curves={"s": points, "t": points}
    )
    assert [made.label for made in learning_bands(study)] == ["a"]


def test_a_learning_plot_draws_a_line_and_a_band_for_each_cell() -> None:
    bands = [band("a", [{10: 1.0, 20: 2.0}, {10: 3.0, 20: 4.0}]), band("costs $5 to $6", [{10: 5.0}])]
    figure = learning_plot(bands, "dev")
    (axes,) = figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[2.0, 3.0], [5.0]]
    assert len(axes.collections) == 2
    names = [text.get_text().replace("\u00a0", " ") for text in (*axes.texts, *figure.texts)]
    assert r"costs \$5 to \$6 (n 1)" in names


def test_ratings_fall_into_five_groups() -> None:
    gold = np.array([0.0, 0.99, 1.0, 2.5, 3.0, 4.0, 5.0])
    cosines = np.array([-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 1.0 + 1e-9])
    found = rating_histogram("x", [(cosines, gold), (cosines, gold)])
    assert found.counts.sum(axis=1).tolist() == [4, 2, 2, 2, 4] and found.counts.shape == (5, len(EDGES) - 1)
    assert found.means == pytest.approx((-0.5, 0.1, 0.2, 0.3, 0.7)) and found.seeds == 2


def test_an_empty_group_is_drawn_empty() -> None:
    found = rating_histogram("x", [(np.array([0.5]), np.array([4.5]))])
    assert found.means == (None, None, None, None, 0.5)
    assert len(histogram_plot([found, found]).axes) == 10


def test_cells_by_completion_beside_as_many_at_random() -> None:
    ended = {"a": [(3.0, 10, 5.0)], "b": [(1.0, 10, 1.0), (2.0, 20, 3.0)], "c": [(9.0, 30, 8.0)]}
    runs = {
        cell: [(None, SimpleNamespace(updated=at, examples=examples, best=best)) for at, examples, best in each]
        for cell, each in ended.items()
    }
    spent = budget(SimpleNamespace(cells=runs))  # type: ignore[arg-type]
    assert (spent.spent, spent.scores, spent.best) == ((30, 40, 70), (2.0, 5.0, 8.0), (2.0, 5.0, 8.0))
    assert spent.expected == pytest.approx((5.0, 7.0, 8.0))
    assert budget(SimpleNamespace(cells={})) == SpentBudget((), (), ())  # type: ignore[arg-type]


def test_the_best_so_far_never_falls() -> None:
    assert SpentBudget((1, 2, 3), (5.0, 4.0, 6.0), ()).best == (5.0, 5.0, 6.0)
