"""`cse doctor --repair` on runs of every kind that a ledger holds: intact ones stay, each damage is found."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.run_folder import RunFolder
from cluster.sweep import run_folders
from cluster.sweep.retention import Removable, remove
from cse.doctor import checks
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from cse_train.plugins import registry
from cse_train.results import Point
from tests.commands import printed
from tests.cse_train.training.programs import run_program
from tests.run_values import claim_run, end_run

LAYOUTS = {
    "sentence_transformers": ("model.safetensors", "config.json", "modules.json", "1_Pooling/config.json"),
    "lightning": ("model.ckpt",),
    "pytorch": ("model.pt", "config.json"),
}
"""Framework -> the files of a best model as it saves them; the repair reads none of them by its format."""
SAVES = """
import cse
if cse.report(1, score=1, fraction=1):
    for name in {names}:
        path = cse.best_folder() / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((name + {word!r}).encode() * 500)
"""
PROGRAM = "mine.py@0f1e2d"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders FRAMEWORK-a and FRAMEWORK-b of two runs of each, as the run of a program leaves them."""
    folder = tmp_path_factory.mktemp("ended")
    for framework, names in LAYOUTS.items():
        for word in "ab":
            text = SAVES.format(names=names, word=word)
            run_program(folder, text, into=f"{framework}-{word}", signature=f"{framework}-{word}")
    registry.forget()
    return folder


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    return Ledger.open("l.db")


def note(ledger: Ledger, signature: str, method: str, folder: Path | None, state: str = "done") -> None:
    """A run of the ledger that has ended so, in its folder."""
    claim = claim_run(ledger, signature, {"method": method})
    if state == "running":
        ledger.running(claim, folder)
    else:
        end_run(ledger, claim, state, examples=8, folder=folder)


def place(ended: Path, name: str, number: str = "final-1") -> Path:
    """The folder of a finished run of a program in the storage, which is the working folder."""
    folder = Path("runs", name, number).resolve()
    shutil.copytree(ended / name, folder)
    return folder


