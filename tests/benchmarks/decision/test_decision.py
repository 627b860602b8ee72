"""What a decision costs each side: words, costs, and the authors' runs of all three methods."""

from pathlib import Path

import pytest

from benchmarks.decision import authors
from benchmarks.decision.__main__ import TABLES, report
from benchmarks.decision.tables import Cost, Verdicts, key_of
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs

SMALL = {
    "train.encoder": "wiki-l1-h64",
    "train.corpus": "generated",
    "train.dev": "generated_dev:40",
    "train.examples": 32,
    "train.batch_size": 8,
    "train.evaluations": 2,
    "train.learning_rate": 1e-4,
}
METHODS: dict[str, dict[str, object]] = {
    "simcse": {"method.fixed_dropout": True, "train.dropout": 0.2},
    "esimcse": {"method.queue_multiple": 1.0},
    "diffcse": {"method.generator": "wiki-l1-h64"},
}
A, B, C = (key_of({"method.x": x}) for x in (1, 2, 3))


@pytest.fixture
def verdicts() -> Verdicts:
    words = {A: "reference", B: "same direction", C: "undecided"}
    return Verdicts(words, {A: 0.0, B: -2.0, C: 1.0}, {A: 5, B: 3, C: 5})


def test_our_cost_is_every_seed_at_what_a_run_of_its_row_takes(verdicts: Verdicts) -> None:
    cost = verdicts.ours({A: 1.0, B: 10.0, C: 100.0})
    assert (cost.runs, cost.seconds, cost.decided) == (13, 535.0, 1)


def test_the_released_recipe_says_what_welch_says_of_three_seeds(verdicts: Verdicts) -> None:
    scores = {A: [50.0, 50.1, 49.9], B: [40.0, 40.1, 39.9], C: [40.0, 50.0, 60.0]}
    assert verdicts.released(scores, 90.0) == Cost(9, 90.0, ["same direction", "undecided"])
    near = verdicts.released({**scores, C: [50.01, 50.11, 49.91]}, 90.0)
    assert near.words == ["same direction", "tie"]
    away = verdicts.released({**scores, B: [60.0, 60.1, 59.9]}, 90.0)
    assert away.words[0] == "opposite direction"


def test_the_report_says_how_many_times_as_much_a_decision_costs() -> None:
    sides = {"released": Cost(9, 600.0, ["tie", "undecided"]), "ours": Cost(6, 60.0, ["tie", "tie"])}
    lines = report({"E8": sides})
    assert "| E8 | ours | 6 | 60 | 2 of 2 | 2 tie | 0.5 |" in lines
    assert lines[-1].startswith("A decided value costs the released recipe 20.0 times as much (bar 10): held")

    none = report({"E8": {**sides, "released": Cost(9, 600.0, ["undecided"] * 2)}})
    assert none[-1].startswith("The released recipe decides nothing; one decided value would have cost it 20.0 times")
    assert report({"E8": {**sides, "ours": Cost(6, 60.0, ["undecided"])}})[-1].startswith("| all | ours")


def test_pages_and_bundle_have_the_tables() -> None:
    for table in TABLES:
        read = Verdicts.read(table)
        assert read.words.keys() == read.published.keys() <= read.seeds.keys()
        assert min(read.seeds.values()) >= 3


@pytest.mark.parametrize("method", METHODS)
def test_the_authors_runs_train_and_are_scored(method: str, tmp_path: Path) -> None:
    run = parse_run({"method": method, **SMALL, **METHODS[method]})
    paths = DataPaths(cache=tmp_path / "cache")
    curve = authors.train(run, paths, tmp_path, [load_pairs("generated_dev:40", paths)])
    assert len(curve.scores) == 2 and len(set(curve.scores)) == 2
    assert curve.step_s > 0 and curve.evaluation_s > 0 and (tmp_path / "best.pt").exists()
