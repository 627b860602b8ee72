"""`cse plan` of one and of many tables, and `cse run` of a table of which some cells cannot be trained here."""

import json
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.sweep.events import SweepOutcome
from cse.cli import listing as command
from cse.cli.app import main
from cse_train.encoder.folders import find_weights
from search_spaces.catalog import files_in, find_folder
from tests.commands import problems, refused

SPACE = """version: 1
id: {id}
title: A table
method: simcse
seeds: 2
evaluate: [generated_dev:20]
set: {{method.objective: pairs}}
cells:
{cells}
"""
PROFILE = """version: 1
train: {encoder: words-l1-h64, corpus: generated, dev: "generated_dev:20", examples: 640, batch_size: 64}
"""
CELL = "  - {{label: {label}, set: {{{settings}}}}}"
PLAIN = ("plain", "method.objective: unsupervised")
QQP = ("QQP", 'train.corpus: "pairs:qqp"')
BASE = ("base", "method.objective: unsupervised, train.encoder: bert-base-uncased")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    monkeypatch.setattr("cse_train.encoder.folders.hub_is_away", lambda: True)
    (tmp_path / "p.yaml").write_text(PROFILE)
    return tmp_path


def table(name: str, *cells: tuple[str, str]) -> str:
    lines = [CELL.format(label=label, settings=settings) for label, settings in cells]
    Path(f"{name}.yaml").write_text(SPACE.format(id=name, cells="\n".join(lines)))
    return f"{name}.yaml"


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    code = main([*argv, "--profile", "p.yaml"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def test_what_is_absent_is_named_with_cell_source_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    name = table("T", PLAIN, QQP, BASE)
    found = json.loads(printed(capsys, "plan", name, "--format", "json"))
    counts = {key: found[key] for key in ("cells", "runs", "unique", "done", "to_run", "missing_input")}
    assert counts == {"cells": 3, "runs": 6, "unique": 6, "done": 0, "to_run": 2, "missing_input": 4}
    (one,) = found["spaces"]
    reasons = {cell["cell"]: cell["reason"] for cell in one["incomplete_cells"]}
    assert set(reasons) == {"QQP", "base"}
    assert "needs pairs/qqp.csv; give --data DIR" in reasons["QQP"] and "Quora" in reasons["QQP"]
    assert "`hf download bert-base-uncased`" in reasons["base"] and "substitutions" in reasons["base"]
    assert (found["examples"], found["here"]["examples"]) == (6 * 640, 2 * 640)
    assert found["seconds"] > found["here"]["seconds"] > 0 and found["disk_bytes"] > found["here"]["disk_bytes"] > 0


def test_hours_of_cards_stand_beside_those_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """What lacks its encoder here is counted: it is planned for where the card is. Eight cards help two runs no more
    than two."""
    name = table("T", BASE)
    found = json.loads(printed(capsys, "plan", name, "--format", "json", "--set", "train.examples=1000000"))
    assert found["card_seconds"] == round(2e6 / 1195, 1) and found["here"]["card_seconds"] is None
    said = " ".join(printed(capsys, "plan", name, "--set", "train.examples=1000000").split())
    assert "on one card about 28 min, on eight 14 min, a run a card, by the examples per second of SimCSE alone" in said
    assert "on an H100 at the size of bert-base-uncased: 1195 in fp32 and 2412 in bf16; at most 5942" in said


def test_absent_word_vectors_are_named_with_source_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the encoder tells the rows apart, and where the profile alone names it."""
    Path("p.yaml").write_text(PROFILE + "methods: {infersent: {train.encoder: mine.txt}}\n")
    space = 'version: 1\nid: W\ntitle: A table\nseeds: 1\nevaluate: ["generated_dev:20"]\ncells:\n'
    words = ["method: infersent, train.encoder: crawl-300d-2M.vec", "method: simcse, train.encoder: words-l1-h64"]
    for cells, wanted in (
        (words, "get it from https://dl.fbaipublicfiles.com/fasttext/vectors-english/crawl-300d-2M.vec.zip, or give "
         "its path by --profile FILE with `substitutions: {train.encoder: {crawl-300d-2M.vec: VECTORS}}`"),
        (["method: infersent", "method: simcse"], "get it from where it is published, or give its path by --profile "
         "FILE with `methods: {infersent: {train.encoder: VECTORS}}`"),
    ):  # fmt: skip
        Path("W.yaml").write_text(space + "".join(f"  - {{label: {c[8:11]}, set: {{{c}}}}}\n" for c in cells))
        (one,) = json.loads(printed(capsys, "plan", "W.yaml", "--format", "json"))["spaces"]
        (reason,) = [cell["reason"] for cell in one["incomplete_cells"]]
        assert reason.startswith("missing encoder: train.encoder=") and wanted in reason


def test_the_named_options_give_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    (Path("data") / "pairs").mkdir(parents=True)
    (Path("data") / "pairs" / "qqp.csv").write_text("sent0,sent1\na cat,the cat\n")
    folder = find_weights() / "words-l2-h128"
    Path("p.yaml").write_text(f"{PROFILE}substitutions:\n  train.encoder: {{bert-base-uncased: {folder}}}\n")
    name = table("T", PLAIN, QQP, BASE)
    found = json.loads(printed(capsys, "plan", name, "--data", "data", "--format", "json"))
    assert (found["to_run"], found["missing_input"]) == (6, 0)


def test_tables_that_share_runs_say_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    names = [table("A", PLAIN, QQP), table("B", PLAIN, BASE), table("A", PLAIN, QQP)]
    said = printed(capsys, "plan", *names)
    assert "4 cells, 8 runs, 6 unique (25.0% shared): 0 done, 2 to run, 4 lack an input" in said
    head, first, second = said.splitlines()[:3]
    assert head.split()[:4] == ["id", "title", "kind", "cells"]
    assert first.split()[:1] == ["A"] and second.split()[:1] == ["B"]
    assert "missing input: A QQP: missing data" in said and "missing input: B base: missing encoder" in said
    assert "layers x width^2" in said
    found = json.loads(printed(capsys, "plan", *names, "--format", "json"))
    assert [(one["id"], one["kind"], one["missing_input"]) for one in found["spaces"]] == [
        ("A", "training", 2),
        ("B", "training", 2),
    ]
    assert found["searches"] == []


def test_the_papers_are_all_there_at_their_own_scale_without_any_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "all", "--profile", "paper", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ids = {one["id"] for one in [*found["spaces"], *found["searches"]]}
    assert ids == {path.name.split("_")[0] for path in files_in(find_folder() / "papers")}
    assert found["to_run"] == 0 and found["missing_input"] == found["unique"] < found["runs"]
    assert found["examples"] >= found["unique"] * 100_000
    assert sum(one["unique"] for one in found["spaces"]) > found["unique"]


def test_an_unknown_id_among_several_and_no_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    lines = problems(capsys, "plan", "E7", "E77", "nothing.yaml")
    assert lines[0].startswith("cse: unknown space: space=E77; did you mean E7")
    assert lines[1].startswith("cse: no such file: space=nothing.yaml")
    assert main(["plan", "E7", "--seeds", "0"]) == 2
    assert "seeds" in capsys.readouterr().err


def test_a_run_trains_what_lacks_no_input_and_says_what_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def stub(runs, ledger, paths, options, on_event, suites):  # type: ignore[no-untyped-def]
        seen.extend((run.cell["method.objective"], run.seed) for run in runs)
        assert all(tuple(suites[run.signature]) == ("generated_dev:20",) for run in runs)
        return SweepOutcome(done=len(seen))

    monkeypatch.setattr("cse.experiments.run.run_sweep", stub)
    said = printed(capsys, "run", table("T", PLAIN, QQP, BASE), "--yes")
    assert seen == [("unsupervised", 0), ("unsupervised", 1)]
    assert "2 runs: 0 already in the ledger, 2 to run" in said
    assert "missing input: QQP: missing data" in said and "missing input: base: missing encoder" in said
    (sweep,) = Ledger.open("results/ledger.db").sweeps()
    assert set(sweep.spec.blocked) == {"QQP", "base"} and sweep.runs == 2


def test_a_table_of_incomplete_cells_alone_is_one_line_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    again = ("QQP longer", 'train.corpus: "pairs:qqp", train.max_seq_length: 64')
    name = table("T", QQP, again, BASE)
    lines = problems(capsys, "run", name, "--yes", "--profile", "p.yaml")
    assert [line.split(";")[0] for line in lines] == [
        "cse: missing data: train.corpus=pairs:qqp needs pairs/qqp.csv",
        "cse: missing encoder: train.encoder=bert-base-uncased",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "unknown"), (40, "40 s"), (600, "10 min"), (12_000, "3.3 h"), (2e6, "23 d")],
)
def test_durations_in_words(seconds: float | None, told: str) -> None:
    assert command.duration(seconds) == told


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 MB"), (1_340_000, "1.3 MB"), (12_400_000, "12 MB"), (1_240_000_000, "1.2 GB")]
)
def test_sizes_in_words(count: int, text: str) -> None:
    assert command.size(count) == text


def test_what_it_takes_until_a_table_is_decided(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "plan", "E7", "--until", "decided", "--max-seeds", "8")
    line = next(line for line in text.replace("\n  ", " ").splitlines() if line.startswith("E7 until decided"))
    assert "with looks at 3, 5, 8 seeds: about " in line and "at least 24, at most 64" in line
    assert "by the paper's differences and seeds of a point each" in line
    (expected,) = json.loads(printed(capsys, "plan", "E7", "--until", "decided", "--format", "json"))[
        "until_decided"
    ].values()
    assert expected["least"] == 24 < expected["runs"] < expected["most"] == 96 and not expected["ours"]


SEARCH = """version: 1
id: hunt
method: simcse
seeds: 1
set: {train.corpus: generated, train.dev: "generated_dev:20"}
space:
  train.encoder: {choice: [words-l1-h64, nosuchbert]}
  train.learning_rate: {loguniform: [1e-5, 1e-3]}
search: {sampler: random, num_samples: 3}
"""


def test_a_search_checks_the_inputs_of_all_that_it_may_propose_before_its_first_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("hunt.yaml").write_text(SEARCH)
    said = printed(capsys, "plan", "hunt.yaml")
    assert "0 done, 0 to run, 3 lack an input" in said
    assert "missing input: encoder=nosuchbert: missing encoder: train.encoder=nosuchbert; no such" in " ".join(
        said.split()
    )
    line = refused(capsys, "run", "hunt.yaml")
    assert line.startswith("cse: missing encoder: train.encoder=nosuchbert; ")
    assert not Path("results/ledger.db").exists() or not Ledger.open("results/ledger.db").runs()
    Path("hunt.yaml").write_text(SEARCH.replace("nosuchbert", "words-l2-h128"))
    assert "0 done, 3 to run\n" in printed(capsys, "plan", "hunt.yaml")


def test_a_ledger_that_a_run_would_make_is_planned_as_an_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    space = table("one", PLAIN)
    assert main(["plan", space, "--profile", "p.yaml", "--ledger", "new.db"]) == 0
    out, err = capsys.readouterr()
    assert "2 runs, 2 unique: 0 done, 2 to run" in out
    assert err.splitlines()[-1].startswith(f"cse: no ledger yet: --ledger={Path('new.db').resolve()}; the plan counts")
    assert not Path("new.db").exists()
