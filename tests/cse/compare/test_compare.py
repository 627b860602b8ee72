"""`cse compare` and `cse gate`: names, refusals, output, exit codes; a program's own score."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.answers.judge import Sides, Terms, judge_models
from analysis.ledger import Ledger
from analysis.tables.columns import entry_of
from cse.cli import screen
from cse.compare.answers import answer_columns
from cse.compare.comparison import tell_uneven
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.plugins import registry
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from search_spaces.parse import parse_file
from tests import site_ledger
from tests.commands import printed, refused
from tests.cse.compare.models import INPUTS, SET, A, B, C, Capture, Names, book, cell, facts, score
from tests.run_values import book_run


def test_cells_are_compared_in_every_common_column(capsys: Capture, two: Names) -> None:
    """Dev: mean 3, sd 1; two columns share 5%, and Student's t(0.9875) at 2 degrees of freedom is 6.205347."""
    said = facts(capsys, "compare", A, B)
    dev, graded = said["columns"]
    assert (dev["column"], dev["word"], dev["difference"], dev["common"]) == ("sts_dev", "undecided", 3.0, 3)
    assert dev["interval"] == pytest.approx([3 - 6.205347 / 3**0.5, 3 + 6.205347 / 3**0.5], abs=1e-6)
    assert dev["A"]["values"] == [62.0, 64.0, 66.0] and dev["B"]["seeds"] == [0, 1, 2]
    assert (graded["column"], graded["word"], graded["interval"]) == (SET, "seeds do nothing", None)
    (alone,) = facts(capsys, "compare", A, B, "--column", "sts_dev")["columns"]
    assert (alone["word"], alone["interval"]) == ("undecided", dev["interval"]), "a column chosen later has its share"
    assert "settings: method.dup_rate A 0.24, B 0.08" in said["notes"]


def test_sentence_pairs_with_their_texts(capsys: Capture, two: Names) -> None:
    (pairs,) = facts(capsys, "compare", A, B, "--top", "2")["pairs"]
    assert (pairs["column"], pairs["pairs"], pairs["seeds"]) == (SET, 30, [3, 3]) and pairs["difference"] > 0
    texts = load_pairs(SET, DataPaths())
    first = pairs["disagreements"][0]
    assert first["texts"] == [texts.left[first["index"]], texts.right[first["index"]]]
    assert len(pairs["disagreements"]) == 2
    text = printed(capsys, "compare", A, B, "--top", "1")
    assert texts.left[first["index"]] in text and f"**Ranked most differently in {SET} (of 30; " in text


def test_single_runs_say_that_seeds_are_not_covered(capsys: Capture, two: Names) -> None:
    text = printed(capsys, "compare", two[0][0][:8], two[1][0][:8])
    assert "One seed on a side: no interval covers other seeds; --over sentences judges these models as they" in text
    assert "what other seeds would give is not covered" in text
    column = facts(capsys, "compare", two[0][0], two[1][0], "--column", "sts_dev")["columns"][0]
    assert (column["difference"], column["interval"], column["word"]) == (2.0, None, "undecided")


def test_a_run_that_leaves_out_seeds_of_its_cell_has_no_word_over_sentences(capsys: Capture, two: Names) -> None:
    chosen = facts(capsys, "compare", two[0][2], two[1][0])["columns"]
    assert {(column["word"], column["scope"]) for column in chosen} == {("undecided", "seeds")}
    asked = facts(capsys, "compare", two[0][2], two[1][0], "--over", "sentences", "--column", SET)["columns"]
    assert [column["scope"] for column in asked] == ["sentences"]


def test_several_runs_are_one_model(capsys: Capture, two: Names) -> None:
    left, right = (",".join(name[:10] for name in names) for names in two)
    said = facts(capsys, "compare", left, right, "--column", "sts_dev")
    assert [run["seed"] for run in said["A"]["runs"]] == [0, 1, 2] and said["columns"][0]["difference"] == 3.0


