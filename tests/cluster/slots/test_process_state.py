import logging
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from cluster.slots.process_state import job_log, process_settings


def vandalise() -> None:
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("medium")
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = True
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)
    warnings.simplefilter("ignore")
    os.environ["LEFT_BEHIND"] = "1"
    os.chdir("/")


def state() -> list[object]:
    return [
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
        random.getstate(),
        dict(os.environ),
        Path.cwd(),
        list(warnings.filters),
    ]


@pytest.mark.parametrize("failing", [False, True])
def test_whatever_a_job_changes_is_put_back_also_when_it_fails(failing):
    before = state()
    try:
        with process_settings(threads=1, seed=3):
            vandalise()
            if failing:
                raise KeyError("x")
    except KeyError:
        assert failing
    assert state() == before


def test_a_job_starts_from_the_same_state_whatever_came_before():
    def draws() -> list[float]:
        with process_settings(threads=1, seed=3):
            assert torch.is_grad_enabled() and torch.get_num_threads() == 1
            return [torch.rand(1).item(), np.random.rand(), random.random()]

    first = draws()
    with process_settings(threads=1, seed=4):
        vandalise()
    assert draws() == first


def test_a_jobs_words_go_to_its_log_alone(tmp_path, capsys):
    handlers = list(logging.getLogger().handlers)
    path = tmp_path / "logs" / "rank0.log"
    with job_log(path):
        print("printed")
        logging.getLogger("x").info("logged")
    with job_log(path):
        print("again")
    assert capsys.readouterr().out == ""
    assert [word in path.read_text() for word in ("printed", "logged", "again")] == [True] * 3
    assert logging.getLogger().handlers == handlers


def test_a_log_has_its_beginning_and_its_newest_lines_and_no_more(tmp_path, monkeypatch):
    """A job that prints without end would fill the disk of all; what it said last is why it failed."""
    monkeypatch.setattr("cluster.slots.process_state.LOG_CHARACTERS", 10_000)
    for attempt in range(2):
        with job_log(tmp_path / "rank0.log"):
            for number in range(5_000):
                print(f"attempt {attempt} line {number}")
            print("x" * 50_000)
            print("why it failed", file=sys.stderr)
    said = (tmp_path / "rank0.log").read_text()
    assert len(said) < 11_000 and said.startswith("attempt 0 line 0\n") and said.endswith("why it failed\n")
    assert "\n... cut here: a log has 10000 characters at most ...\n" in said
