"""`cse confirm`: fresh seeds of the pick and its reference, one question over them, and what is refused before any run.

Training is stood in for: every run is booked with a score that a test gives.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from analysis.answers.models import model_of
from analysis.ledger import Ledger
from analysis.matching import hash_paths
from analysis.sweep_spec import SweepSpec
from cluster.plan.planner import plan_all
from cluster.sweep.events import Failure, SweepOutcome
from cse.cli.app import main
from cse.cli.options import data_paths
from cse.experiments import run as experiments_run
from search_spaces.catalog import load_space
from search_spaces.cells import resolve, sweep_name
from search_spaces.identity.user_files import add_user_files
from tests.commands import printed, refused
from tests.cse.compare.models import Capture
from tests.documents import validated
from tests.run_values import book_run

SPACE = """version: 1
id: mine
method: simcse
seeds: 3
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:20", train.examples: 64}
space: {train.learning_rate: {grid: [1.0e-4, 3.0e-4, 1.0e-3]}}
"""
RATE = "train.learning_rate"
SEARCH = {1e-4: [60.0, 61.0, 62.0], 3e-4: [66.0, 67.0, 68.0], 1e-3: [59.0, 60.0, 58.0]}
"""Learning rate -> best dev scores of seeds 0 to 2: the second one was lucky."""
FRESH = {3e-4: [62.0, 63.5, 61.5, 64.0], 1e-4: [60.0, 61.0, 60.5, 61.5]}
"""Learning rate -> scores of its fresh seeds, by order."""
BASE = "mine:train.learning_rate=0.0001"
ASKED = ("confirm", "mine", "--against", BASE, "--seeds", "4")


class Training:
    """Stands for `run_grid`: books each run with a score of FRESH, and keeps what it trained."""

    def __init__(self) -> None:
        self.trained: list[tuple[str, int]] = []
        self.most = 99
        self.fails: Collection[float] = ()
        """Learning rates of the sides whose first fresh seed fails."""
        self.scores: Mapping[Any, list[float]] = FRESH
        self.by = RATE

    def __call__(self, request, work, *also, source=None):  # type: ignore[no-untyped-def]
        ledger, failures, first = Ledger.open(request.ledger), [], min(request.seeds)
        for run in [run for run in work.runs if run.signature not in work.finished][: self.most]:
            self.trained.append((run.cell["label"] if "label" in run.cell else run.run.flat()[self.by], run.seed))
            flat = run.run.flat()
            if flat[self.by] in self.fails and run.seed == first:
                failures.append(Failure(signature=run.signature, reason="NaN loss"))
                book_run(ledger, run.signature, flat, seed=run.seed, identity=run.identity, state="failed")
                continue
            value = self.scores[flat[self.by]][run.seed - first]
            book_run(ledger, run.signature, flat, seed=run.seed, identity=run.identity, best=value)
        return SweepOutcome(done=len(self.trained), failures=tuple(failures), interrupted=self.most < 99)


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    stub = Training()
    monkeypatch.setattr(experiments_run, "run_grid", stub)
    return stub


def search(
    text: str = SPACE, scores: Mapping[Any, list[float]] = SEARCH, by: str = RATE, seeds: Sequence[int] = (0, 1, 2)
) -> Ledger:
    """A finished sweep of the space, without training."""
    Path("mine.yaml").write_text(text, encoding="utf8")
    resolved = resolve(load_space("mine.yaml"))
    opened = Ledger.open(Path("results/ledger.db"))
    paths = data_paths(None, None, None)
    paths = add_user_files(paths, resolved.files)
    (space,) = plan_all([(resolved, seeds)], opened, paths).spaces
    spec = {"title": "t", "space": "mine", "file": str(Path("mine.yaml").resolve()), "profile": resolved.profile.name}
    spec |= {"encoder": "words-l1-h64", "set": {}, "yaml": dict(resolved.space.written), "inputs": hash_paths(resolved)}
    opened.record_sweep(sweep_name(resolved), SweepSpec(spec))
    opened.link("mine", [(run.signature, run.cell, run.seed) for run in space.runs])
    for run in space.runs:
        value = scores[run.run.flat()[by]][run.seed]
        book_run(opened, run.signature, run.run.flat(), seed=run.seed, identity=run.identity, best=value)
    return opened


def confirmed(capsys: Capture, *argv: str) -> Any:
    """The document of a confirmation, which ended with the exit code that it names."""
    code = main([*argv, "--format", "json"])
    said = capsys.readouterr()
    assert said.out, said.err
    document = validated("confirm", said.out)
    assert document["exit_code"] == code
    return document


def test_the_pick_and_the_reference_are_trained_on_fresh_seeds_and_asked_about_once(
    capsys: Capture, training: Training
) -> None:
    ledger = search()
    said = confirmed(capsys, *ASKED)
    assert sorted(training.trained) == [(rate, seed) for rate in (1e-4, 3e-4) for seed in (3, 4, 5, 6)]
    (column,) = said["columns"]
    fresh = scipy.stats.ttest_rel(FRESH[3e-4], FRESH[1e-4]).confidence_interval(0.95)
    assert column["difference"] == pytest.approx(2.0) and column["common"] == 4
    assert column["interval"] == pytest.approx([fresh.low, fresh.high]), "the six points of the search are not in it"
    assert (said["verdict"], said["asked"]["level"], said["asked"]["loop"]) == ("better", 0.05, "confirm mine")
    assert said["confirms"] == {
        "sweep": "mine", "cell": "train.learning_rate=0.0003", "reference": BASE, "seeds": [3, 4, 5, 6], "axes": [RATE]
    }  # fmt: skip
    assert said["cells"] == 3 and said["settings"] == []
    spec = ledger.sweep_spec(said["sweep"])
    assert spec.confirms is not None and list(spec.confirms.seeds) == [3, 4, 5, 6] and spec.seeds == [3, 4, 5, 6]
    assert Path("results/confirmations", f"{said['sweep']}.yaml").is_file()


def test_the_same_command_again_trains_nothing_and_gives_the_same_word(capsys: Capture, training: Training) -> None:
    search()
    first = printed(capsys, *ASKED)
    assert "confirms mine:train.learning_rate=0.0003 (one of 3 cells, ranked by the highest mean dev score" in first
    assert f"against {BASE}, on seeds 3 to 6, which no run of either has" in first
    assert "cannot be told from it: 0 of 2 other cells; at a deviation over seeds of 1.00 (the sweep's own" in first
    assert "over the fresh seeds 3 to 6 alone, which took no part in the choice (sweep confirm-mine-" in first
    again = printed(capsys, *ASKED)
    assert len(training.trained) == 8 and "8/8 already in the ledger, 0 run" in again
    assert "seen: this is question 1 of loop confirm mine again, at its level of then" in again
    word = next(line for line in first.splitlines() if "sts" in line or "generated_dev:20" in line)
    assert word in again


def test_an_interrupted_confirmation_goes_on_with_its_seeds(capsys: Capture, training: Training) -> None:
    search()
    training.most = 5
    assert (
        main(ASKED) == 130 and "no word yet: 5 of 8 runs are done; the same command goes on" in capsys.readouterr().err
    )
    training.most = 99
    said = confirmed(capsys, *ASKED)
    assert len(training.trained) == len({*training.trained}) == 8 and said["confirms"]["seeds"] == [3, 4, 5, 6]


def test_a_pick_whose_fresh_seed_broke_breaks(capsys: Capture, training: Training) -> None:
    search()
    training.fails = [3e-4]
    said = confirmed(capsys, *ASKED)
    assert (said["verdict"], said["exit_code"]) == ("breaks", 3)
    assert said["columns"][0]["A"]["collapsed"] == 1 and "1 of 4 seeds of A failed" in said["columns"][0]["reason"]


def test_a_seed_that_broke_on_either_side_leaves_the_others(capsys: Capture, training: Training) -> None:
    search()
    training.fails = [3e-4, 1e-4]
    said = confirmed(capsys, *ASKED)
    assert said["verdict"] == "more-seeds" and said["columns"][0]["A"]["collapsed"] == 1


def test_more_seeds_are_another_question_on_further_fresh_seeds(capsys: Capture, training: Training) -> None:
    search()
    confirmed(capsys, *ASKED)
    said = confirmed(capsys, "confirm", "mine", "--against", BASE, "--seeds", "2")
    assert said["confirms"]["seeds"] == [7, 8]
    assert (said["asked"]["number"], said["asked"]["level"]) == (2, pytest.approx(0.05 * (1 - 0.5**0.5)))


def test_a_cell_may_be_named_and_the_untrained_encoder_is_not_trained(capsys: Capture, training: Training) -> None:
    search()
    said = confirmed(capsys, "confirm", "mine:train.learning_rate=0.0001", "--against", "untrained", "--seeds", "2")
    assert sorted(training.trained) == [(1e-4, 3), (1e-4, 4)]
    assert said["confirms"]["cell"] == "train.learning_rate=0.0001" and said["confirms"]["reference"] == "untrained"
    assert said["reference"]["label"] == "words-l1-h64 without training, pooler cls_no_mlp"


def test_the_runs_of_a_confirmation_are_named_alone_and_the_cell_with_all(capsys: Capture, training: Training) -> None:
    ledger = search()
    sweep = confirmed(capsys, *ASKED)["sweep"]
    assert model_of(f"{sweep}:pick", ledger).seeds == [3, 4, 5, 6]
    assert model_of("mine:best", ledger).seeds == [0, 1, 2, 3, 4, 5, 6]
    line = refused(capsys, "confirm", sweep, "--against", BASE)
    assert line == f"cse: a confirmation: sweep={sweep} confirms mine, and picks nothing; name a search or a grid"


CELLS = SPACE.partition("space:")[0] + "cells: [{label: own, set: {}}, {label: none, set: {train.dropout: 0.0}}]\n"
METHODS = SPACE.replace("method: simcse\n", "").partition("space:")[0] + "space: {method: {grid: [simcse, esimcse]}}\n"


@pytest.mark.parametrize(
    ("text", "by", "scores", "reference"),
    [
        (CELLS, "train.dropout", {None: [70.0] * 3, 0.0: [60.0] * 3}, "mine:none"),
        (CELLS, "train.dropout", {None: [60.0] * 3, 0.0: [70.0] * 3}, "mine:own"),
        (METHODS, "method", {"simcse": [60.0] * 3, "esimcse": [70.0] * 3}, "mine:method=simcse"),
    ],
    ids=["the pick has null", "the reference has null", "two methods"],
)
def test_both_sides_have_every_setting_of_their_runs(
    capsys: Capture, training: Training, text: str, by: str, scores: Mapping[Any, list[float]], reference: str
) -> None:
    """The digest of a run's settings and inputs, of which only the seed may differ."""
    ledger = search(text, scores, by)
    training.by, training.scores = by, {key: [60.0, 61.0] for key in scores}
    confirmed(capsys, "confirm", "mine", "--against", reference, "--seeds", "2")
    configs = [{k: v for k, v in run.config.items() if k != "train.seed"} for run in ledger.runs()]
    assert len({json.dumps(config, sort_keys=True) for config in configs}) == 2 and len(configs) == 10


