"""The commands on a ledger made by hand: what they print, in which form, and how fast they start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cse
from analysis.answers import baselines
from analysis.ledger import Baselines, Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve, setups
from search_spaces.identity.signature import signature
from tests.commands import printed
from tests.conftest import REPO
from tests.run_values import book_run
from tests.synthetic_ledger import write

pytestmark = pytest.mark.usefixtures("somewhere")

INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}


def book(ledger: Ledger, values: list[list[float]], inputs: dict[str, str] = INPUTS) -> ResolvedSpace:
    """Writes one finished run per cell of E7 and seed, `values[cell][seed]`, linked to the space's own sweep."""
    resolved = resolve(load_space("E7"))
    ledger.record_sweep(resolved.space.id, SweepSpec({"title": resolved.space.title}))
    for cell, row in zip(resolved.cells(), values, strict=False):
        for seed, value in enumerate(row):
            run = cell.run(seed)
            name = signature(run, inputs)
            book_run(ledger, name, run.flat(), seed=seed, identity=inputs, best=value, folder=f"kept/{name}")
            ledger.link(resolved.space.id, [(name, cell.key, seed)])
    return resolved


@pytest.fixture
def ledger(somewhere: Path) -> Ledger:
    return Ledger.open(somewhere / "results" / "ledger.db")


LIBRARIES = ("torch", "ray", "transformers", "optuna", "matplotlib")
ONE_TABLE = ["rows/rows.yaml", "--ledger", "rows/ledger.db"]


@pytest.mark.parametrize(
    ("calls", "told", "absent"),
    [
        ("main(['ls']); main(['trials']); main(['plan', 'E7'])", "to run", (*LIBRARIES, "pandas")),
        ("main(['--help'])", "Plan and train", ("sqlalchemy", "pydantic")),
        ("[main([name, '--help']) for name in command_files()]", "Usage: cse run", (*LIBRARIES, "pandas")),
        ("main(['run', 'E77']); main(['train', 'simsce'])", "", (*LIBRARIES, "pandas")),
        ("main(['table', 'E7'])", "0.32", LIBRARIES),
        (
            "main(['ls', '--ledger', 'rows/ledger.db'])",
            "synthetic grid",
            ("numpy", "rich", "search_spaces", "sqlalchemy.dialects.postgresql"),
        ),
        (
            f"main(['table', *{ONE_TABLE}])",
            "synthetic grid",
            ("scipy.special", "rich", "sqlalchemy.dialects.postgresql", "analysis.answers.study"),
        ),
    ],
)
def test_a_command_waits_for_no_library_that_it_does_not_need(
    somewhere: Path, calls: str, told: str, absent: tuple[str, ...]
) -> None:
    write(somewhere / "rows", 20, 1)
    code = f"import sys; from cse.cli.app import command_files, main; {calls}; print(sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told in said and not [name for name in absent if f"'{name}'" in said]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    for name in "demo plan run ls trials best table train eval embed export".split():
        assert f"\n  {name} " in text


def test_plan_of_an_id_has_the_promised_counts(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "plan", "E7", "--seeds", "2", "--format", "json"))
    counts = {name: found[name] for name in ("cells", "seeds", "runs", "unique", "done", "to_run")}
    assert counts == {"cells": 8, "seeds": 2, "runs": 16, "unique": 16, "done": 0, "to_run": 16}


def test_plan_of_a_folder_counts_shared_runs_once(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    text = "version: 1\nid: {0}\nmethod: esimcse\nseeds: 2\nspace:\n  method.dup_rate: {{grid: {1}}}\n"
    (somewhere / "spaces").mkdir()
    (somewhere / "spaces" / "a.yaml").write_text(text.format("a", "[0.1, 0.2]"), encoding="utf8")
    (somewhere / "spaces" / "b.yaml").write_text(text.format("b", "[0.2, 0.3]"), encoding="utf8")
    found = json.loads(printed(capsys, "plan", "spaces", "--format", "json"))
    assert (found["cells"], found["runs"], found["unique"], found["to_run"]) == (4, 8, 6, 6)


def test_plan_knows_finished_runs_without_the_data(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[1.0, 2.0], [3.0]])
    found = json.loads(printed(capsys, "plan", "E7", "--format", "json"))
    assert (found["done"], found["to_run"]) == (3, 21)


def test_table_stands_beside_the_published_values(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0, 62.0], [61.0, 64.0]])
    found = json.loads(printed(capsys, "table", "E7", "--format", "json"))
    assert list(found) == ["version", "id", "axes", "columns", "rows", "no_signal", "references", "protocol"]
    assert len(found["rows"]) == 8
    first = found["rows"][0]
    assert first["key"] == {"method.dup_rate": 0.08}
    cell = first["cells"]["sts_dev"]
    assert (cell.pop("seeds"), cell.pop("values"), cell.pop("idle")) == ([0, 1], [60.0, 62.0], [])
    assert cell == pytest.approx({"n": 2, "mean": 61.0, "sd": 2**0.5, "published": 83.5, "delta": -22.5})
    assert found["rows"][7]["cells"]["sts_dev"]["n"] == 0
    assert found["rows"][7]["cells"]["sts_dev"]["published"] == 83.84
    assert found["protocol"]["encoder"] == "words-l4-h128"


def test_table_of_an_unfinished_sweep_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "table", "E7")
    assert "84.85" in text
    assert "Wu et al." in text
    assert r"\toprule" in printed(capsys, "table", "E7", "--format", "tex")


def test_table_can_show_fewer_seeds_and_one_cell(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0, 62.0], [61.0, 64.0]])
    argv = ("table", "E7", "--format", "json", "--seeds", "1", "--set", "method.dup_rate=0.12")
    (row,) = json.loads(printed(capsys, *argv))["rows"]
    assert (row["cells"]["sts_dev"]["n"], row["cells"]["sts_dev"]["mean"]) == (1, 61.0)