def test_seeds_by_hand_are_all_seeds_of_their_cell(capsys: Capture, two: Names) -> None:
    """The best two of three are refused on either side, with the cell's name; a single run says what it leaves out."""
    best, base = ",".join(two[0][1:]), ",".join(two[1])
    for argv in (("compare", best, base), ("gate", best, "--against", base), ("gate", base, "--against", best)):
        line = refused(capsys, *argv)
        assert line == (
            f"cse: seeds left out: model={best} is 2 of the 3 finished seeds of its cell; "
            "give E7:method.dup_rate=0.24, all of whose seeds count"
        )
    assert "is 1 of the 3 finished seeds" in refused(capsys, "gate", two[0][2], "--against", B)
    assert "is 1 of the 3 finished seeds of its cell: what the others" in printed(capsys, "compare", two[0][2], B)


def test_failed_runs_of_a_cell_break_its_candidate(capsys: Capture, two: Names, ledger: Ledger) -> None:
    run = cell(0.24).run(3)
    name = signature(run, INPUTS)
    book_run(ledger, name, run.flat(), seed=3, identity=INPUTS, state="failed")
    ledger.link("E7", [(name, cell(0.24).key, 3)])
    for candidate in (A, ",".join(two[0])):
        made = facts(capsys, "gate", candidate, "--against", B, "--column", "sts_dev", code=3)
        assert made["verdict"] == "breaks" and "1 of 4 seeds of A failed" in made["columns"][0]["reason"]
        bounds = [made["columns"][0][side]["failures_at_most"] for side in "AB"]
        assert bounds == [None, pytest.approx(0.6316, abs=1e-4)], "0.3684³ = 0.05 of B's three seeds"
        said = printed(capsys, "compare", candidate, B, "--column", "sts_dev").splitlines()
        assert "- 0 of 3 seeds of B failed: up to 63% of further ones may (95%)" in said
    assert facts(capsys, "gate", B, "--against", A, "--column", "sts_dev", code=3)["verdict"] == "worse"


def test_a_runs_folder_is_the_run(capsys: Capture, two: Names) -> None:
    folder = Path("results/runs", two[0][1])
    said = facts(capsys, "compare", str(folder), two[1][1], "--column", "sts_dev")
    assert said["A"]["runs"][0]["signature"] == two[0][1] and said["columns"][0]["difference"] == 3.0


def test_models_that_are_no_runs_are_scored_for_it(capsys: Capture, ledger: Ledger) -> None:
    argv = ("compare", "words-l1-h64", "words-l2-h128", "--pooler", "mean", "--suite", SET)
    said = facts(capsys, *argv)
    assert said["columns"][0]["common"] == 0 and said["A"]["folder"] == "words-l1-h64"
    assert said["pairs"][0]["pairs"] == 30 and said["pairs"][0]["seeds"] == [1, 1]


def test_a_folder_is_scored_on_what_the_runs_have(capsys: Capture, two: Names) -> None:
    argv = ("compare", A, "words-l1-h64", "--pooler", "mean")
    said = facts(capsys, *argv)
    assert [column["column"] for column in said["columns"]] == [SET]
    assert said["pairs"][0]["seeds"] == [3, 1]
    assert "pooler differs: A cls and B mean" in said["notes"], "a pooler is a model's own"


def test_scores_under_unlike_protocols_are_not_compared(capsys: Capture, two: Names, ledger: Ledger) -> None:
    score(ledger, two[0], 0.5, data_hash="f" * 64)
    said = facts(capsys, "compare", A, B)
    assert [column["column"] for column in said["columns"]] == ["sts_dev"]
    (note,) = [note for note in said["notes"] if note.startswith("not compared")]
    assert note.startswith(f"not compared: {SET}: scored with unlike data_hash (A ffffffffffff and B ")
    line = refused(capsys, "compare", A, B, "--column", SET)
    assert f"no such column: column={SET} of both; not compared: {SET}: scored with unlike data_hash" in line