def repaired(capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    return printed(capsys, "doctor", "--repair", "--yes", "--ledger", "l.db", "--storage", ".", *more).splitlines()


def save_checkpoint(signature: str, method: str = "simcse") -> Path:
    """A finished run of a method with our loop, its best checkpoint in the folder."""
    folder = Path("runs", signature, "final-1").resolve()
    run = parse_run({"method": "simcse", "train.encoder": "words-l1-h64", "method.pooler": "mean"})
    model = load_method(run.method).build(run.options, load_backbone("words-l1-h64"))
    named = dataclasses.replace(run, method=method)
    checkpoint.save_best(folder, named, model, {"best": 1.0, "examples": 8}, signature)
    return folder


def test_no_intact_run_is_touched_of_whatever_kind(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note(ledger, "built-in", "simcse", save_checkpoint("built-in"))
    note(ledger, "plug-in", "not_here", save_checkpoint("plug-in", "not_here"))
    note(ledger, "stopped", "simcse", save_checkpoint("stopped"), "stopped")
    for framework in LAYOUTS:
        note(ledger, f"{framework}-a", PROGRAM, place(ended, f"{framework}-a"))
        note(ledger, f"{framework}-b", PROGRAM, place(ended, f"{framework}-b"), "stopped")
    running = Path("runs", "running", "attempt-1").resolve()
    shutil.copytree(ended / "pytorch-a", running)
    note(ledger, "running", PROGRAM, running, "running")
    note(ledger, "imported", "imported", None)
    note(ledger, "elsewhere", PROGRAM, Path("/another/storage/runs/elsewhere/final-1"))
    freed = Path(shutil.copytree(ended / "pytorch-a", Path("runs", "freed", "final-1").resolve()))
    note(ledger, "freed", PROGRAM, freed)
    assert remove(ledger, [Removable("freed", "best", freed / "best", 1)]) and not (freed / "best").exists()
    before = {row.signature: row.state for row in ledger.runs()}
    files = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()}

    assert repaired(capsys) == ["0 put right"]
    assert {row.signature: row.state for row in ledger.runs()} == before
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*") if path.is_file()} == files


def test_a_run_that_another_ledger_has_trained_is_taken_over_with_its_modules_and_is_intact(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = place(ended, "sentence_transformers-a")
    (theirs / "last" / "output" / "checkpoint-8").mkdir()
    mine = theirs.with_name("final-1-2")
    mine.mkdir()
    run_folders.take_over(RunFolder(theirs), RunFolder(mine))
    note(ledger, "sentence_transformers-a", PROGRAM, mine)
    assert (mine / "best" / POOLING).is_file() and (mine / "last" / "output" / "checkpoint-8").is_dir()
    assert repaired(capsys) == ["0 put right"]


def flip(path: Path, at: int = 1000) -> None:
    content = bytearray(path.read_bytes())
    content[min(at, len(content) - 1)] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


WEIGHTS, CONFIG, POOLING, MARK = "model.safetensors", "config.json", "1_Pooling/config.json", "cse_run.json"
OF_FILES: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "a flipped bit": lambda path: flip(path, 20),
    "the last bit flipped": lambda path: flip(path, 10**9),
    "another file": lambda path: path.write_bytes(b'{"signature": 3}'),
    "gone": Path.unlink,
}
DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    **{
        f"{name}: {what}": lambda run, other, name=name, do=do: do(run / "best" / name)
        for name in (WEIGHTS, CONFIG, POOLING, MARK)
        for what, do in OF_FILES.items()
    },
    "zeros": lambda run, other: (run / "best" / WEIGHTS).write_bytes(bytes((run / "best" / WEIGHTS).stat().st_size)),
    "grown": lambda run, other: (run / "best" / WEIGHTS).open("ab").write(b"x"),
    "a folder in place of a file": lambda run, other: [
        (run / "best" / CONFIG).unlink(), (run / "best" / CONFIG).mkdir(),
    ],
    "a module gone": lambda run, other: shutil.rmtree(run / "best" / "1_Pooling"),
    "renamed": lambda run, other: (run / "best" / WEIGHTS).rename(run / "best" / "weights"),
    "the model gone": lambda run, other: shutil.rmtree(run / "best"),
    "the folder gone": lambda run, other: shutil.rmtree(run),
    "the run's home gone": lambda run, other: shutil.rmtree(run.parent),
    "files of two runs swapped": lambda run, other: swap(run / "best" / WEIGHTS, other / "best" / WEIGHTS),
    "models of two runs swapped": lambda run, other: swap(run / "best", other / "best"),
    "two runs swapped": swap,
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_of_a_programs_model_is_found(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    run, other = place(ended, "sentence_transformers-a"), place(ended, "sentence_transformers-b")
    for folder in (run, other):
        note(ledger, folder.parent.name, PROGRAM, folder)
    DAMAGES[damage](run, other)
    hurt = ["sentence_transformers-a", *(["sentence_transformers-b"] if "swapped" in damage else [])]
    lines = repaired(capsys)
    assert lines[-1] == f"{len(hurt)} put right"
    assert sorted(row.signature for row in ledger.runs() if row.state == "lost") == hurt
    assert {row.signature for row in ledger.runs()} == {"sentence_transformers-a", "sentence_transformers-b"}


UNJUDGED: dict[str, Callable[[Path], object]] = {
    "saved by a version without checksums": lambda run: (run / "best_sha256.json").unlink(),
    "the checksums are damaged": lambda run: flip(run / "best_sha256.json", 60),
    "the checksums are cut": lambda run: truncate(run / "best_sha256.json"),
    "nothing of the program is left but its weights": lambda run: [
        (run / "best_sha256.json").unlink(), (run / "best" / MARK).unlink(), shutil.rmtree(run / "last"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("loss", UNJUDGED)
def test_what_cannot_be_judged_is_named_and_left_alone(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str], loss: str
) -> None:
    run = place(ended, "sentence_transformers-a")
    note(ledger, run.parent.name, PROGRAM, run)
    UNJUDGED[loss](run)
    lines = repaired(capsys)
    assert lines[0].startswith("not judged: run=sentence_transformers-a ") and lines[-1] == "0 put right; 1 left alone"
    assert [row.state for row in ledger.runs()] == ["done"]


def test_a_model_of_another_run_is_damage_without_checksums_too(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [place(ended, "pytorch-a"), place(ended, "pytorch-b")]
    for run in runs:
        (run / "best_sha256.json").unlink()
        note(ledger, run.parent.name, PROGRAM, run)
    swap(*(run / "best" for run in runs))
    assert repaired(capsys)[-1] == "2 put right"


def test_an_edited_best_is_told_by_doctor_and_becomes_the_curves_again(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for signature in ("edited", "sound"):
        claim = claim_run(ledger, signature, {})
        ledger.add_points(claim, [Point(4, 1, 1.0, {"dev": 40.0}, 40.0, 4), Point(8, 2, 2.0, {"dev": 30.0}, 40.0, 4)])
        end_run(ledger, claim, examples=8, best=40.0, best_examples=4)
    note(ledger, "no-curve", "simcse", None)
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("update cse_runs set best = 99.5 where signature = 'edited'")
    (told,) = checks.try_check("ledger", lambda: checks.check_ledger("l.db"))
    assert told.level == "stop" and "edited row: run=edited has best=99.5, and its curve 40.0" in told.line
    lines = repaired(capsys)
    assert lines[0] == "edited row: run=edited has best=99.5, which is no point of its curve; becomes 40.0"
    assert {row.signature: (row.state, row.best, row.best_examples) for row in ledger.runs()} == {
        "edited": ("done", 40.0, 4), "sound": ("done", 40.0, 4), "no-curve": ("done", 1.0, 8),
    }  # fmt: skip
    assert repaired(capsys) == ["0 put right"]
    assert [finding.level for finding in checks.try_check("ledger", lambda: checks.check_ledger("l.db"))] == ["fine"]


def test_a_storage_that_is_not_mounted_has_lost_nothing(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note(ledger, "pytorch-a", PROGRAM, place(ended, "pytorch-a"))
    note(ledger, "built-in", "simcse", Path("runs", "built-in", "final-1").resolve())
    Path("runs").rename("away")
    lines = repaired(capsys)
    assert "is not here, and 2 runs have their files in it" in lines[0] and lines[-1] == "0 put right; 1 left alone"
    assert {row.state for row in ledger.runs()} == {"done"}


def test_a_damaged_model_of_a_stopped_run_is_named_and_its_score_stays(
    ledger: Ledger, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = place(ended, "pytorch-a")
    note(ledger, "pytorch-a", PROGRAM, run, "stopped")
    flip(run / "best" / "model.pt")
    assert repaired(capsys)[-1] == "0 put right; 1 left alone"
    assert [row.state for row in ledger.runs()] == ["stopped"]
