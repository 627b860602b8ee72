"""A plug-in in the form of 0.1 runs as it did: the page's method of then and of today are one, to the bit."""

import pickle
import re
from functools import partial
from pathlib import Path

import pytest
import torch

from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.methods.base import load_method
from cse_train.plugins import registry
from cse_train.training import contract
from cse_train.training.contract import CONTRACT_SETTINGS, make_up_text
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.signature import describe_signature, signature

PAGE = Path(__file__).resolve().parents[3] / "docs" / "your_method.md"
BEFORE = Path(__file__).with_name("tension_0_1.txt").read_text(encoding="utf8")
"""docs/your_method.md's method as 0.1 had it."""


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """The methods `tension` and `tension_today`."""
    (tmp_path / "tension.py").write_text(BEFORE, encoding="utf8")
    (today,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "tension_today.py").write_text(today, encoding="utf8")
    registry.use([tmp_path])
    return tmp_path


def test_its_runs_keep_the_signatures_that_they_had(both: Path) -> None:
    """Of 8f12e5f: nothing that is finished is trained again."""
    run = parse_run({"method": "tension", "method.negatives": 7})
    assert own_digest("tension") == "c4940b066fec51a9"
    assert signature(run, {"code": "c4940b066fec51a9"}) == "76d7968028350215248c0a75"
    assert describe_signature(run, {})["options"] == {"negatives": 7} and describe_signature(run, {})["version"] == 1


def test_it_computes_what_todays_form_computes(both: Path) -> None:
    paths = DataPaths(train_file=make_up_text(("text",), both / "made"), cache=both / "cache")
    losses, states = [], []
    for name in ("tension", "tension_today"):
        parts = contract.parts(parse_run({**CONTRACT_SETTINGS, "method": name}), paths)
        losses.append([parts.step(index) for index in range(3)])
        states.append(parts.model.kept_state())
        assert parts.model.TRAINING_ONLY == load_method(name).TRAINING_ONLY == ("first_encoder.",)
        assert parts.model.embedding_parts().pooler is parts.model.pooler
        contract.saved(partial(contract.parts, parts.run, paths), both / name)
    assert losses[0] == losses[1] and states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_its_options_travel_to_another_process(both: Path) -> None:
    options = parse_run({"method": "tension", "method.negatives": 7}).options
    assert pickle.loads(pickle.dumps(options)) == options and type(options) is methods.config_class("tension")


def test_hooks_beside_its_build_are_asked_as_before(tmp_path: Path) -> None:
    hooks = """
def columns(config):
    return ("sent0",) * config.negatives

def inputs(config):
    return {"words": f"{config.negatives}"}

def version(config):
    return 4

LIKE = "simcse"
"""
    (tmp_path / "tension.py").write_text(BEFORE + hooks, encoding="utf8")
    registry.use([tmp_path])
    options = parse_run({"method": "tension", "method.negatives": 2}).options
    assert (options.inputs(), options.version(), options.LIKE, options.WORDS) == ({"words": "2"}, 4, "simcse", False)
    method = load_method("tension")
    assert method.columns(options) == ("sent0", "sent0") and method.lower_case(options) is False
