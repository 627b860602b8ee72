"""A moved folder of results is whole, and a run whose files are gone is trained again: the same bits."""

import contextlib
import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime.options import SweepOptions
from cse.cli.app import main
from cse.experiments import run as experiments_run
from cse.experiments.request import Request, work_of
from cse_train.checkpoint import BEST, LAST
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.commands import printed
from tests.run_values import book_run
from tests.sides import needs

SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:20"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  train.learning_rate: {grid: [1e-3]}
"""


@pytest.fixture
def done(tmp_path: Path) -> tuple[Request, Ledger]:
    """A space whose two runs are finished; the files of seed 1 are gone."""
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    resolved = resolve(load_space(tmp_path / "mine.yaml"))
    options = SweepOptions(storage=tmp_path)
    request = Request(
        resolved=resolved, seeds=(0, 1), paths=DataPaths(), ledger=str(tmp_path / "ledger.db"), options=options
    )
    ledger = Ledger.open(tmp_path / "ledger.db", storage=tmp_path)
    for run in work_of([request], ledger).runs:
        folder = tmp_path / "runs" / run.signature / "final"
        (folder / "best").mkdir(parents=True)
        end = {"examples": 32, "best": 50.0, "best_examples": 16, "folder": folder}
        book_run(ledger, run.signature, run.run.flat(), seed=run.seed, identity=run.identity, **end)
        if run.seed == 1:
            (folder / "best").rename(folder / "last")
    return request, ledger


def test_only_what_has_no_checkpoint_is_trained_again(done: tuple[Request, Ledger]) -> None:
    """What is left of its folder is set aside: the state in there is that of a finished run, and would end at once."""
    request, ledger = done
    (run,) = experiments_run.find_without_files(request, ledger)
    assert run.seed == 1 and experiments_run.find_without_files(request, ledger) == [run]
    work = experiments_run.reopen_runs(request, ledger, [run])
    assert [one.signature for one in work.runs] == [run.signature] and not work.nothing_left
    assert ledger.states([run.signature]) == {run.signature: "lost"}
    home = request.options.storage / "runs" / run.signature
    assert [path.name for path in home.iterdir()] == ["unbooked-1"]
    assert experiments_run.find_without_files(request, ledger) == []
    assert work_of([request], ledger).line() == "2 runs: 1 already in the ledger, 1 to run"


def test_a_run_of_edited_code_is_not_trained_again_under_the_old_name(
    done: tuple[Request, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, ledger = done
    monkeypatch.setattr("search_spaces.identity.signature.own_digest", lambda method: "b" * 16)
    monkeypatch.setattr(experiments_run, "own_digest", lambda method: "b" * 16)
    assert experiments_run.find_without_files(dataclasses.replace(request, keep=True), ledger) == []


def test_another_score_than_before_is_said(done: tuple[Request, Ledger]) -> None:
    _, ledger = done
    before = ledger.runs()
    assert experiments_run.differing(before, ledger) == []
    (line, _) = experiments_run.differing([dataclasses.replace(row, best=49.0) for row in before], ledger)
    assert "has best 50.0, it had 49.0; another machine or other versions" in line


def finished(folder: Path) -> dict[str, tuple[float | None, str, bytes]]:
    """Signature -> best score, configuration and weights of the checkpoint; its other facts hold seconds."""
    with contextlib.closing(Ledger.open(folder / "ledger.db", create=False)) as ledger:
        rows = ledger.runs(states=["done"])
    files = [Path(str(row.folder), "best", "model.safetensors").read_bytes() for row in rows]
    heads = [json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")]) for file in files]
    parts = zip(rows, files, heads, strict=True)
    return {
        row.signature: (row.best, head["__metadata__"]["run"], file[8 + int.from_bytes(file[:8], "little") :])
        for row, file, head in parts
    }


def half(run: Path, other: Path) -> None:
    file = run / BEST
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def one_bit(run: Path, other: Path) -> None:
    content = bytearray((run / BEST).read_bytes())
    content[-100] ^= 1
    (run / BEST).write_bytes(content)


def empty(run: Path, other: Path) -> None:
    (run / BEST).write_bytes(b"")


def noise(run: Path, other: Path) -> None:
    (run / BEST).write_bytes(bytes(range(256)) * 40)


def model_of_another_run(run: Path, other: Path) -> None:
    shutil.copy(other / BEST, run / BEST)


def folder_of_another_run(run: Path, other: Path) -> None:
    shutil.rmtree(run)
    shutil.copytree(other, run)


def no_folder(run: Path, other: Path) -> None:
    shutil.rmtree(run)


def no_folder_at_all(run: Path, other: Path) -> None:
    shutil.rmtree(run.parent)


def half_a_model_and_no_state(run: Path, other: Path) -> None:
    half(run, other)
    (run / LAST).unlink()


def half_a_model_and_half_a_state(run: Path, other: Path) -> None:
    half(run, other)
    (run / LAST).write_bytes((run / LAST).read_bytes()[:1000])


DAMAGES = (
    half,
    one_bit,
    empty,
    noise,
    model_of_another_run,
    folder_of_another_run,
    no_folder,
    no_folder_at_all,
    half_a_model_and_no_state,
    half_a_model_and_half_a_state,
)


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, seeds: int) -> dict[str, tuple[float | None, str, bytes]]:
    """`finished` of the space with so many seeds, trained in the folder, which is the working one from then on."""
    monkeypatch.chdir(folder)
    Path("mine.yaml").write_text(SPACE.replace("seeds: 2", f"seeds: {seeds}"), encoding="utf8")
    assert main(["run", "mine.yaml"]) == 0
    return finished(folder / "results")


@needs("doctor")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_damaged_run_is_named_and_trained_again_bit_for_bit(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cse export` refuses each with a command, `cse doctor --repair` finds each, and `cse run` trains just them."""
    before = trained(tmp_path, monkeypatch, len(DAMAGES) + 1)
    whole, *others = sorted(before)
    folders = {name: next((tmp_path / "results" / "runs" / name).glob("final*")) for name in before}
    for name, damage in zip(others, DAMAGES, strict=True):
        damage(folders[name], folders[whole])
    capsys.readouterr()
    for name in others:
        assert main(["export", name, "--to", "model"]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert "cse doctor --repair" in line or "--retrain-missing" in line, line
    said = printed(capsys, "doctor", "--repair", "--yes")
    assert all(name in said for name in others) and whole not in said
    assert f"1 already in the ledger, {len(others)} to run" in printed(capsys, "run", "mine.yaml")
    assert finished(tmp_path / "results") == before
    assert main(["doctor", "--repair"]) == 0
    assert not any(name in capsys.readouterr().out for name in others)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_results_move_and_a_lost_run_is_trained_again(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = trained(tmp_path, monkeypatch, 2)
    assert len(before) == 2

    shutil.move("results", "moved")
    where = ["--ledger", "moved/ledger.db", "--storage", "moved"]
    assert finished(tmp_path / "moved") == before
    lost = next(iter(before))
    shutil.rmtree(tmp_path / "moved" / "runs" / lost)
    assert main(["export", lost, "--to", "model", "--ledger", "moved/ledger.db"]) == 2
    said = capsys.readouterr().err
    assert f"run without files: run={lost}" in said
    assert f"cse run {tmp_path / 'mine.yaml'} --retrain-missing" in said

    assert "2/2 already in the ledger, 0 run" in printed(capsys, "run", "mine.yaml", *where)
    assert main(["run", "mine.yaml", "--retrain-missing", *where]) == 0
    said = capsys.readouterr()
    assert "finished runs without files: 1, trained again now" in said.out and "1 done, 0 failed" in said.out
    assert "not the same" not in said.err
    assert finished(tmp_path / "moved") == before
    assert "finished runs without files: 0" in printed(capsys, "run", "mine.yaml", "--retrain-missing", *where)
