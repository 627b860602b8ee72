"""Finished runs that came without files, and lack a score of another table: counted, with the command that helps."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse.tables.reproduction import Reproduction, judge_study
from cse.tables.study import read_space
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.sides import needs

pytestmark = needs("importers", "bundles")
BUNDLE = Path(__file__).resolve().parents[3] / "docs" / "results" / "bundles" / "words_tiny.jsonl.gz"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    path = tmp_path_factory.mktemp("unscored") / "ledger.db"
    assert main(["import", str(BUNDLE), "--ledger", str(path)]) == 0
    return Ledger.open(path)


def judged(table: str, ledger: Ledger) -> Reproduction:
    resolved = resolve(load_space(table), "tiny")
    study, made = read_space(resolved, ledger, None, None)
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    return judge_study(resolved, study, made, ledger, planned)


def test_runs_without_files_that_lack_a_table_s_scores_are_counted_with_the_way_out(ledger: Ledger) -> None:
    (line,) = judged("E6", ledger).unscored()
    assert line.startswith("Unscored: 5 finished runs without all scores of this table, whose files are not here; ")
    assert "cse run E6 --retrain-missing, with the same settings and data, trains them again" in line


def test_a_table_whose_runs_have_its_scores_says_nothing(ledger: Ledger) -> None:
    assert judged("E7", ledger).unscored() == []
