"""`SWEEP:best` names the pick of a sweep, and `untrained` the encoder of a run of any length."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from tests.commands import printed, refused
from tests.cse.compare.models import INPUTS, SET, A, B, Capture, Names, book, cell, facts, score
from tests.cse_train.encoders import write_encoder
from tests.run_values import book_run


def test_the_best_cell_has_the_runs_and_the_word_of_its_own_name(capsys: Capture, two: Names) -> None:
    by_cell = facts(capsys, "gate", A, "--against", B)
    by_pick = facts(capsys, "gate", "E7:best", "--against", B)
    assert by_pick["asked"]["again"], "the same question"
    assert by_pick["columns"] == by_cell["columns"] and by_pick["candidate"]["name"] == "E7:best"
    assert by_pick["candidate"]["label"] == "E7:method.dup_rate=0.24"
    compared = facts(capsys, "compare", B, "E7:best", "--column", "sts_dev")
    assert compared["B"]["label"] == "E7:method.dup_rate=0.24" and compared["columns"][0]["word"] == "worse"


def test_the_best_cell_follows_the_rule_of_best(capsys: Capture, two: Names, ledger: Ledger) -> None:
    for seed, name in enumerate(book(ledger, 0.32, [90.0, 91.0, 92.0])):
        ledger.link("E7", [(name, cell(0.32).key, seed)])
    assert facts(capsys, "best", "E7")["pick"]["cell"] == {"method.dup_rate": 0.32}
    made = facts(capsys, "gate", "E7:best", "--against", B)
    assert made["candidate"]["label"] == "E7:method.dup_rate=0.32"
    assert (made["picked_of"]["rivals"]["cells"], made["picked_of"]["rivals"]["others"]) == ([], 2)
    assert "cannot be told from it: 0 of 2 other cells; at a" in printed(capsys, "gate", "E7:best", "--against", B)
    assert "rivals" not in facts(capsys, "gate", "E7:dup_rate=0.32", "--against", B)["picked_of"]


def test_a_pick_that_is_not_there_is_one_line(capsys: Capture, ledger: Ledger) -> None:
    line = refused(capsys, "gate", "E7:best", "--against", B)
    assert line == "cse: nothing finished: sweep=E7 has no done run; let cse run go on"
    line = refused(capsys, "gate", "E2:best", "--against", B)
    assert line == "cse: nothing finished: model=E2:best has no sweep in this ledger; cse run E2 starts one"
    ledger.record_sweep("E7@tiny", SweepSpec({**ledger.sweep_spec("E7").stored, "profile": "tiny"}))
    book(ledger, 0.24, [60.0])
    line = refused(capsys, "gate", "e7:best", "--against", B)
    assert line == "cse: several sweeps: model=e7:best may be of E7, E7@tiny; give one of them"


def test_export_eval_and_embed_take_the_best_cell_as_they_take_the_sweep(
    capsys: Capture, two: Names, tmp_path: Path
) -> None:
    for words in (("export", "NAME", "--to", "out"), ("eval", "NAME"), ("embed", "NAME", "no.txt", "--to", "o.npy")):
        lines = [refused(capsys, *(name if word == "NAME" else word for word in words)) for name in ("E7", "E7:best")]
        assert lines[0] == lines[1] and "no such run" not in lines[0], words


@pytest.mark.parametrize("length", [32, 512])
def test_the_untrained_encoder_of_runs_of_any_length(
    capsys: Capture, ledger: Ledger, tmp_path: Path, length: int
) -> None:
    """Training keeps as many tokens as the encoder has positions, 128 here, where `train.dev_max_length` says more."""
    short = write_encoder(tmp_path / "short", "bert", max_position_embeddings=128)
    identity, names = {name: value for name, value in INPUTS.items() if name != "encoder"}, []
    for seed in range(3):
        config = {**cell(0.24).run(seed).flat(), "train.encoder": str(short), "train.dev_max_length": length}
        names.append(f"{seed}" * 24)
        book_run(ledger, names[-1], config, seed=seed, identity=identity, best=60.0 + seed)
    score(ledger, names, 0.3, max_length=length)
    said = facts(capsys, "compare", ",".join(names), "untrained")
    model = open_model(short, pooler="cls_no_mlp", max_length=min(length, 128))
    (theirs,) = evaluate(model, DataPaths(), [SET], {})
    assert [column["B"]["mean"] for column in said["columns"]] == [pytest.approx(theirs.value, abs=1e-9)]
    assert not any("max_length" in note for note in said["notes"])
    line = refused(capsys, "compare", ",".join(names), str(short), "--pooler", "mean", "--max-length", "600")
    assert line == f"cse: wrong length: max_length=600 of {short}; give 1 to 128"
