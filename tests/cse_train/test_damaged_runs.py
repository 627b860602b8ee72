"""A run whose files are damaged, gone or another run's is trained again by the same call, bit for bit."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from cse_train import checkpoint
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import compact_vocabulary
from cse_train.evaluate.score import score_checkpoint
from cse_train.fields import ConfigError
from cse_train.training.loop import Point, Session, train

BEST, LAST = checkpoint.BEST, checkpoint.LAST
OWN, OTHER = "a" * 24, "b" * 24
"""Signatures of two runs."""


class Trained(NamedTuple):
    """Two finished runs of two evaluations, whose best is the second or the first; they differ in their seed alone."""

    run: RunConfig
    other: RunConfig
    paths: DataPaths
    folder: Path
    others: Path


@pytest.fixture(scope="module")
def pristine(tiny_settings: Callable[..., dict], text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder, paths = tmp_path_factory.mktemp("runs"), DataPaths(train_file=text_file)
    run, other = (parse_run(tiny_settings("whitening", train_evaluations=2, train_seed=seed)) for seed in (0, 1))
    train(run, paths, folder / "run", lambda point: False, signature=OWN)
    train(other, paths, folder / "other", lambda point: False, signature=OTHER)
    return Trained(run, other, paths, folder / "run", folder / "other")


@pytest.fixture
def trained(pristine: Trained, tmp_path: Path) -> Trained:
    """The same in copies of one's own."""
    for source in (pristine.folder, pristine.others):
        shutil.copytree(source, tmp_path / source.name)
    return pristine._replace(folder=tmp_path / pristine.folder.name, others=tmp_path / pristine.others.name)


def unsigned(folder: Path) -> None:
    """Make a run's files what versions before wrote."""
    state = torch.load(folder / LAST, weights_only=True)
    torch.save({key: value for key, value in state.items() if key != "signature"}, folder / LAST)
    tensors = load_file(folder / BEST)
    with safe_open(folder / BEST, "pt") as opened:
        header = {name: opened.metadata()[name] for name in ("run", "facts")}
    save_file(tensors, folder / BEST, header | {"crc32": checkpoint.sum_of(header.values(), tensors)})


def no_best(run: Trained) -> None:
    shutil.rmtree(run.folder / "best")


def half_a_best(run: Trained) -> None:
    (run.folder / BEST).write_bytes((run.folder / BEST).read_bytes()[:3000])


def best_of_another_point(run: Trained) -> None:
    _, facts, tensors = checkpoint.read_best(run.folder)
    with safe_open(run.folder / BEST, "pt") as opened:
        header = {name: opened.metadata()[name] for name in ("run", "facts", "signature")}
    header["facts"] = header["facts"].replace(f'"examples": {facts["examples"]}', '"examples": 79')
    save_file(tensors, run.folder / BEST, header | {"crc32": checkpoint.sum_of(header.values(), tensors)})


def best_of_another_run(run: Trained) -> None:
    shutil.copy(run.others / BEST, run.folder / BEST)


def state_of_another_run(run: Trained) -> None:
    shutil.copy(run.others / LAST, run.folder / LAST)


def all_of_another_run(run: Trained) -> None:
    best_of_another_run(run)
    state_of_another_run(run)


def no_best_and_no_signature(run: Trained) -> None:
    unsigned(run.folder)
    no_best(run)


def weights_of_another_shape(run: Trained) -> None:
    unsigned(run.folder)
    state = torch.load(run.folder / LAST, weights_only=True)
    state["model"] = {name: torch.zeros(3) for name in state["model"]}
    torch.save(state, run.folder / LAST)


def moments_of_other_parameters(run: Trained) -> None:
    state = torch.load(run.folder / LAST, weights_only=True)
    state["optimiser"]["param_groups"] = state["optimiser"]["param_groups"][:1]
    torch.save(state, run.folder / LAST)


def points_of_another_kind(run: Trained) -> None:
    state = torch.load(run.folder / LAST, weights_only=True)
    state["points"] = [point | {"never": 1} for point in state["points"]]
    torch.save(state, run.folder / LAST)


def no_optimiser(run: Trained) -> None:
    state = torch.load(run.folder / LAST, weights_only=True)
    torch.save({key: value for key, value in state.items() if key != "optimiser"}, run.folder / LAST)


DAMAGES = {
    no_best: "no checkpoint: ",
    half_a_best: "corrupt checkpoint: ",
    best_of_another_point: "it is not the one that last/state.pt names",
    best_of_another_run: "it is of another run, bbbbbbbbbbbb and not aaaaaaaaaaaa",
    state_of_another_run: "it is of another run, bbbbbbbbbbbb and not aaaaaaaaaaaa",
    all_of_another_run: "it is of another run, bbbbbbbbbbbb and not aaaaaaaaaaaa",
    no_best_and_no_signature: "no checkpoint: ",
    weights_of_another_shape: "corrupt checkpoint: ",
    moments_of_other_parameters: "corrupt checkpoint: ",
    points_of_another_kind: "corrupt checkpoint: ",
    no_optimiser: "corrupt checkpoint: ",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("next_attempt", [False, True], ids=["there", "from there"])
def test_a_damaged_run_is_told_and_trained_again_bit_for_bit(
    trained: Trained, pristine: Trained, damage: Callable, next_attempt: bool, caplog, tmp_path: Path
) -> None:
    damage(trained)
    folder = tmp_path / "attempt-2" if next_attempt else trained.folder
    seen: list[Point] = []
    resume_from = trained.folder if next_attempt else None
    train(trained.run, trained.paths, folder, lambda p: bool(seen.append(p)), resume_from, signature=OWN)
    assert [point.replayed for point in seen] == [False, False]
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("cse_train")]
    assert DAMAGES[damage] in said and "\n" not in said and said.endswith("from the start")
    same_best(folder, pristine.folder)


