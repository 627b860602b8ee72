from types import SimpleNamespace

from cluster.plan.run_source import GridSource
from cluster.search.source import SearchSource

WAIT = object()


def planned(signature, seed=0):
    return SimpleNamespace(signature=signature, seed=seed)


class Cells:
    """A proposer that reads from a list and remembers what it was told."""

    def __init__(self, *answers):
        self.answers, self.told = list(answers), []

    def propose(self):
        return self.answers.pop(0)

    def observe(self, *what):
        self.told.append(what)


def test_a_grid_hands_out_each_distinct_run_once():
    source = GridSource([planned("a"), planned("b"), planned("a")])
    assert [source.take().signature, source.take().signature, source.take()] == ["a", "b", None]
    assert source.exhausted()


def test_a_search_hands_out_every_seed_of_a_cell_and_tells_it_what_came_out():
    cells = Cells("cell", None)
    source = SearchSource(cells, lambda cell: [planned(f"{cell}{seed}", seed) for seed in (0, 1)], WAIT)
    first, second = source.take(), source.take()
    assert not source.exhausted()
    source.tell(second, "done", 7.0, 128)
    source.tell(first, "failed", None, None)
    assert cells.told == [("cell", 1, 7.0, "done", 128), ("cell", 0, None, "failed", None)]
    assert source.take() is None and source.exhausted() and source.take() is None


def test_a_search_that_waits_is_asked_again():
    cells = Cells(WAIT, "cell", None)
    source = SearchSource(cells, lambda cell: [planned(cell)], WAIT)
    assert source.take() is None and not source.exhausted()
    assert source.take().signature == "cell"
