"""Whole runs on a card: killed and resumed, two ranks through gloo, and NCCL (`-m gpu`, as `test_gpu.py`)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_train.data_paths import DataPaths

PROGRAM = Path(__file__).parent / "programs" / "card_runs.py"
CARD = torch.cuda.is_available()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not CARD and "CSE_CARD_TESTS_ON_CPU" not in os.environ, reason="no CUDA device: run on a GPU machine"
    ),
]
Maker = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def make(
    tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> Callable[..., dict[str, dict[str, Any]]]:
    """Makes runs of a method by the program; gives name -> what it wrote."""

    def made(method: str, *runs: dict[str, Any], **changes: object) -> dict[str, dict[str, Any]]:
        settings = tiny_settings(method, train_evaluations=4, **changes)
        listed = json.dumps([{"settings": settings, **run} for run in runs])
        text = tiny_paths(method).train_file
        done = subprocess.run(
            [sys.executable, str(PROGRAM), listed, str(text), str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=540,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}

    return made


def differing(folder: Path, name: str, other: str) -> list[str]:
    """Tensors of the last checkpoints, weights and moments, in which two runs differ by any bit."""
    states = [torch.load(folder / run / "last" / "state.pt", weights_only=True) for run in (name, other)]
    left, right = (tensors(state["model"], state["optimiser"]["state"]) for state in states)
    assert left.keys() == right.keys() and len(left) > 10
    return [key for key, value in left.items() if not torch.equal(value, right[key])]


def tensors(model: dict, moments: dict) -> dict[str, torch.Tensor]:
    flat = {f"{number} {name}": value for number, state in moments.items() for name, value in state.items()}
    return {key: value for key, value in (model | flat).items() if isinstance(value, torch.Tensor)}


def killed_and_resumed(suffix: str, **how: object) -> list[dict[str, Any]]:
    """A run, the same killed before update 12, which is evaluated at 10, and its second attempt."""
    names = [{"name": f"whole{suffix}"}, {"name": f"killed{suffix}", "kill_at": 12}, {"name": f"killed{suffix}"}]
    return [name | how for name in names]


@pytest.mark.parametrize("method", ["simcse", "esimcse", "diffcse"])
def test_a_killed_run_ends_bit_equal_or_says_which_operation_forbids_it(
    method: str, make: Maker, tmp_path: Path
) -> None:
    """With torch's deterministic algorithms nothing may differ, unless torch has none for an operation that is used."""
    seen = make(method, *killed_and_resumed("_exact", deterministic=True))
    assert (seen["whole_exact"]["first_update"], seen["killed_exact"]["first_update"]) == (0, 10)
    parts, without = differing(tmp_path, "whole_exact", "killed_exact"), seen["whole_exact"]["without"]
    print(f"\n{method}, deterministic: {len(parts)} tensors differ; torch has no deterministic {without}", end="")
    assert not parts or without
    assert seen["killed_exact"]["losses"] == pytest.approx(seen["whole_exact"]["losses"], rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("method", ["simcse", "esimcse", "diffcse"])
def test_a_killed_run_is_as_near_as_an_undisturbed_one_is_to_itself(method: str, make: Maker, tmp_path: Path) -> None:
    """As users run it: where two undisturbed runs agree in every bit, the resumed one does too."""
    seen = make(method, *killed_and_resumed(""), {"name": "twice"})
    assert (seen["whole"]["first_update"], seen["killed"]["first_update"]) == (0, 10)
    parts, itself = (differing(tmp_path, "whole", name) for name in ("killed", "twice"))
    reason = f"two undisturbed runs differ in {len(itself)} themselves" if itself else "undisturbed runs are equal"
    print(f"\n{method}, as users run it: {len(parts)} tensors differ; {reason}", end="")
    assert not parts or itself
    assert seen["killed"]["losses"] == pytest.approx(seen["whole"]["losses"], rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("method", ["simcse", "esimcse"])
def test_two_ranks_on_one_card_train_as_one_does(method: str, make: Maker) -> None:
    """Without dropout, of which each rank draws its own; gloo, since NCCL refuses two ranks on one card."""
    seen = make(method, {"name": "one"}, {"name": "two", "ranks": 2, "backend": "gloo"}, train_dropout=0.0)
    print(f"\n{method}: {seen['one']['losses']} and with two ranks {seen['two']['losses']}", end="")
    assert seen["two"]["losses"] == pytest.approx(seen["one"]["losses"], rel=1e-2, abs=1e-4)
    assert seen["two"]["best"] == pytest.approx(seen["one"]["best"], abs=0.5)
    assert {run["device"] for run in seen.values()} == {"cuda" if CARD else "cpu"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_rank_through_nccl_trains_as_without_a_group(precision: str, make: Maker) -> None:
    """DDP's buckets and each collective, alone on the card."""
    group = {"name": "group", "backend": "nccl" if CARD else "gloo"}
    seen = make("simcse", {"name": "alone"}, group, train_dropout=0.0, train_precision=precision)
    rel, absolute = (1e-2, 1e-4) if precision == "fp32" else (5e-2, 1e-3)
    assert seen["group"]["losses"] == pytest.approx(seen["alone"]["losses"], rel=rel, abs=absolute)