def same_best(one: Path, other: Path) -> None:
    (run, facts, tensors), (theirs, fact, others) = (checkpoint.read_best(folder, OWN) for folder in (one, other))
    clocks = ("seconds",)
    assert run == theirs and {k: v for k, v in facts.items() if k not in clocks} == {
        k: v for k, v in fact.items() if k not in clocks
    }
    assert tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)


PLACES = {
    "a module's hook": (nn.Module, "load_state_dict"),
    "the optimiser": (torch.optim.AdamW, "load_state_dict"),
    "the moments": (compact_vocabulary, "compact_moments"),
    "the model's fit": (nn.Module, "state_dict"),
}
OURS = (IndexError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, OSError)


@pytest.mark.parametrize("error", OURS)
@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_our_own_while_a_run_resumes_is_no_damage(
    trained: Trained, place: str, error: type[Exception], caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails the run with its own line, and the files are kept as they are."""
    session = Session.open(trained.run, trained.paths, trained.folder, OWN)
    before = (trained.folder / LAST).read_bytes(), (trained.folder / BEST).read_bytes()

    def broken(*given: object, **named: object) -> None:
        raise error("indices should be on the same device")

    monkeypatch.setattr(*PLACES[place], broken)
    with pytest.raises(error, match="^.?indices should be on the same device"):
        session.resume(None)
    assert ((trained.folder / LAST).read_bytes(), (trained.folder / BEST).read_bytes()) == before
    assert not [record for record in caplog.records if record.name.startswith("cse_train")]


@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOMEM])
@pytest.mark.parametrize("reader", ["torch.load", "cse_train.checkpoint.safe_open"])
def test_a_disk_that_fails_is_no_damage(
    trained: Trained, reader: str, error: int, caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails, and another machine goes on with it; nothing says that it began again."""

    def failing(*given: object, **named: object) -> None:
        raise OSError(error, os.strerror(error), str(trained.folder))

    monkeypatch.setattr(reader, failing)
    with pytest.raises(OSError, match=os.strerror(error)):
        train(trained.run, trained.paths, trained.folder, lambda point: False, signature=OWN)
    assert not caplog.records


def test_what_versions_before_wrote_is_gone_on_from(trained: Trained) -> None:
    unsigned(trained.folder)
    seen: list[Point] = []
    train(trained.run, trained.paths, trained.folder, lambda p: bool(seen.append(p)), signature=OWN)
    assert [point.replayed for point in seen] == [True, True]
    assert checkpoint.read_best(trained.folder, OWN)[0] == trained.run


def test_a_kill_between_state_and_best_loses_neither(trained: Trained) -> None:
    """Before the state is written the old best counts, afterwards the new one."""
    waiting = trained.folder / checkpoint.WAITING
    (trained.folder / BEST).rename(waiting)
    shutil.copy(trained.others / BEST, trained.folder / BEST)
    found = checkpoint.load_newest([trained.folder], signature=OWN)
    assert found is not None and not waiting.exists()
    shutil.copy(trained.others / BEST, waiting)
    assert checkpoint.load_newest([trained.folder], signature=OWN) is not None and not waiting.exists()
    assert checkpoint.read_best(trained.folder, OWN)[0] == trained.run


def test_a_folder_that_a_person_names_is_not_taken_from_another_run(trained: Trained) -> None:
    """Without a ledger's signature: another seed and other data are both another run, and nothing is overwritten."""
    mine, other_text = trained.folder.with_name("mine"), trained.folder.with_name("text.txt")
    train(trained.run, trained.paths, mine, lambda point: False)
    before = (mine / BEST).read_bytes(), (mine / LAST).read_bytes()
    other_text.write_text(trained.paths.train_file.read_text(encoding="utf8") + "\none more\n", encoding="utf8")
    for run, paths in ((trained.other, trained.paths), (trained.run, DataPaths(train_file=other_text))):
        with pytest.raises(ConfigError, match=r"^another run: folder=.*mine has checkpoints of another"):
            train(run, paths, mine, lambda point: False)
    assert before == ((mine / BEST).read_bytes(), (mine / LAST).read_bytes())
    seen: list[Point] = []
    train(trained.run, trained.paths, mine, lambda p: bool(seen.append(p)))
    assert [point.replayed for point in seen] == [True, True]


def test_another_runs_model_is_never_scored(trained: Trained, tmp_path: Path) -> None:
    best_of_another_run(trained)
    with pytest.raises(checkpoint.CorruptCheckpoint, match=r"^corrupt checkpoint: .*of another run, bbbbbbbbbbbb"):
        score_checkpoint(trained.folder / "best", ["generated_dev:20"], DataPaths(), tmp_path / "scores", OWN)
    (scores,) = score_checkpoint(trained.folder / "best", ["generated_dev:20"], DataPaths(), tmp_path / "s", OTHER)
    assert scores.suite == "generated_dev:20"
    no_best(trained)
    with pytest.raises(checkpoint.CorruptCheckpoint, match="it is gone; train the run again"):
        score_checkpoint(trained.folder / "best", ["generated_dev:20"], DataPaths(), tmp_path / "scores", OWN)
