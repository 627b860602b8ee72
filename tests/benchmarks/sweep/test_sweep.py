"""The search benchmark's results file, its split of the saving, and what the scheduler is told of recorded runs."""

import itertools
from pathlib import Path

import pytest

from benchmarks.sweep.__main__ import FULL, SPACE, in_turn, judged, report, savings
from benchmarks.sweep.rows import Curve, Results, Row
from benchmarks.sweep.sides import Bench, OutOfTime, search
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

CELL = {"train.learning_rate": 1e-3}


def row(side: str, seed: int, step_s: float, evaluation_s: float) -> Row:
    return Row(side, CELL, seed, "done", [50.0, 52.0, 51.0], step_s, evaluation_s, 1.0)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "space.yaml").write_text(SPACE.format(**FULL), encoding="utf8")
    resolved = resolve(
        load_space(tmp_path / "space.yaml"),
    )
    return Bench(resolved, Results(tmp_path / "rows.jsonl"), DataPaths(), [], [])


def test_rows_are_found_again_and_a_line_that_a_kill_cut_short_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    Results(file).add(row("ours", 0, 1.0, 2.0))
    file.write_text(file.read_text() + '{"side": "ou')
    results = Results(file)
    assert results.find("ours", CELL, 0) == row("ours", 0, 1.0, 2.0)
    assert results.find("ours", CELL, 1) is None and results.find("released", CELL, 0) is None
    results.add(row("ours", 1, 1.0, 2.0))
    assert len(Results(file).rows) == 2


def test_the_split_multiplies_to_the_whole_saving() -> None:
    released = [row("released", seed, 30.0, 30.0) for seed in range(4)]
    line = savings(released, [row("ours", 0, 10.0, 1.0)], search_s=1.0)[0]
    assert "ours: 20.0 (bar 10) held" in line  # 240 s against 12
    assert "evaluation x 1.94, step x 2.82, search x 3.67" in line  # 240 / 124 / 44 / 12


def test_a_search_that_is_begun_again_asks_for_the_same_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made up: a better score for a higher rate, and the scheduler's word ends them early."""
    trained: list[float] = []

    def made_up(self: Bench, side: object, run: object, folder: Path, stops: object) -> Curve:
        rate = run.train.learning_rate  # type: ignore[attr-defined]
        trained.append(rate)
        scores: list[float] = []
        while len(scores) < 3:
            scores.append(1e4 * rate + len(scores))
            if len(scores) < 3 and stops(len(scores), scores[-1]):  # type: ignore[operator]
                return Curve("stopped", scores, 1.0, 1.0)
        return Curve("done", scores, 1.0, 1.0)

    monkeypatch.setattr(Bench, "_train", made_up)
    first = list(search(bench))
    assert len(first) == len(trained) == FULL["samples"] and {one.state for one in first} == {"done", "stopped"}
    assert bench.picks["ours"].key["train.learning_rate"] == 3e-3
    again = Bench(bench.resolved, Results(bench.results.file), bench.paths, [], [])
    assert list(search(again)) == first and len(trained) == FULL["samples"]
    assert again.picks["ours"].id == bench.picks["ours"].id


def test_sides_take_turns_and_nothing_is_trained_after_the_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "_train", lambda self, *given: Curve("done", [1.0, 2.0, 3.0], 1.0, 1.0))
    sides = [one.side for one in itertools.islice(in_turn(bench), 9)]
    assert sides == ["ours", *["released"] * 3, "ours", *["released"] * 3, "ours"]
    again = Bench(bench.resolved, Results(bench.results.file), bench.paths, [], [], until=0.0)
    told = in_turn(again)
    assert [next(told).side for _ in range(9)] == sides
    with pytest.raises(OutOfTime):
        next(told)
    assert report(again)[-1].startswith("\nPARTIAL: 6 of 24 released runs, 3 of ours")
    whole = [one.side for one in in_turn(Bench(bench.resolved, Results(bench.results.file), bench.paths, [], []))]
    assert whole.count("released") == 24 and whole.count("ours") == FULL["samples"]


def test_picks_are_judged_by_fresh_seeds_alone(bench: Bench) -> None:
    worse, better = bench.resolved.cells()[:2]
    bench.picks |= {"released": better, "ours": worse}
    for seed, (a, b) in enumerate([(50.0, 54.0), (51.0, 54.0)]):
        for cell, best in ((worse, a), (better, b)):
            bench.results.add(Row("truth", dict(cell.key), seed, "done", [best], 1.0, 1.0, 1.0))
    assert judged(bench)[-1] == "ours is +3.50 points worse, standard error 0.50: MISSED"
    bench.picks["ours"] = better
    assert judged(bench)[-1] == "one pick, no regret between them: held"
