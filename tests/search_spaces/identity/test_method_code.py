"""Edited method code: its runs have new signatures; finished ones of before are asked about and never just reused."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cluster.plan.plan import Plan
from cluster.plan.planner import plan
from cse.cli.app import main
from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.plugins import source
from search_spaces.catalog import load_space
from search_spaces.identity import method_code
from search_spaces.identity.signature import CODE, identity
from tests.commands import printed
from tests.run_values import book_run

MODULE = """from mine_losses.margin import margin
from cse_train.losses import info_nce
from cse_train.methods.options.simcse import VERSION, Config
"""
SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:20", train.examples: 64}
space: {train.learning_rate: {grid: [1e-4]}}
"""


def test_every_method_is_as_released() -> None:
    """`python -m search_spaces.identity.method_code` follows an edit; its VERSION is raised where numbers move."""
    released = json.loads(method_code.RELEASED.read_text(encoding="utf8"))
    assert set(released) <= set(methods.list_methods())
    assert released == {name: method_code.digest_of(name, of_release=True) for name in released}
    assert [name for name in released if method_code.own_digest(name)] == []


def test_a_released_method_has_no_code_among_its_inputs() -> None:
    run = parse_run({"method": "simcse", "train.corpus": "generated", "train.dev": "generated_dev:20"})
    assert CODE not in identity(run, DataPaths())


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    plain = "def f(x):\n    return x + 1\n"
    noted = '"""Doc."""\n# a word\n\ndef f(x):\n    """Two\n    lines."""\n    return x + 1  # why\n'
    texts = [source.code_alone(text, ast.parse(text)) for text in (plain, noted, plain.replace("1", "2"))]
    assert texts[0] == texts[1] == plain.rstrip() and texts[2] != texts[0]
    marks = 'x = "# no comment"\n'
    assert source.code_alone(marks, ast.parse(marks)) == marks.rstrip()


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A method of the user's, `mine`, whose loss lies in a package of the user's own."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf8")
    package = tmp_path / "mine_losses"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "margin.py").write_text("def margin(x):\n    return x - 0.1\n", encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    real = source.file_of

    def file_of(module: str) -> Path | None:
        return tmp_path / "mine.py" if module == "cse_train.methods.mine" else real(module)

    monkeypatch.setattr(source, "file_of", file_of)
    yield tmp_path
    method_code._digests.clear()
    source.is_installed.cache_clear()


def test_the_digest_of_a_users_method_follows_what_it_imports_of_the_users(mine: Path) -> None:
    first = method_code.own_digest("mine")
    assert first is not None and first == method_code.own_digest("mine")
    margin = mine / "mine_losses" / "margin.py"
    margin.write_text("def margin(x):\n    return x - 0.25\n", encoding="utf8")
    edited = method_code.own_digest("mine")
    assert edited != first
    margin.write_text("def margin(x):  # as it was\n    return x - 0.1\n", encoding="utf8")
    assert method_code.own_digest("mine") == first
    (mine / "mine.py").write_text(MODULE + "SCALE = 2\n", encoding="utf8")
    assert method_code.own_digest("mine") not in (first, edited)


def test_shared_code_of_ours_and_libraries_are_not_the_users(mine: Path) -> None:
    (mine / "mine.py").write_text(MODULE + "import torch\nimport json\n", encoding="utf8")
    reached = source.follow_imports(["cse_train.methods.mine"], lambda name: method_code._is_own(False, name))
    assert sorted(reached) == [
        "cse_train.methods.mine",
        "cse_train.methods.options.simcse",
        "mine_losses",
        "mine_losses.margin",
    ]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db")


def planned(folder: Path, ledger: Ledger, keep: bool = False) -> Plan:
    (folder / "mine.yaml").write_text(SPACE, encoding="utf8")
    return plan([load_space(folder / "mine.yaml")], None, None, ledger, DataPaths(), need_inputs=True, keep=keep)


def finish(ledger: Ledger, work: Plan, seed: int, **noted: Any) -> None:
    run = work.runs[seed]
    book_run(ledger, run.signature, run.run.flat(), seed=seed, identity=run.identity, provenance=noted, examples=64)


def edit(monkeypatch: pytest.MonkeyPatch, digest: str | None) -> None:
    monkeypatch.setattr("search_spaces.identity.signature.own_digest", lambda method: digest)


def test_runs_of_other_code_are_said_and_taken_only_when_asked(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(monkeypatch, "a" * 16)
    finish(ledger, planned(tmp_path, ledger), 0, method_code="a" * 16)
    assert planned(tmp_path, ledger).changed() == [] and planned(tmp_path, ledger).counts()["done"] == 1
    edit(monkeypatch, "b" * 16)
    work = planned(tmp_path, ledger)
    assert work.changed() == [
        "changed code: method=simcse, 1 finished run was made by other code of it (aaaaaaaa; now bbbbbbbb); "
        "give --rerun to train them again, or --keep to take them as they are"
    ]
    assert work.counts()["done"] == 0 and {run.identity[CODE] for run in work.runs} == {"b" * 16}
    kept = planned(tmp_path, ledger, keep=True)
    assert kept.changed() == [] and kept.counts()["done"] == 1
    assert [run.identity[CODE] for run in kept.runs] == ["a" * 16, "b" * 16]
    finish(ledger, work, 0, method_code="b" * 16)
    assert planned(tmp_path, ledger).changed() == [] and planned(tmp_path, ledger).counts()["done"] == 1


def test_cse_run_reuses_nothing_of_other_code_until_it_is_said_how(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        finish(ledger, planned(tmp_path, ledger), seed, method_code="released")
    edit(monkeypatch, "b" * 16)
    where = [str(tmp_path / "mine.yaml"), "--ledger", str(tmp_path / "ledger.db"), "--storage", str(tmp_path)]
    assert main(["run", *where]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: changed code: method=simcse, 2 finished runs were made by other code of it (released;")
    assert main(["run", *where, "--rerun", "--keep"]) == 2
    assert "two answers: --rerun --keep; give one of them" in capsys.readouterr().err
    assert "2/2 already in the ledger, 0 run" in printed(capsys, "run", *where, "--keep")


def test_a_release_that_somebody_edits_is_asked_about_too(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(ledger, planned(tmp_path, ledger), 0, method_code="released")
    edit(monkeypatch, "b" * 16)
    (line,) = planned(tmp_path, ledger).changed()
    assert "(released; now bbbbbbbb)" in line


def test_runs_from_before_digests_stand_for_a_users_method(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(ledger, planned(tmp_path, ledger), 0)
    finish(ledger, planned(tmp_path, ledger), 1, method_code="released")
    edit(monkeypatch, "b" * 16)
    monkeypatch.setattr("cluster.plan.planner.read_released", lambda: {})
    work = planned(tmp_path, ledger)
    assert work.counts()["done"] == 1 and CODE not in work.runs[0].identity
    assert [line.partition(" of it")[0] for line in work.changed()] == [
        "changed code: method=simcse, 1 finished run was made by other code"
    ]
