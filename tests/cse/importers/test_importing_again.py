"""Importing again adds nothing, an updated export renews what it knows more of, and what has no place is said."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import Merged
from cse.cli.app import main
from cse.importers.sharing.import_ import list_left_out

PAGE = """Name,State,Created,Runtime,learning_rate,train.batch_size,sts_dev
a,finished,2024-01-01,10,1e-5,64,70.1
b,finished,2024-01-01,11,3e-5,64,71.2
c,finished,2024-01-02,12,3e-5,128,
d,running,2024-01-02,12,3e-5,128,60
e,finished,2024-01-02,12,3e-5,128,NaN
"""


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """All that an import of this text prints, without what is the same in all."""

    def imported(text: str, *words: str, rc: int = 0) -> str:
        (tmp_path / "runs.csv").write_text(text, encoding="utf8")
        about = ("--as", "w", "--score", "sts_dev", "--ledger", str(tmp_path / "ledger.db"))
        assert main(["import", "wandb", str(tmp_path / "runs.csv"), *about, *words]) == rc
        said = capsys.readouterr()
        return (said.out.partition(" as w")[0] + "\n" + said.err).strip()

    return imported


def settings(tmp_path: Path, *names: str) -> dict[str | None, tuple[object, ...]]:
    """Score -> these settings, as the cells of the sweep have them, which are as many as its runs."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    best = {run.signature: run.best for run in ledger.runs(sweep="w")}
    cells = ledger.cells("w")
    assert len(cells) == len(best), "one cell for each run"
    return {best[cell.signature]: tuple(cell.cell.get(name) for name in names) for cell in cells}


def test_a_page_without_ids_adds_nothing_the_second_time(say: Callable[..., str]) -> None:
    first, again = say(PAGE), say(PAGE)
    assert first.splitlines() == [
        "2 runs imported, 0 already there",
        "cse: left out: runs: 1 not finished (1 running), 2 without sts_dev; import again when they have ended",
        "cse: kept as metrics: Runtime; --rename NAME=KEY takes one as a setting",
    ]
    assert again.splitlines()[0] == "0 runs imported, 2 already there"


def test_an_updated_page_adds_the_run_that_ended_and_the_column_that_came(
    say: Callable[..., str], tmp_path: Path
) -> None:
    say(PAGE)
    rows = PAGE.replace("d,running", "d,finished").splitlines()
    wider = "\n".join(
        f"{row},{note},{rate}"
        for row, note, rate in zip(rows, ["Notes", *"vwxyz"], ["train.dropout", *"12345"], strict=True)
    )
    said = say(wider)
    assert said.startswith("1 run imported, 2 already there, 2 of them with more settings or metrics than before\n")
    assert "cse: left out: texts: Notes; " in said
    assert settings(tmp_path, "train.dropout") == {70.1: (1,), 71.2: (2,), 60.0: (4,)}
    assert say(wider).startswith("0 runs imported, 3 already there\n")
    assert say(PAGE).startswith("0 runs imported, 2 already there\n"), "a narrower page takes nothing away"
    assert settings(tmp_path, "train.dropout") == {70.1: (1,), 71.2: (2,), 60.0: (4,)}


def test_a_page_that_an_earlier_version_imported_is_not_imported_twice(say: Callable[..., str], tmp_path: Path) -> None:
    """It took the hash of the whole row for the ID."""
    import hashlib

    from cse.importers import ForeignRun
    from cse.importers.take import ImportRequest, take

    names, *rows = (line.split(",") for line in PAGE.splitlines())
    old = [dict(zip(names, row, strict=True)) for row in rows[:2]]
    hashes = [hashlib.sha256(json.dumps(row, sort_keys=True, default=str).encode()).hexdigest() for row in old]
    runs = [
        ForeignRun(id=name, settings={"train.batch_size": 64}, metrics={"sts_dev": float(row["sts_dev"])})
        for name, row in zip(hashes, old, strict=True)
    ]
    take(
        runs,
        ImportRequest(tool="wandb", source="runs.csv", sweep="w", score="sts_dev"),
        Ledger.open(tmp_path / "ledger.db"),
    )
    assert say(PAGE).startswith("0 runs imported, 2 already there, 2 of them with more settings or metrics than before")


