"""`cse best`: the pick with its expected-maximum curve, and one look at the test set per selection."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.ledger import Baselines, Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli import model_options
from cse.cli.app import main
from cse_train import checkpoint, methods
from cse_train.config import complete, parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from search_spaces.identity.signature import signature
from tests.commands import printed, refused
from tests.run_values import book_run, point_of

FLAT = {
    "method": "simcse",
    "method.pooler": "mean",
    "train.encoder": "words-l1-h64",
    "train.dev": "generated_dev:20",
}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Twelve cells of two seeds in sweep "mine", cell 11 the best; only its better run has a checkpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    opened.record_sweep("mine", SweepSpec({"title": "t"}))
    for cell in range(12):
        for seed in range(2):
            book(opened, cell, seed, 50.0 + cell + seed)
    run = parse_run(FLAT)
    model = load_method("simcse").build(run.options, load_backbone("words-l1-h64"))
    checkpoint.save_best(tmp_path / "runs" / "cell11-seed1", run, model, {})
    return opened


def book(
    ledger: Ledger,
    cell: int,
    seed: int,
    value: float,
    identity: dict[str, str] | None = None,
    name: str = "",
    state: str = "done",
) -> None:
    name = name or f"cell{cell}-seed{seed}"
    end = {"state": state, "best": value, "folder": Path("runs", name).resolve()}
    book_run(ledger, name, {**FLAT, "train.seed": seed}, method="simcse", seed=seed, identity=identity or {}, **end)
    if name == f"cell{cell}-seed{seed}" and cell < 20:
        ledger.link("mine", [(name, {"method.temperature": cell}, seed)])


def test_a_pick_of_fewer_seeds_says_so(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    assert "luck" not in printed(capsys, "best", "mine").partition("of the pick:")[2]
    book(ledger, 10, 2, 50.0)
    said = " ".join(printed(capsys, "best", "mine").split())
    assert "of the pick: 2 seeds, where temperature=10 has 3: a mean of few seeds is high by luck more often" in said


def test_a_sweep_names_the_run_of_the_pick_and_no_lucky_one(ledger: Ledger) -> None:
    """`cse export` took the highest run of all cells, whatever `cse best` picked by the mean."""
    book(ledger, 3, 2, 70.0)
    Path("runs", "cell3-seed2").mkdir(parents=True)
    assert model_options.run_folder("mine", ledger) == Path("runs", "cell11-seed1").resolve()


def test_the_pick_stands_beside_what_fewer_cells_would_have_given(
    capsys: pytest.CaptureFixture[str], ledger: Ledger
) -> None:
    found = json.loads(printed(capsys, "best", "mine", "--top", "1", "--format", "json"))
    pick = found["pick"]
    assert (pick["cell"], pick["value"], pick["candidates"]) == ({"method.temperature": 11}, 61.5, 12)
    assert pick["rule"] == "highest mean dev score over seeds"
    assert pick["expected_best"]["1"] == pytest.approx(56.0) and pick["expected_best"]["12"] == 61.5
    assert list(pick["expected_best"]) == ["1", "5", "10", "12"]
    assert (pick["best_run"], pick["other_seeds"], pick["optimism_of_run"]) == (62.0, 61.0, 1.0)
    assert 0 < pick["optimism"] < 0.2
    assert [row["mean"] for row in found["cells"]] == [61.5]
    text = printed(capsys, "best", "mine")
    assert "expected best of random cells: 56.00 of 1, 60.33 of 5, 61.32 of 10, 61.50 of 12" in text
    assert "optimism of its best run: 62.00 against 61.00 of its other seeds" in text


def test_the_pick_comes_with_the_cells_that_cannot_be_told_from_it(
    capsys: pytest.CaptureFixture[str], ledger: Ledger
) -> None:
    """Half is t(12) at 5% / 11, 3.106, times the deviation 0.707, times the root of 2 / 2: 2.196, so that two cells are
    within; of single runs the deviation is that of 24 runs of this setting, 3.51."""
    rivals = json.loads(printed(capsys, "best", "mine", "--format", "json"))["rivals"]
    assert rivals["cells"] == ["method.temperature=10", "method.temperature=9"] and rivals["others"] == 11
    assert (rivals["deviation"], rivals["source"]) == (pytest.approx(0.5**0.5), "the sweep's own seeds")
    text = " ".join(printed(capsys, "best", "mine").split())
    names = "method.temperature=10, method.temperature=9; at a deviation over seeds of 0.71 (the sweep's own seeds)"
    assert f"cannot be told from it: 2 of 11 other cells: {names}" in text
    ledger.record_sweep("single", SweepSpec({"title": "t"}))
    for cell in (0, 4, 11):
        ledger.link("single", [(f"cell{cell}-seed0", {"method.temperature": cell}, 0)])
    rivals = json.loads(printed(capsys, "best", "single", "--format", "json"))["rivals"]
    assert (rivals["cells"], rivals["others"]) == (["method.temperature=4"], 2)
    assert rivals["source"] == "24 runs of 1 setting in the ledger"


def test_without_two_seeds_in_the_ledger_no_rival_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    opened.record_sweep("mine", SweepSpec({"title": "t"}))
    for rate, value in ((0.0001, 60.0), (0.0003, 61.0)):
        flat = {**FLAT, "train.learning_rate": rate, "train.seed": 0}
        book_run(opened, f"rate{rate}", flat, method="simcse", seed=0, identity={}, best=value)
        opened.link("mine", [(f"rate{rate}", {"train.learning_rate": rate}, 0)])
    assert json.loads(printed(capsys, "best", "mine", "--format", "json"))["rivals"]["cells"] is None
    assert "cannot be told from it: not known, the ledger has no two seeds" in printed(capsys, "best", "mine")


def test_runs_of_a_cell_on_two_corpora_are_two_rows(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    """They were one row of n 4 with an invented sd."""
    for seed in range(2):
        book(ledger, 20, seed, 70.0 + seed, {"corpus": "aaaaaaaaaaaa"})
        book(ledger, 21, seed, 40.0 + seed, {"corpus": "bbbbbbbbbbbb"})
        for cell in (20, 21):
            ledger.link("mine", [(f"cell{cell}-seed{seed}", {"method.temperature": 20}, seed)])
    rows = json.loads(printed(capsys, "best", "mine", "--top", "14", "--format", "json"))["cells"]
    two = {row["cell"]: (row["n"], row["mean"]) for row in rows if "temperature=20" in row["cell"]}
    assert two == {
        "method.temperature=20 corpus=aaaaaaaa": (2, 70.5),
        "method.temperature=20 corpus=bbbbbbbb": (2, 40.5),
    }


@pytest.mark.parametrize(
    ("method", "start"), [({"method": "simcse", "method.pooler": "mean"}, "mean"), ({"method": "sgopt"}, "[CLS]")]
)
def test_harm_is_said(capsys: pytest.CaptureFixture[str], ledger: Ledger, method: dict[str, str], start: str) -> None:
    """The first score was the best, and below the encoder without training: the pick is no success."""
    data = {"train.encoder": "words-l1-h64", "train.corpus": "generated", "train.dev": "generated_dev:20"}
    run = {**method, **data, "train.dev_max_length": 512}
    ledger.record_sweep("harm", SweepSpec({"title": "t"}))
    ledger.link("harm", [("harmed", {}, 0)])
    points = [point_of(8, 40.0), point_of(16, 40.0, step=2, best_examples=8)]
    book_run(ledger, "harmed", run, examples=16, best=40.0, best_examples=8, points=points)
    key = ("generated_dev:20", "words-l1-h64", "generated", 512)
    rows = {"untrained mean": 30.0, "untrained [CLS]": 30.0, f"untrained {start}": 41.5}
    ledger.store_baselines([Baselines(*key, {}, rows)])
    said = printed(capsys, "best", "harm")
    assert "of the pick: 1 of 1 runs are not 0.5 points above no training (generated_dev:20 41.50)" in said
    assert "of the pick: 1 of 1 runs never beat their first evaluation" in said


def test_runs_by_another_version_of_the_method_are_a_row_of_their_own(
    capsys: pytest.CaptureFixture[str], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.record_sweep("versions", SweepSpec({"title": "t"}))
    options = methods.config_class("simcse")
    for version, value in ((options.VERSION, 50.0), (options.VERSION + 1, 60.0)):
        monkeypatch.setattr(options, "VERSION", version)
        for seed in range(2):
            name = signature(parse_run(complete({**FLAT, "train.seed": seed})), {})
            book(ledger, 0, seed, value, name=name)
            ledger.link("versions", [(name, {}, seed)])
    rows = json.loads(printed(capsys, "best", "versions", "--format", "json"))["cells"]
    assert [(row["cell"].strip(), row["n"], row["mean"]) for row in rows] == [
        (f"version={options.VERSION}", 2, 60.0),
        (f"version={options.VERSION - 1}", 2, 50.0),
    ]


SEARCHED = """version: 1
id: searched
method: simcse
space:
  method.temperature: {grid: [0.01, 0.02, 0.03]}