REFUSED = {
    "nothing finished": (("mine", "--against", BASE), "nothing finished: sweep=mine has no done run"),
    "unknown": (("mime", "--against", BASE), "unknown sweep: sweep=mime; "),
    "the pick": (("mine", "--against", "mine:best"), "the pick itself: against=mine:best is mine:train.learning_rate="),
    "slots": (("mine", "--against", BASE, "--workers", "64"), "a run does not fit: workers=64 x "),
    "column": (
        ("mine", "--against", BASE, "--column", "sts_tset"),
        "no such column: column=sts_tset; valid: generated_dev:20, or add --suite",
    ),
    "margin": (("mine", "--against", BASE, "--margin", "0"), "a tie needs a width: margin=0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_leaves_the_question_without_an_answer_is_refused_before_any_run(
    capsys: Capture, training: Training, name: str
) -> None:
    ledger = search()
    if name == "nothing finished":
        ledger.reopen([run.signature for run in ledger.runs()], "again")
    argv, start = REFUSED[name]
    line = refused(capsys, "confirm", *argv)
    assert start in line, line
    assert training.trained == [] and [sweep.id for sweep in ledger.sweeps()] == ["mine"]
    assert not Path("results/confirmations").exists()


def test_no_ledger_is_one_line(capsys: Capture, training: Training) -> None:
    assert refused(capsys, "confirm", "mine", "--against", "untrained").startswith("cse: no ledger yet: ")


def test_data_that_are_away_or_changed_are_refused(capsys: Capture, training: Training) -> None:
    own = SPACE.replace("train.corpus: generated", "train.corpus: own.txt")
    Path("own.txt").write_text("\n".join(f"sentence {n} of the corpus" for n in range(80)), encoding="utf8")
    ledger = search(own)
    Path("own.txt").write_text("\n".join(f"another sentence {n}" for n in range(80)), encoding="utf8")
    assert main(ASKED) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]  # the others say what the user's files hold
    assert line.startswith("cse: changed since the search: the runs of mine:train.learning_rate=0.0003 and "), line
    assert line.endswith("give the inputs of then, or search again on these") and ", and now it is corpus " in line
    Path("own.txt").unlink()
    assert main(ASKED) == 2 and "own.txt" in capsys.readouterr().err.strip().splitlines()[-1]
    assert training.trained == [] and [sweep.id for sweep in ledger.sweeps()] == ["mine"]


