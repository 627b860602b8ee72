"""State that differs between ranks is of the same step as the joined state, whenever a kill comes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(540)]

PROGRAM = Path(__file__).parent / "programs" / "killed_ranks.py"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, tiny_settings: Callable[..., dict], text_file: Path) -> Path:
    """`whole` ran through, and `behind` with its files written behind it.

    `killed` and `torn` died between the files of step 10, `torn` lost a file of step 5 too.
    """
    folder = tmp_path_factory.mktemp("ranks")
    settings = tiny_settings("esimcse", train_evaluations=4) | {"method.queue_scope": "local"}
    command = [sys.executable, str(PROGRAM), json.dumps(settings), str(text_file), str(folder)]
    subprocess.run(command, check=True, timeout=500)
    return folder


def ends(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the last checkpoint, file by file."""
    names = ("state.pt", "rank0-20.pt", "rank1-20.pt")
    loaded = {name: torch.load(folder / "last" / name, weights_only=True) for name in names}
    joined = loaded.pop("state.pt")["model"]
    own = {f"{file} {key}": value for file, state in loaded.items() for key, value in state.items()}
    return own | {key: value for key, value in joined.items() if not key.startswith("queue.")}


@pytest.mark.parametrize("name", ["killed", "torn", "behind"])
def test_a_killed_run_ends_as_the_undisturbed_one(work: Path, name: str) -> None:
    ours, wanted = ends(work / name), ends(work / "whole")
    assert [key for key, value in wanted.items() if not torch.equal(ours[key], value)] == []


def test_the_ranks_own_state_does_differ(work: Path) -> None:
    """Else the tests here would show nothing."""
    last = work / "whole" / "last"
    one, other = (torch.load(last / f"rank{n}-20.pt", weights_only=True) for n in range(2))
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_ranks_agree_where_one_cannot_read_its_own(work: Path) -> None:
    told = {
        name: [json.loads((work / name / f"told{n}.json").read_text()) for n in range(2)] for name in ("killed", "torn")
    }
    assert told == {"killed": [[True, False, False, False]] * 2, "torn": [[False] * 4] * 2}


@pytest.mark.parametrize("name", ["killed", "behind"])
def test_files_of_older_steps_are_gone(work: Path, name: str) -> None:
    assert sorted(os.listdir(work / name / "last")) == ["rank0-20.pt", "rank1-20.pt", "state.pt"]