search: {sampler: posterior, num_samples: 3}
"""


def test_a_sweep_that_the_removed_posterior_searched_still_shows(
    capsys: pytest.CaptureFixture[str], ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "searched.yaml").write_text(SEARCHED, encoding="utf8")
    spec = {
        "title": "t",
        "file": str(tmp_path / "searched.yaml"),
        "profile": "small",
        "encoder": "words-l4-h128",
        "set": {},
        "asked": 3,
    }
    ledger.record_sweep("searched", SweepSpec(spec))
    for index, centre in enumerate([50.0, 63.5, 54.0]):
        for seed in range(2):
            book(ledger, 20 + index, seed, centre + seed)
            ledger.link("searched", [(f"cell{20 + index}-seed{seed}", {"method.temperature": (index + 1) / 100}, seed)])
    pick = json.loads(printed(capsys, "best", "searched", "--format", "json"))["pick"]
    assert (pick["rule"], pick["cell"]) == ("highest mean dev score over seeds", {"method.temperature": 0.02})
    assert pick["ranked_by"] == pick["value"] == 64.0 and pick["candidates"] == 3
    assert "searched" in printed(capsys, "ls")
    assert "64.50" in printed(capsys, "trials", "searched")
    line = refused(capsys, "plan", "searched.yaml")
    assert "search.sampler=posterior; " in line and "tpe" in line


def test_a_search_picks_by_what_all_of_its_runs_let_expect(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    """One run a cell, two of them stopped; the luckiest run stands alone on a slope."""
    ledger.record_sweep("search", SweepSpec({"title": "t", "asked": 12}))
    for place in range(12):
        value = 60.0 - (place - 8) ** 2 / 2 + (13.0 if place == 3 else 0.0)
        book(ledger, 40 + place, 0, value, state="stopped" if place in (0, 11) else "done")
        ledger.link("search", [(f"cell{40 + place}-seed0", {"method.temperature": (place + 1) / 100}, 0)])
    found = json.loads(printed(capsys, "best", "search", "--top", "10", "--format", "json"))
    pick, rows = found["pick"], found["cells"]
    assert pick["rule"] == "highest lower bound of the expected score"
    assert pick["cell"]["method.temperature"] in (0.08, 0.09, 0.1) and pick["candidates"] == 10
    assert max(row["mean"] for row in rows) == 60.5 != pick["value"]
    bounds = [row["lower bound"] for row in rows]
    assert bounds == sorted(bounds, reverse=True) and pick["ranked_by"] == bounds[0]
    assert f"the expected score of 10 cells, {bounds[0]:.2f}" in " ".join(printed(capsys, "best", "search").split())


def test_runs_that_auto_computed_in_two_ways_are_not_ranked_together(
    capsys: pytest.CaptureFixture[str], ledger: Ledger
) -> None:
    """As `cse table` refuses them: on a card `auto` is bf16, on a CPU fp32."""
    for name, computed in {"on-card": "bf16", "on-cpu": "fp32"}.items():
        end = {"best": 70.0, "folder": Path("runs", name), "details": {"train.precision": computed}}
        book_run(ledger, name, {**FLAT, "train.precision": "auto"}, method="simcse", **end)
        ledger.link("mine", [(name, {"method.temperature": name}, 0)])
    assert refused(capsys, "best", "mine") == (
        "cse: one precision: train.precision=auto was bf16 (1) and fp32 (1) in the runs of mine; "
        "train them on one kind of device, or give train.precision a value of its own"
    )


def test_a_sweep_without_a_finished_run(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    ledger.record_sweep("empty", SweepSpec({"title": "t"}))
    assert "no finished run yet" in printed(capsys, "best", "empty")
    assert json.loads(printed(capsys, "best", "empty", "--format", "json")) == {"version": 1, "cells": [], "pick": None}


def test_the_test_set_is_looked_at_once_per_selection(
    capsys: pytest.CaptureFixture[str], ledger: Ledger, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ("best", "mine", "--score-test", "--data", str(data_dir))
    first = json.loads(printed(capsys, *argv, "--format", "json"))["test"]
    assert first["scored"] == ["sts_test"] and first["look"] == 1
    value = first["values"]["sts_test"]
    (score,) = ledger.scores(["cell11-seed1"])
    assert (score.suite, score.value) == ("sts_test", value) and score.cosines_file is not None

    with monkeypatch.context() as patch:
        patch.setattr("cse.experiments.held_out.score_checkpoint", lambda *given: pytest.fail("scored again"))
        text = printed(capsys, *argv)
    assert f"test (stored, not scored again; look 1)\n  sts_test {value:.2f}" in text

    book(ledger, 11, 2, 70.0)
    shutil.copytree("runs/cell11-seed1", "runs/cell11-seed2")
    assert main(argv) == 0
    said = capsys.readouterr()
    assert "scored now: sts_test; look 2" in said.out
    assert "test looked at before: sweep=mine, this is selection number 2" in said.err
    looks = Ledger.open("results/ledger.db").looks("mine")
    assert [(look.signature, look.candidates) for look in looks] == [("cell11-seed1", 12), ("cell11-seed2", 12)]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("mine", "--score-test"), "missing data: sts_test needs senteval/downstream; give --data DIR"),
        (("mine", "--score-test", "--suite", "sts_dev"), "no test set: suite=sts_dev is for development"),
        (("mine", "--score-test", "--suite", "sts_tset"), "unknown suite: suite=sts_tset; did you mean sts_test?"),
        (("mine", "--suite", "sts_test"), "nothing to score: suite=sts_test; add --score-test"),
        (("empty", "--score-test"), "nothing finished: sweep=empty has no done run"),
        (("gone", "--score-test"), "run without files: run=other folder=nowhere; its folder is gone"),
    ],
)
def test_mistakes_are_one_line(
    argv: tuple[str, ...], told: str, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.record_sweep("empty", SweepSpec({"title": "t"}))
    ledger.record_sweep("gone", SweepSpec({"title": "t"}))
    book_run(ledger, "other", FLAT, method="simcse", examples=1, folder="nowhere")
    ledger.link("gone", [("other", {}, 0)])
    assert refused(capsys, "best", *argv).startswith(f"cse: {told}")
    assert Ledger.open("results/ledger.db").looks("mine") == []


def test_cells_are_ranked_without_torch(ledger: Ledger) -> None:
    code = "import sys; from cse.cli.app import main; main(['best', 'mine']); print(sorted(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pick: " in printed
    for heavy in ("'torch'", "'ray'", "'transformers'", "'optuna'", "'matplotlib'"):
        assert heavy not in printed