def test_models_on_another_dev_set_of_that_name_are_refused(capsys: Capture, ledger: Ledger) -> None:
    left = book(ledger, 0.24, [62.0, 64.0])
    right = book(ledger, 0.08, [60.0, 61.0], INPUTS | {"dev": "x"})
    line = refused(capsys, "gate", ",".join(left), "--against", ",".join(right))
    assert "unlike data_hash (A d and B x)" in line


def test_another_corpus_is_said(capsys: Capture, ledger: Ledger) -> None:
    left = book(ledger, 0.24, [62.0, 64.0, 66.0])
    right = book(ledger, 0.24, [60.0, 61.0, 62.0], INPUTS | {"corpus": "k"})
    said = facts(capsys, "compare", ",".join(left), ",".join(right))
    assert "trained on or by other corpus: A c, B k" in said["notes"] and said["columns"][0]["word"] == "better"


def test_a_cell_of_a_space_with_unfinished_runs_says_so(capsys: Capture, two: Names, ledger: Ledger) -> None:
    run = cell(0.24).run(3)
    name = signature(run, INPUTS)
    ledger.claim(name, run.flat(), method=run.method, seed=3, owner="me", identity=INPUTS, provenance={})
    ledger.link("E7", [(name, cell(0.24).key, 3)])
    assert f"{A}: 1 of 4 runs are not done" in facts(capsys, "compare", A, B)["notes"]
    assert "is claimed; let cse run go on" in refused(capsys, "compare", name, B)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("compare", A, A), "one model twice: A=E7:dup_rate=0.24, B=E7:dup_rate=0.24: run "),
        (("compare", "words-l1-h64", "words-l1-h64"), "one model twice: A=words-l1-h64, B=words-l1-h64"),
        (("compare", A, "E8x"), "unknown model: model=E8x; give a run (cse trials), SPACE:CELL or SWEEP:CELL"),
        (("compare", A, "E7"), "which cell: cell=none of 8 of E7; give E7:method.dup_rate=0.08"),
        (("compare", A, "E7:dup_rate=0.5"), "no such cell: cell=dup_rate=0.5"),
        (("compare", A, C), "nothing finished: model=E7:dup_rate=0.32 has no done run"),
        (("compare", A, B, "--margin", "0"), "a tie needs a width: margin=0; give points above 0"),
        (("compare", A, B, "--level", "0.7"), "a level is how often a word may be wrong: level=0.7"),
        (("compare", A, B, "--column", "sts_tets"), "no such column: column=sts_tets of both; "),
        (("gate", A, "--against", B, "--looks", "3,x"), "wrong looks: looks=3,x; give numbers of seeds"),
        (("gate", A, "--against", B, "--looks", "5,3"), "looks are growing numbers of seeds: looks=[5, 3]"),
        (("gate", A, "--against", B, "--looks", "2,3,4,5,6"), "at most 4 looks: looks=[2, 3, 4, 5, 6]"),
    ],
)
def test_mistakes(capsys: Capture, two: Names, argv: tuple[str, ...], line: str) -> None:
    assert refused(capsys, *argv).startswith(f"cse: {line}")


def test_runs_of_two_cells_or_of_one_seed_are_no_model(capsys: Capture, two: Names, ledger: Ledger) -> None:
    (third,) = book(ledger, 0.32, [50.0])
    mixed = refused(capsys, "compare", f"{two[0][0]},{two[1][1]}", third)
    assert "several models" in mixed and "differ in method.dup_rate; give runs of one cell" in mixed
    twice = book(ledger, 0.24, [60.0], INPUTS | {"corpus": "k"})
    assert "differ in corpus (content)" in refused(capsys, "compare", f"{two[0][0]},{twice[0]}", third)


def test_without_a_common_column_nothing_is_compared(capsys: Capture, ledger: Ledger) -> None:
    names = book(ledger, 0.24, [1.0]), book(ledger, 0.08, [2.0], INPUTS | {"dev": "x"})
    line = refused(capsys, "compare", names[0][0], names[1][0])
    assert line.startswith("cse: nothing to compare: A and B have no column in common; not compared: sts_dev: ")