def test_a_corpus_of_ones_own_is_read_again_from_its_file(capsys: Capture, training: Training) -> None:
    own = SPACE.replace("train.corpus: generated", "train.corpus: own.txt")
    Path("own.txt").write_text("\n".join(f"sentence {n} of the corpus" for n in range(80)), encoding="utf8")
    search(own)
    assert len(confirmed(capsys, *ASKED)["columns"]) == 1 and len(training.trained) == 8


def test_runs_of_another_tool_are_confirmed_there(capsys: Capture, training: Training) -> None:
    Path("scores.csv").write_text("model,seed,accuracy\nnew,0,0.8\nnew,1,0.9\nold,0,0.7\nold,1,0.7\n", encoding="utf8")
    printed(capsys, "import", "csv", "scores.csv", "--as", "others", "--metric", "accuracy:max:0-1", "--seed", "seed")
    line = refused(capsys, "confirm", "others", "--against", "others:model=old")
    assert line == (
        "cse: runs of csv: sweep=others was imported, and its program is not here; train its pick and others:model=old "
        "there on seeds that no run has, cse import csv FILE --as others-fresh, then cse gate others-fresh:CELL "
        "--against others-fresh:CELL"
    )
    search()
    line = refused(capsys, "confirm", "mine", "--against", "others:model=old")
    assert line.startswith("cse: runs of another tool: against=others:model=old was imported, and its program is not")
