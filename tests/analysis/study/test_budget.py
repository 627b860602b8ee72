"""Best so far over the examples spent, and the expected best of a random order."""

from types import SimpleNamespace

import pytest

from analysis.study.budget import SpentBudget, budget


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