@pytest.mark.parametrize("form", ["md", "tex", "csv", "html"])
def test_every_table_format(capsys: Capture, two: Names, form: str) -> None:
    assert "better" in printed(capsys, "compare", A, B, "--column", "sts_dev", "--format", form)
    text = printed(capsys, "compare", A, B, "--format", form)
    assert "64.00" in text or "64.0" in text
    if form == "csv":
        row = next(csv.DictReader(io.StringIO(text)))
        assert (row["column"], row["A mean"], row["B mean"], row["A is"]) == ("sts_dev", "64.0", "61.0", "undecided")


def test_it_fits_a_terminal_of_80_columns(capsys: Capture, two: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "width", lambda: 80)
    text = printed(capsys, "compare", A, B)
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.split("\n")]
    assert max(map(len, plain)) <= 80 and "? undecided" in "\n".join(plain)


def test_the_gates_line_json_and_exit_codes(capsys: Capture, two: Names, ledger: Ledger) -> None:
    better = printed(capsys, "gate", A, "--against", B)
    joined = "better: sts_dev +3.00 (+0.52 to +5.48: better, the 95% interval excludes 0 "
    bound = "0 of 3 seeds of the candidate and of the reference failed: up to 63% of further ones may (95%)\n"
    left = "this loop controls the false discovery rate at 5%; the next level is 1.5%, of 5% that are left\n" + bound
    assert better == f"{joined}(3 seeds; other sentences are not covered))\n{left}"
    worse = facts(capsys, "gate", B, "--against", A, code=3)
    assert (worse["verdict"], worse["exit_code"], worse["columns"][0]["difference"]) == ("worse", 3, -3.0)
    book(ledger, 0.32, [60.01, 61.02, 62.0])
    tie = facts(capsys, "gate", C, "--against", B)
    assert (tie["verdict"], tie["more_seeds"], tie["exit_code"]) == ("tie", 0, 0)
    book(ledger, 0.2, [60.0, 62.0, 64.0])
    argv = ("gate", "E7:dup_rate=0.2", "--against", B)
    more = facts(capsys, *argv, code=4)
    assert (more["verdict"], more["asked"]["number"]) == ("more-seeds", 3)
    text = printed(capsys, *argv, code=4)
    assert text.startswith(f"more-seeds {more['more_seeds']}: sts_dev +1.00 (") and text.count("\n") == 3


def test_a_gate_on_one_seed_asks_for_more(capsys: Capture, ledger: Ledger) -> None:
    (left,), (right,) = book(ledger, 0.24, [62.0]), book(ledger, 0.08, [60.0])
    more = facts(capsys, "gate", left, "--against", right, code=4)
    assert (more["verdict"], more["more_seeds"]) == ("more-seeds", 2)


def test_a_gate_without_common_seeds_compares_means(capsys: Capture, ledger: Ledger) -> None:
    left = book(ledger, 0.24, [70.2, 70.7, 70.3], first=3)
    right = book(ledger, 0.08, [60.0, 60.5, 61.0])
    made = facts(capsys, "gate", ",".join(left), "--against", ",".join(right))
    assert made["verdict"] == "better" and made["columns"][0]["common"] == 0


def test_looks_that_were_named_cost_level_and_bind(capsys: Capture, two: Names) -> None:
    """At 0.015 a look, t(0.9925) at 2 degrees of freedom is 8.07: 3 points with sd 1 stay open."""
    open_row = facts(capsys, "gate", A, "--against", B, "--looks", "3,5,8,12", code=4)
    assert open_row["verdict"] == "more-seeds" and open_row["columns"][0]["level"] == pytest.approx(0.015)
    early = facts(capsys, "gate", A, "--against", B, "--looks", "5,8", code=4)
    assert early["more_seeds"] == 2 and early["columns"][0]["interval"] is None


