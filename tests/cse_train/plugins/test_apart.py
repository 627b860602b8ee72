"""What a user's code leaves in a process is gone with it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from cse_train.data_paths import DataPaths
from cse_train.evaluate import run_suites
from cse_train.fields import ConfigError
from cse_train.plugins import registry
from cse_train.plugins.snapshot import call_apart

SUITE = """
import torch
import torch.nn.functional as F
from cse_train.results import Protocol, Score

NAME = "spoils"
COLUMNS = ("spoils",)
NEEDS = ()
CALLS = []


def evaluate(model, paths):
    torch.set_default_dtype(torch.float64)
    F.cross_entropy = None
    CALLS.append(1)
    protocol = Protocol(suite="spoils", pooler=model.pooler, split="test", max_length=8, data_hash="")
    return [Score(suite="spoils", metric="mean", value=float(len(CALLS)), protocol=protocol, headline=True)]
"""


@pytest.fixture(autouse=True)
def spoils(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "spoils.py").write_text(SUITE, encoding="utf8")
    registry.use([tmp_path / "spoils.py"])
    yield
    registry.forget()


def test_the_result_comes_back_and_this_process_is_as_before() -> None:
    before = F.cross_entropy
    (score,) = call_apart(run_suites.evaluate, SimpleNamespace(pooler="cls", prompt=""), DataPaths(), ["spoils"], {})
    assert score.value == 1.0
    assert F.cross_entropy is before and torch.get_default_dtype() == torch.float32


def test_a_users_mistake_comes_back_in_its_lines() -> None:
    with pytest.raises(ConfigError, match="^unknown suite: suite=spoil; did you mean spoils"):
        call_apart(run_suites.evaluate, SimpleNamespace(pooler="cls", prompt=""), DataPaths(), ["spoil"], {})


def test_without_plug_ins_it_is_a_call() -> None:
    registry.forget()
    assert call_apart(len, [1, 2]) == 2
