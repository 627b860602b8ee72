"""`cse compare` and `cse gate` on runs that did not train: no tie, no direction, and a gate that does not open."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Baselines, Ledger
from cse.cli.app import main
from tests.commands import printed
from tests.cse.compare.models import SET, Capture, facts, score
from tests.site_ledger import noise, small, train

IDLE, ALSO_IDLE, HIGH = "E7:dup_rate=0.08", "E7:dup_rate=0.12", "E7:dup_rate=0.16"
LEARNS, ALSO_LEARNS = "E7:dup_rate=0.24", "E7:dup_rate=0.32"
LEVELS = {0.08: 33.97, 0.12: 33.97, 0.16: 60.0, 0.24: 60.0, 0.32: 60.0}
"""Repetition rate -> best dev score; the first three never beat their first evaluation."""
NEVER = "never beat their first evaluation, or their encoder without training by 0.5 points"
BOTH = f"3 of 3 runs of A and 3 of 3 runs of B {NEVER}"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(Ledger.open(tmp_path / "results" / "ledger.db")) as opened:
        for idle in (True, False):
            levels = {rate: level for rate, level in LEVELS.items() if (rate < 0.2) == idle}
            train(
                opened,
                small("E7"),
                3,
                lambda run, of=levels: (
                    level + noise(run, 0.01)  # type: ignore[misc]
                    if (level := of.get(run.cell["method.dup_rate"]))
                    else None
                ),
                idle=idle,
            )
        yield opened


def test_two_idle_sides_are_no_tie(capsys: Capture, ledger: Ledger) -> None:
    said = facts(capsys, "compare", IDLE, ALSO_IDLE)
    (dev,) = said["columns"]
    assert (dev["word"], dev["reason"], dev["more_seeds"], dev["A"]["idle"]) == ("no signal", BOTH, None, [0, 1, 2])
    assert "A: 3 of 3 runs never beat their first evaluation" in said["notes"]
    assert f"- sts_dev: no signal; {BOTH}\n" in printed(capsys, "compare", IDLE, ALSO_IDLE)
    for form in ("md", "csv", "html", "tex"):
        text = printed(capsys, "compare", IDLE, ALSO_IDLE, "--format", form)
        assert ("∅ no signal" if form == "md" else "no signal") in text, form


def test_a_gate_does_not_open_for_them(capsys: Capture, ledger: Ledger) -> None:
    made = facts(capsys, "gate", IDLE, "--against", ALSO_IDLE, code=4)
    assert (made["verdict"], made["more_seeds"], made["exit_code"]) == ("no signal", None, 4)
    line, again, *_ = printed(capsys, "gate", IDLE, "--against", ALSO_IDLE, code=4).splitlines()
    assert line.startswith("no signal: sts_dev ") and line.endswith(f": no signal, {BOTH})")
    assert again.startswith("seen: this is question 1 of loop main again"), "the same question costs nothing"
    looked = facts(capsys, "gate", IDLE, "--against", ALSO_IDLE, "--looks", "5,8", code=4)
    assert looked["verdict"] == "no signal", "more seeds are not what is lacking"


def test_one_idle_side_may_be_worse_and_is_no_tie(capsys: Capture, ledger: Ledger) -> None:
    assert facts(capsys, "gate", IDLE, "--against", LEARNS, code=3)["verdict"] == "worse"
    assert facts(capsys, "gate", LEARNS, "--against", IDLE)["verdict"] == "better"
    equal = facts(capsys, "gate", LEARNS, "--against", HIGH, code=4)
    assert (equal["verdict"], equal["columns"][0]["reason"]) == ("no signal", f"3 of 3 runs of B {NEVER}")


def test_sides_that_learn_are_a_tie_unless_their_encoder_has_as_much_but_for_the_margin(
    capsys: Capture, ledger: Ledger
) -> None:
    tie = facts(capsys, "gate", LEARNS, "--against", ALSO_LEARNS)
    assert (tie["verdict"], tie["columns"][0]["word"], tie["columns"][0]["A"]["idle"]) == ("tie", "tie", [])
    assert not [note for note in facts(capsys, "compare", LEARNS, ALSO_LEARNS)["notes"] if "evaluation" in note]
    dev = ledger.runs()[0].identity["dev"]
    for start, word, code in ((59.3, "tie", 0), (59.7, "no signal", 4), (62.0, "no signal", 4)):
        untrained = {"untrained [CLS]": start}
        ledger.store_baselines([Baselines("sts_dev", "words-l4-h128", "wiki", 512, {"suite": dev}, untrained)])
        assert facts(capsys, "gate", LEARNS, "--against", ALSO_LEARNS, code=code)["verdict"] == word


def test_other_suites_and_sentence_pairs_of_idle_runs_have_none_either(capsys: Capture, ledger: Ledger) -> None:
    for name, spread in ((IDLE, 0.3), (ALSO_IDLE, 0.3), (LEARNS, 1.0)):
        score(ledger, [run["signature"] for run in facts(capsys, "compare", name, HIGH)["A"]["runs"]], spread)
    said = facts(capsys, "compare", IDLE, ALSO_IDLE)
    assert {column["column"]: column["word"] for column in said["columns"]} == {
        "sts_dev": "no signal",
        SET: "no signal",
    }
    over = ("--over", "sentences", "--column", SET)
    assert [column["word"] for column in facts(capsys, "compare", IDLE, ALSO_IDLE, *over)["columns"]] == ["no signal"]
    (learns,) = facts(capsys, "compare", IDLE, LEARNS, *over)["columns"]
    assert learns["word"] != "no signal" and "(30 pairs; other seeds are not covered)" in learns["reason"]
    folder = facts(capsys, "compare", LEARNS, "words-l1-h64", "--pooler", "mean")
    assert folder["columns"][0]["word"] == "seeds do nothing", "a folder has no curve, and is not idle"


def test_runs_of_other_tools_are_not_judged_by_encoders_of_ours(
    capsys: Capture, ledger: Ledger, tmp_path: Path
) -> None:
    """Exports with all settings of a run of ours, and a score from 0 to 1 under the name of our dev set."""
    ledger.store_baselines([Baselines("sts_dev", "words-l4-h128", "wiki", 512, {}, {"untrained [CLS]": 51.0})])
    head = (
        "ID,train.encoder,train.corpus,train.dev_max_length,method.pooler,train.learning_rate,train.seed,sts_dev,State"
    )
    rows = [
        f"{rate}{seed},words-l4-h128,wiki,512,cls,{rate},{seed},{0.6 + seed / 100 + rate / 1e4},finished"
        for rate in (1, 2)
        for seed in range(3)
    ]
    export = tmp_path / "export.csv"
    export.write_text("\n".join([head, *rows]) + "\n", encoding="utf8")
    taken = ("--as", "theirs", "--score", "sts_dev", "--better", "higher", "--scale", "1")
    assert main(["import", "wandb", str(export), *taken]) == 0, capsys.readouterr().err
    capsys.readouterr()
    runs = ledger.runs(sweep="theirs")
    left, right = (",".join(run.signature for run in runs if run.config["train.learning_rate"] == r) for r in (1, 2))
    assert facts(capsys, "gate", left, "--against", right)["verdict"] == "tie"