def test_several_columns_of_a_gate_share_the_level(capsys: Capture, two: Names) -> None:
    made = facts(capsys, "gate", A, "--against", B, "--column", f"sts_dev,{SET}", "--level", "0.1", code=5)
    assert [column["level"] for column in made["columns"]] == [0.05, 0.05]
    assert [column["word"] for column in made["columns"]] == ["better", "seeds do nothing"]
    assert (made["verdict"], made["more_seeds"], made["more_runs"]) == ("seeds do nothing", None, None)


def test_arithmetic_that_the_device_chose_is_told_and_never_mixed_on_a_side(ledger: Ledger, capsys: Capture) -> None:
    flat = cell(0.24).run(0).flat() | {"train.precision": "auto"}
    for name, computed in (("aa" * 12, "bf16"), ("bb" * 12, "fp32")):
        end = {"best": 60.0, "folder": f"runs/{name}", "details": {"train.precision": computed}}
        book_run(ledger, name, flat, method="esimcse", identity=INPUTS, **end)
    (other,) = book(ledger, 0.08, [61.0])
    said = facts(capsys, "compare", "aa" * 12, "bb" * 12, "--column", "sts_dev")
    assert any("computed in differs: A bf16 and B fp32" in line for line in said["notes"]), said["notes"]
    assert not any("computed in" in line for line in facts(capsys, "compare", "aa" * 12, other)["notes"])


def test_a_line_says_over_which_seeds_means_and_difference_are() -> None:
    """Who takes one mean from the other gets -10.5 where the difference over common seeds is 3."""
    columns = {
        "sts_dev": Sides(*(entry_of(dict(enumerate(v))) for v in ([62.0, 64.0, 66.0, 10.0], [60.0, 61.0, 62.0])))
    }
    line = "A - B of sts_dev is over the 3 seeds that both have; A's mean is over 4, B's over 3"
    assert tell_uneven(answer_columns(columns, judge_models(columns, Terms()))) == [line]


SPACE = """
version: 1
id: mine
trainer:
  script: train.py
  score: {name: NAME, direction: END}
seeds: 3
space:
  lr: {grid: [1, 2]}
"""
SCORES = {"dev_loss": ("min", 0.027, 0.043), "dev_accuracy": ("max", 0.60, 0.55), "reward": ("max", 0.60, 0.55)}
"""Name -> direction, and the means of lr=1, the better one, and of lr=2."""


@pytest.fixture(params=SCORES)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A score's name, in a folder with the runs of its sweep."""
    name: str = request.param
    end, *means = SCORES[name]
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("", encoding="utf8")
    Path("mine.yaml").write_text(SPACE.replace("NAME", name).replace("END", end), encoding="utf8")
    Path("results").mkdir()
    sign = -1 if end == "min" else 1  # as its run reports it
    with contextlib.closing(Ledger.open(Path("results/ledger.db"))) as ledger:
        resolved = resolve(parse_file(Path("mine.yaml")))
        site_ledger.train(ledger, resolved, 3, lambda run: sign * (means[int(run.cell["lr"]) - 1] + 0.001 * run.seed))
    registry.forget()
    yield name
    registry.forget()


def test_the_gate_stops_a_regression(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "gate", "mine:lr=2", "--against", "mine:lr=1", code=3).startswith(f"worse: {name} ")
    assert printed(capsys, "gate", "mine:lr=1", "--against", "mine:lr=2").startswith(f"better: {name} ")


def test_numbers_are_shown_as_the_program_reports_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = f"{SCORES[name][1] + 0.001:.3f}"
    for words in (
        ["compare", "mine:lr=1", "mine:lr=2"],
        ["explain", "mine.yaml", "--cell", "lr=1"],
        ["table", "mine.yaml"],
    ):
        out = printed(capsys, *words, "--format", "json")
        assert f" {shown}" in out and f"-{shown}" not in out, words
