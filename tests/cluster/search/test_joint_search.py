"""Two drivers of one search visit as many cells together as it asks for."""

import dataclasses
from pathlib import Path

import pytest

from analysis.matching.match import RunMatcher
from analysis.run_state import RunState
from cluster.search.search import Search, make_search
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from search_spaces.profiles import Profile

SPACE = """version: 1
id: T
method: simcse
seeds: 1
space:
  train.learning_rate: {loguniform: [1e-5, 1e-2]}
search: {sampler: random, num_samples: 6}
"""


@dataclasses.dataclass
class Row:
    signature: str
    state: RunState
    config: dict
    best: float | None
    live: bool
    seed: int = 0
    method: str = "simcse"
    examples: int | None = 64
    best_examples: int | None = 64
    identity: dict = dataclasses.field(default_factory=dict)
    seconds: float | None = 1.0


def sign(run):
    return signature(run, {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"})


@pytest.mark.parametrize("state", [RunState.DONE, RunState.RUNNING])
def test_cells_that_another_driver_began_count(
    tmp_path: Path, state: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.search.search.FEED_POLL_SECONDS", 0.0)
    (tmp_path / "t.yaml").write_text(SPACE, encoding="utf8")
    resolved = resolve(load_space(tmp_path / "t.yaml"), Profile("p", {"train.examples": 64}))
    rows: list[Row] = []

    def driver(seed: int) -> Search:
        search = make_search(resolved, rows, RunMatcher(resolved, sign), seeds=(0,), recorded=lambda: rows)
        search._sampler._rng = type(search._sampler._rng)(type(search._sampler._rng.bit_generator)(seed))
        return search

    def begin(driver: Search) -> str | None:
        cell = driver.propose()
        if cell is None:
            return None
        run, known = cell.run(0), {row.signature for row in rows}
        if sign(run) not in known:
            best = 1.0 if state == RunState.DONE else None
            rows.append(Row(sign(run), state, run.flat(), best, state.is_held))
        return cell.id

    first, second = driver(1), driver(2)
    visited = [begin(one) for _ in range(3) for one in (first, second)]
    assert len(set(visited)) == 6
    left = [cell for one in (first, second) for _ in range(6) if (cell := begin(one))]
    assert set(left) <= set(visited), "what another driver holds is waited for, nothing new is begun"
    assert len(rows) == 6
    assert (left == []) == (state == "done")