def test_runs_of_one_name_are_told_apart_by_settings_and_else_refused(say: Callable[..., str], tmp_path: Path) -> None:
    seeds = "Name,train.seed,sts_dev\n" + "".join(f"simcse,{seed},{70 + seed}\n" for seed in range(3))
    assert say(seeds).startswith("3 runs imported") and say(seeds).startswith("0 runs imported, 3 already there")
    twice = say(seeds + "simcse,2,75\n", rc=2)
    assert twice.startswith(
        "cse: one seed twice: seed=2 of the only configuration has sts_dev 72 and 75 (rows 4 and 5);"
    )
    assert len(settings(tmp_path)) == 3


WITH_IDS = "id,train.batch_size,sts_dev,loss\nr1,64,70,0.5\nr2,128,71,0.4\n"


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (WITH_IDS.replace("70", "72"), (), "two results: signature="),
        (WITH_IDS, ("--score", "loss", "--better", "lower"), "another score: --as w has runs by sts_dev, and these"),
        (WITH_IDS, ("--better", "lower"), "another direction: --as w has runs by sts_dev, of which the higher value"),
        (WITH_IDS, ("--scale", "1"), "another range: --as w has runs by sts_dev, 100 wide, and here 1 wide; give anot"),
        ("id,sts_dev\nr3,74\n", ("--scale", "1"), "another range: "),
    ],
)
def test_what_would_mix_two_metrics_in_a_column_is_refused(
    text: str, words: tuple[str, ...], line: str, say: Callable[..., str], tmp_path: Path
) -> None:
    say(WITH_IDS)
    said = say(text, *words, rc=2)
    assert said.startswith(f"cse: {line}") and "\n" not in said
    assert settings(tmp_path, "train.batch_size") == {70.0: (64,), 71.0: (128,)}
    assert say(WITH_IDS, "--score", "sts_dev", "--scale", "100").startswith("0 runs imported, 2 already there\n")


def test_a_run_of_two_sweeps_keeps_what_either_import_says(say: Callable[..., str], tmp_path: Path) -> None:
    say(WITH_IDS, "--rename", "loss=train.loss")
    assert say(WITH_IDS, "--as", "v").startswith("0 runs imported, 2 already there")
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert sorted(run.config["train.loss"] for run in ledger.runs(sweep="w")) == [0.4, 0.5]
    assert {link.cell["train.loss"] for link in ledger.cells("v")} == {0.4, 0.5} and len(ledger.runs()) == 2


def test_rename_takes_a_column_of_any_kind_as_a_setting(say: Callable[..., str], tmp_path: Path) -> None:
    page = PAGE.replace("Runtime", "pooler").replace(",10,", ",cls,").replace(",11,", ",mean,")
    say(page, "--rename", "learning_rate=train.learning_rate", "--rename", "pooler=method.pooler")
    names = ("train.learning_rate", "method.pooler")
    assert settings(tmp_path, *names) == {70.1: (1e-5, "cls"), 71.2: (3e-5, "mean")}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--rename", "learning_rat=train.learning_rate"), "no such name: rename=learning_rat="),
        (("--rename", "learning_rate=train.batch_size"), "two settings of one name: rename=learning_rate="),
        (("--rename", "learning_rate=a", "--rename", "Runtime=a"), "two settings of one name: "),
        (("--study", "s"), "no studies: study=s; W&B has projects"),
    ],
)
def test_an_option_that_does_nothing_is_refused_and_leaves_no_ledger(
    words: tuple[str, ...], line: str, say: Callable[..., str], tmp_path: Path
) -> None:
    said = say(PAGE, *words, rc=2)
    assert said.startswith(f"cse: {line}") and not (tmp_path / "ledger.db").exists()


def test_a_score_with_decimal_commas_is_no_number(say: Callable[..., str]) -> None:
    said = say('Name;sts_dev\na;"70,1"\n', rc=2)
    assert said == "cse: score is no number: score=sts_dev has '70,1'; export numbers with a decimal point"


def test_one_number_that_is_none_leaves_out_one_run(say: Callable[..., str]) -> None:
    rows = [
        f"{n},\"{{'lr': {lr}}}\",\"{{'sts_dev': {score}}}\""
        for n, lr, score in (("a", 1e-5, 70.0), ("b", "nan", "nan"))
    ]
    said = say("name,config,summary\n" + "\n".join(rows) + "\n")
    assert said.startswith("1 run imported") and "1 without sts_dev" in said


def test_another_sweep_under_one_name_is_named() -> None:
    line = "another space, profile or settings under the same name: A, B; the ledger's stays"
    assert list_left_out(Merged(added=1, other_sweeps=["A", "B"])) == [line] and not list_left_out(Merged(added=1))
