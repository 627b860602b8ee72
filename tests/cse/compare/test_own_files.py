"""`cse compare` on files of one's own: whatever `cse eval` reads, and the dev set by which a run was picked."""

import functools
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cse
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import set_hash
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from search_spaces.parse import parse_file
from tests.commands import refused
from tests.cse.compare.models import Capture, facts
from tests.run_values import book_run

pytestmark = pytest.mark.usefixtures("somewhere")

TWO = ("compare", "words-l1-h64", "words-l2-h128", "--pooler", "mean")
PAIRS = load_pairs("generated_dev:30", DataPaths())
ROWS = [*zip(PAIRS.left, PAIRS.right, PAIRS.gold, strict=True)]


def as_text(file: Path, between: str, encoding: str, head: str = "sentence1 sentence2 score") -> None:
    rows = [[f'"{left}"', f'"{right}"', str(gold)] for left, right, gold in ROWS]
    lines = [between.join(head.split()), *(between.join(row) for row in rows)]
    content = ("\n".join(lines) + "\n").encode(encoding)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


FORMS: dict[str, Callable[[Path], None]] = {
    "shop.csv": lambda file: as_text(file, ";", "utf-8-sig"),
    "shop.tsv": lambda file: as_text(file, "\t", "utf8", "text1 text2 similarity"),
    "shop.csv.gz": lambda file: as_text(file, ", ", "utf8"),
    "shop.jsonl": lambda file: pd.DataFrame(ROWS, columns=["a", "b", "grade"]).to_json(
        file, orient="records", lines=True
    ),
    "shop.parquet": lambda file: pd.DataFrame(ROWS, columns=["premise", "hypothesis", "score"]).to_parquet(file),
}


@functools.cache
def of_the_shipped_set() -> dict[str, Any]:
    made = cse.compare("words-l1-h64", "words-l2-h128", pooler="mean", suite=["generated_dev:30"], top=1).as_dict()
    return dict(json.loads(json.dumps(made)))


@pytest.mark.parametrize("name", FORMS)
def test_a_file_of_pairs_in_every_form_is_compared_pair_by_pair(capsys: Capture, name: str) -> None:
    FORMS[name](Path(name))
    ours, shipped = facts(capsys, *TWO, "--suite", name, "--top", "1"), of_the_shipped_set()
    (column,), (pairs,) = ours["columns"], ours["pairs"]
    assert (column["column"], pairs["pairs"]) == ("shop", 30) and pairs["difference"] != 0
    assert column["difference"] == shipped["columns"][0]["difference"]
    assert [pairs | {"column": ""}] == [each | {"column": ""} for each in shipped["pairs"]], "texts are shown too"


def test_several_files_share_the_level_and_what_they_hold_is_told(capsys: Capture) -> None:
    FORMS["shop.csv"](Path("shop.csv"))
    FORMS["shop.tsv"](Path("desk.tsv"))
    assert main([*TWO, "--suite", "shop.csv,desk.tsv", "--format", "json"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    assert [pairs["column"] for pairs in made["pairs"]] == ["shop", "desk"]
    assert {column["level"] for column in made["columns"]} <= {0.025, 0.05}
    assert {column["scope"] for column in made["columns"]} == {"sentences"}
    assert (
        "cse: test shop: 30 rated pairs of " in said.err and "(sentence1=text1, sentence2=text2, rating=s" in said.err
    )
    same = cse.compare("words-l1-h64", "words-l2-h128", pooler="mean", suite=["shop.csv", "desk.tsv"])
    assert [column.difference for column in same.columns] == [column["difference"] for column in made["columns"]]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("shop.csv", "missing number: "),
        ("{file: shop.csv, columns: {rating: stars}}", "unknown column: columns.rating=stars of "),
        ("none.csv", "missing file: none needs "),
        ("shop.cvs", "unknown suite: suite=shop.cvs; "),
    ],
)
def test_each_mistake_is_one_line(capsys: Capture, given: str, line: str) -> None:
    Path("shop.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,\ne,f,2\n", encoding="utf8")
    assert refused(capsys, *TWO, "--suite", given).startswith(f"cse: {line}")


SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set:
  train.corpus: generated
  train.dev: {file: shop.csv}
space:
  method.temperature: {grid: [0.05, 0.1]}
"""


def test_a_folder_is_scored_on_the_set_by_which_the_runs_were_picked(capsys: Capture, somewhere: Path) -> None:
    FORMS["shop.csv"](Path("shop.csv"))
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    resolved = resolve(parse_file(Path("mine.yaml").resolve()))
    paths = DataPaths(files=resolved.files)
    ledger = Ledger.open(somewhere / "results" / "ledger.db")
    spec = {"title": "t", "space": "mine", "file": str(resolved.space.file), "profile": "small"}
    spec |= {"encoder": "words-l4-h128", "set": {}}
    ledger.record_sweep("mine", SweepSpec(spec))
    cell = next(iter(resolved.cells()))
    inputs = {"encoder": "e" * 64, "tokenizer": "t", "corpus": "c", "dev": set_hash("shop", paths)}
    names = []
    for seed in (0, 1):
        run = cell.run(seed)
        name = signature(run, inputs)
        book_run(ledger, name, run.flat(), seed=seed, identity=inputs, best=95.0 + seed, folder=f"runs/{name}")
        ledger.link("mine", [(name, cell.key, seed)])
        names.append(name)
    for model in (",".join(names), "mine:temperature=0.05"):
        (column,) = facts(capsys, "compare", model, "words-l1-h64", "--pooler", "mean")["columns"]
        assert (column["column"], column["B"]["n"]) == ("shop", 1)
        made = facts(capsys, "gate", model, "--against", "words-l1-h64", "--pooler", "mean", code=0)
        assert made["columns"][0]["difference"] == column["difference"], "by the same set"
    Path("mine.yaml").unlink()
    line = refused(capsys, "compare", name, "words-l1-h64", "--pooler", "mean")
    assert line.startswith("cse: no set to score: ") and line.endswith("; give --suite FILE")