def test_a_table_never_mixes_runs_on_other_data(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[10.0, 10.0, 10.0]], {**INPUTS, "corpus": "old"})
    book(ledger, [[60.0, 62.0]])
    cell = json.loads(printed(capsys, "table", "E7", "--format", "json"))["rows"][0]["cells"]["sts_dev"]
    assert (cell["n"], cell["mean"]) == (2, 61.0)


def test_rows_without_training_stand_under_the_table(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    (setup,) = baselines.distinct(setups(book(ledger, [[60.0, 62.0]])))
    rows = {"untrained [CLS]": 41.5, "word counts": 56.5}
    ledger.store_baselines([Baselines(*baselines.key_of(setup, "sts_dev"), {}, rows)])
    text = printed(capsys, "table", "E7")
    assert "untrained [CLS]" in text
    assert "56.50" in text


def test_rows_without_training_name_the_setting_they_differ_by(ledger: Ledger) -> None:
    wiki = {"train.encoder": "e", "train.corpus": "wiki", "train.dev_max_length": 512}
    both = [wiki, wiki | {"train.corpus": "documents"}]
    ledger.store_baselines(
        Baselines(*baselines.key_of(setup, "sts_dev"), {}, {"word counts": 56.5, "idf bag of words": value})
        for setup, value in zip(both, (75.2, 73.8), strict=True)
    )
    rows = {row.label: row.values["sts_dev"] for row in baselines.read_stored(both, ["sts_dev"], ledger)}
    assert rows == {"word counts": 56.5, "idf bag of words, wiki": 75.2, "idf bag of words, documents": 73.8}
    alone = baselines.read_stored(both[:1], ["sts_dev"], ledger)
    assert [row.label for row in alone] == ["word counts", "idf bag of words"]


def test_no_signal_is_said(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    (setup,) = baselines.distinct(setups(book(ledger, [[60.0, 62.0, 61.0]] * 8)))
    ledger.store_baselines([Baselines(*baselines.key_of(setup, "sts_dev"), {}, {"untrained [CLS]": 61.2})])
    assert "no signal at this scale" in printed(capsys, "table", "E7")


def test_trials_are_ledger_rows(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0, 62.0]])
    rows = json.loads(printed(capsys, "trials", "--format", "json"))["rows"]
    assert [(row["state"], row["seed"], row["best"]) for row in rows] == [("done", 0, 60.0), ("done", 1, 62.0)]
    assert rows[0]["config"]["method.dup_rate"] == 0.08
    assert "62.00" in printed(capsys, "trials", "E7", "--state", "done")


def test_ls_counts_the_states_of_a_sweep(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0, 62.0]])
    (row,) = json.loads(printed(capsys, "ls", "--format", "json"))["rows"]
    assert (row["sweep"], row["runs"], row["done"]) == ("E7", 2, 2)


def test_listings_of_a_fresh_folder_are_empty_not_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no sweeps yet" in printed(capsys, "ls")
    assert json.loads(printed(capsys, "trials", "--format", "json")) == {"version": 1, "rows": []}
    assert not Path("results").exists()


def test_best_ranks_cells_by_mean_and_gives_the_folder(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0, 62.0], [70.0, 50.0], [61.5, 62.5]])
    first, second = json.loads(printed(capsys, "best", "E7", "--top", "2", "--format", "json"))["cells"]
    assert first["cell"] == "method.dup_rate=0.16"
    assert (first["mean"], first["best"], first["n"]) == (62.0, 62.5, 2)
    assert first["folder"] == f"kept/{first['signature']}"
    assert second["mean"] == 61.0


def test_best_of_an_unknown_sweep_names_the_nearest(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    book(ledger, [[60.0]])
    assert main(["best", "E8"]) == 2
    assert "no runs yet: sweep=E8; cse run E8 starts them" in capsys.readouterr().err
    assert main(["best", "E77"]) == 2
    assert "unknown sweep: sweep=E77; did you mean E7?" in capsys.readouterr().err


def test_one_run_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    small = {"corpus": "generated", "dev": "generated_dev:20", "examples": 16, "batch_size": 8, "evaluations": 2}
    sets = [word for key, value in small.items() for word in ("--set", f"train.{key}={value}")]
    argv = ("train", "simcse", "--set", "train.encoder=words-l2-h128", *sets, "--to", "run")
    said = printed(capsys, *argv)
    assert "16/16  generated_dev:20 " in said
    assert Path("run", "best", "model.safetensors").is_file()
    again = printed(capsys, *argv)
    assert [line for line in again.splitlines() if "/16 " in line] == [
        line for line in said.splitlines() if "/16 " in line
    ]
    (row,) = json.loads(printed(capsys, "eval", "run", "--suite", "generated_dev:20", "--format", "json"))["rows"]
    best = max(float(line.split("best ")[1].split()[0]) for line in said.splitlines() if "/16 " in line)
    assert row["value"] == pytest.approx(best, abs=0.01)
    assert row["protocol"]["pooler"] == "cls_train_only"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == f"cse-search {cse.__version__}\n"


def test_an_interrupt_before_a_sweep_is_said_in_a_line(
    somewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typer ends the program with 130 and no word."""

    def interrupt(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cse.experiments.request.plan_all", interrupt)
    assert main(["run", "E7"]) == 130
    assert capsys.readouterr().err == "cse: interrupted; the same command continues\n"


def test_a_folder_with_an_analysis_package_of_its_own_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__init__.py").write_text("raise RuntimeError('of another project')")
    command, environment = [sys.executable, "-m", "cse", "schema", "plan"], os.environ | {"PYTHONPATH": str(REPO)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
