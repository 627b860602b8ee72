from types import SimpleNamespace

from cluster.plan.run_source import ListSource
from cluster.search.search import SearchSource


def planned(signature, seed=0):
    return SimpleNamespace(signature=signature, seed=seed)


class Cells:
    """A search that reads from a list and remembers what it observed."""

    def __init__(self, *answers):
        self.answers, self.observed = list(answers), []

    def propose(self):
        return self.answers.pop(0)

    def observe(self, *what):
        self.observed.append(what)


def test_a_grid_hands_out_each_distinct_run_once():
    source = ListSource([planned("a"), planned("b"), planned("a")])
    assert [source.ask().signature, source.ask().signature, source.ask()] == ["a", "b", None]
    assert source.exhausted()


def test_a_list_gives_the_runs_that_come_next_in_another_order():
    source = ListSource(planned(name) for name in "abcd")
    source.ask()
    ahead = source.ahead(2)
    source.reorder(ahead[::-1])
    assert [source.ask().signature for _ in range(3)] == ["c", "b", "d"]


def test_a_search_hands_out_every_seed_of_a_cell_and_observes_what_came_out():
    cells = Cells("cell", None)
    source = SearchSource(cells, lambda cell: [planned(f"{cell}{seed}", seed) for seed in (0, 1)])
    first, second = source.ask(), source.ask()
    assert not source.exhausted()
    source.observe(second, "done", 7.0, 128)
    source.observe(first, "failed", None, None)
    assert cells.observed == [("cell", 1, 7.0, "done", 128), ("cell", 0, None, "failed", None)]
    assert source.ask() is None and source.exhausted() and source.ask() is None
