"""`cse gate` of models' folders: against runs, whose question is counted, and against other folders."""

from pathlib import Path

import cse
from analysis.ledger import Ledger
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from tests.commands import printed, refused
from tests.cse.compare.models import PROTOCOL, SET, A, Capture, book, facts
from tests.documents import validated
from tests.run_values import score_of

ONE, TWO = "wiki-l1-h64", "wiki-l2-h128"
HOW = ("--pooler", "mean", "--suite", SET)


def test_a_folder_is_judged_against_runs_and_the_question_is_counted(capsys: Capture, ledger: Ledger) -> None:
    about = PROTOCOL | {"data_hash": load_pairs(SET, DataPaths()).content_hash}
    for seed, name in enumerate(book(ledger, 0.24, [62.0, 64.0, 66.0])):
        ledger.add_score(name, score_of(SET, 97 + seed / 2, about))
    made = validated("gate", printed(capsys, "gate", ONE, "--against", A, *HOW, "--format", "json", code=3))
    (column,), asked = made["columns"], made["asked"]
    assert (made["verdict"], column["column"], asked["number"], asked["uncounted"]) == ("worse", SET, 1, "")
    assert "3 seeds of B, and A has none" in column["reason"] and made["candidate"]["folder"] == ONE
    turned = cse.gate(A, ONE, pooler="mean", suite=SET)
    assert (turned.word, turned.exit_code, turned.asked.number) == ("better", 0, 1), "the same both ways round"
    assert facts(capsys, "gate", TWO, "--against", A, *HOW, code=3)["asked"]["number"] == 2, "another folder is another"
    assert refused(capsys, "gate", ONE, "--against", A, "--pooler", "mean").startswith(
        "cse: missing data: sts_dev needs"
    )


def test_two_folders_have_no_seeds_and_two_sets_of_folders_do(capsys: Capture, somewhere: Path) -> None:
    text = printed(capsys, "gate", ONE, "--against", TWO, *HOW, "--n-more", code=4).splitlines()
    assert text[0].startswith(f"more-seeds 2: {SET} -") and "one seed on a side" in text[0]
    assert text[1].startswith("2 more seeds of both would decide it: 4 runs, time unknown")
    assert text[2].startswith("this question is not counted: both sides are folders")
    sides = (f"{ONE},words-l1-h64", "--against", f"{TWO},words-l2-h128")
    made = facts(capsys, "gate", *sides, *HOW, "--candidates", "4", code=4)
    (column,) = made["columns"]
    assert (column["common"], column["A"]["n"], column["B"]["n"], made["asked"]["level"]) == (0, 2, 2, 0.05 / 4)
    assert column["interval"][0] < column["difference"] < column["interval"][1]
    assert refused(capsys, "gate", ONE, "--against", ONE, *HOW).startswith("cse: one model twice: ")
    assert not Path("results/ledger.db").exists()
