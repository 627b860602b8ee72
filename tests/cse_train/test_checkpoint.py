"""Checkpoints: nothing half-written, damage is one line, the best file holds what `encode` needs and no more."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from cse_train import checkpoint, files
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.methods import simcse
from cse_train.methods.base import Method
from cse_train.training.loop import train


@pytest.fixture
def trained(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path):
    """A finished ESimCSE run: (run, paths, folder)."""
    run, paths = parse_run(tiny_settings("esimcse", train_evaluations=2)), DataPaths(train_file=text_file)
    train(run, paths, tmp_path / "run", lambda point: False)
    return run, paths, tmp_path / "run"


def test_disk_full_at_the_rename_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last" / "state.pt"
    files.replace_file(path, lambda p: p.write_bytes(b"old"))

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left") as raised:
        files.replace_file(path, lambda p: p.write_bytes(b"new"))
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == ["state.pt"]


def test_a_run_goes_on_after_a_full_disk(
    trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: list[int]
) -> None:
    run, paths, folder = trained
    replace, calls = os.replace, []

    def full_at_the_third(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full_at_the_third)
        with pytest.raises(OSError, match="No space left"):
            train(run, paths, tmp_path / "full", lambda point: False, save_minutes=0)
    outcome = train(run, paths, tmp_path / "full", lambda point: False)
    assert updates == list(range(20)), "the second attempt begins at update 10"
    state, undisturbed = checkpoint.load_last(tmp_path / "full"), checkpoint.load_last(folder)
    assert state is not None and undisturbed is not None
    assert all(torch.equal(state["model"][name], value) for name, value in undisturbed["model"].items())
    assert outcome.best == undisturbed["points"][-1]["best"]


@pytest.mark.parametrize("damage", ["truncated", "noise", "pickle", "byte"])
def test_a_corrupt_last_checkpoint_is_told_and_the_run_starts_again(
    trained, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    run, paths, folder = trained
    path = folder / checkpoint.LAST
    if damage == "pickle":
        torch.save({"model": Path("/"), "step": print}, path)
    elif damage == "byte":  # in the middle stand the numbers of some tensor: torch.load takes them as they are
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        assert torch.load(path, weights_only=True)["step"] > 0
    else:
        path.write_bytes(path.read_bytes()[:2000] if damage == "truncated" else b"not a checkpoint at all")
    replayed: list[bool] = []
    train(run, paths, folder, lambda point: bool(replayed.append(point.replayed)))
    assert replayed == [False, False]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "cse_train.checkpoint"]
    assert said.startswith("corrupt checkpoint: ") and "state.pt" in said and said.endswith("or from the start")


def test_a_corrupt_last_checkpoint_gives_way_to_the_attempt_before(trained, tmp_path: Path) -> None:
    run, paths, folder = trained
    (tmp_path / "next" / "last").mkdir(parents=True)
    (tmp_path / "next" / checkpoint.LAST).write_bytes(b"half")
    replayed: list[bool] = []
    train(run, paths, tmp_path / "next", lambda point: bool(replayed.append(point.replayed)), resume_from=folder)
    assert replayed == [True, True]


def test_a_ranks_own_state_is_of_the_joined_states_step(
    tiny_settings: Callable[..., dict], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A kill between the two files of step 2 leaves those of step 1; without its own file a rank does not go on."""
    run, point = parse_run(tiny_settings("simcse")), {"examples": 8, "best": 1.0, "best_examples": 8}
    model = Method()
    model.linear = torch.nn.Linear(2, 2)
    checkpoint.save_best(tmp_path, run, model, point)
    checkpoint.save_rank(tmp_path, 1, {"queue": 1})
    checkpoint.save_last(tmp_path, {"model": {"queue": 0, "weight": 7}, "step": 1, "points": [point]})
    checkpoint.save_rank(tmp_path, 2, {"queue": 2})
    found = checkpoint.load_newest([tmp_path], split=True)
    assert found is not None and found[0]["model"] == {"queue": 1, "weight": 7}
    checkpoint.forget_rank(tmp_path, 2)
    assert checkpoint.load_newest([tmp_path], split=True) is None
    assert "rank0-1.pt" in caplog.text


def test_a_disk_that_fills_while_a_file_is_written_is_the_systems_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(value: object, file: object) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RuntimeError("[enforce fail at inline_container.cc:672]") from error

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        checkpoint.save_last(tmp_path, {})
    assert raised.value.errno == errno.ENOSPC and not os.listdir(tmp_path / "last")


@pytest.mark.parametrize("damage", ["truncated", "byte of a weight", "byte of the header"])
def test_a_corrupt_best_checkpoint_is_one_line(trained, damage: str) -> None:
    _, _, folder = trained
    path = folder / checkpoint.BEST
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        del content[3000:]
    else:  # both read well otherwise
        content[-1 if damage == "byte of a weight" else content.index(b"generated_dev:40")] ^= 1
    path.write_bytes(content)
    with pytest.raises(checkpoint.CorruptCheckpoint) as error:
        checkpoint.load_model(folder)
    assert "\n" not in str(error.value) and "model.safetensors" in str(error.value)


def test_no_checkpoint_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no checkpoint: .*; give a run's folder"):
        checkpoint.load_model(tmp_path)


def test_best_leaves_momentum_and_queue_out_and_carries_its_run(trained) -> None:
    run, _, folder = trained
    with safe_open(folder / checkpoint.BEST, "pt") as opened:
        names = list(opened.keys())
    assert not [name for name in names if name.startswith(("momentum.", "queue."))]
    loaded, facts, _ = checkpoint.read_best(folder)
    assert loaded == run and facts["best"] == facts["metrics"]["generated_dev:40"]


def test_a_checkpoint_that_is_older_than_a_setting_is_read_as_it_was_trained(
    tiny_settings: Callable[..., dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names neither optimiser nor decoder, and holds the masked-LM head, which test time does not need."""
    run = parse_run(tiny_settings("simcse", method_mlm_weight=0.1, method_mlm_decoder="tied", train_adamw="torch"))
    backbone = load_backbone(run.train.encoder)
    model = simcse.SimCSE.build(run.options, backbone)
    later = ("train.adamw", "method.mlm_decoder")
    flat = {key: value for key, value in run.flat().items() if key not in later}
    with monkeypatch.context() as before:
        before.setattr(RunConfig, "flat", lambda _: flat)
        before.setattr(simcse.SimCSE, "TRAINING_ONLY", ())
        checkpoint.save_best(tmp_path, run, model, {})
    stored, _, tensors = checkpoint.read_best(tmp_path)
    assert stored == run and any(name.startswith("head.") for name in tensors)
    _, loaded, _ = checkpoint.load_model(tmp_path)
    packed = pack_lists([[2, 5, 6, 3]])
    with torch.no_grad():
        assert torch.equal(loaded.encode(packed), model.eval().encode(packed))


def test_what_killed_writers_left_is_removed_by_the_next_one_of_their_machine(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    path, number = tmp_path / "state[1].pt", int(dead.stdout)
    mine = tmp_path / f".state[1].pt.{files.HOST}.{number}"
    kept = [tmp_path / f".state[1].pt.elsewhere.{number}", tmp_path / f".state[1].pt.{files.HOST}.{os.getppid()}"]
    kept.append(tmp_path / f".other.pt.{files.HOST}.{number}")
    for file in (mine, *kept):
        file.write_bytes(b"half")
    files.replace_file(path, lambda aside: aside.write_bytes(b"whole"))
    assert sorted(tmp_path.iterdir()) == sorted([path, *kept]) and path.read_bytes() == b"whole"
