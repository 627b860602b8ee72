"""The samplers: one module each, under the names that a space file may give."""

from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

from cluster.search import samplers
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.space import SearchConfig

LAST = """
from cluster.search.sampler import Sampler


class LastSampler(Sampler):
    def __init__(self, resolved):
        self.left = resolved.cells()

    def suggest(self):
        return self.left.pop() if self.left else None


def make(resolved, settings, rng):
    return LastSampler(resolved)
"""


def test_a_space_file_may_name_every_sampler_and_no_other() -> None:
    assert set(get_args(get_type_hints(SearchConfig)["sampler"])) == samplers.names()


def test_a_new_sampler_is_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "last.py").write_text(LAST, encoding="utf8")
    monkeypatch.setattr(samplers, "__path__", [*samplers.__path__, str(tmp_path)])
    resolved = resolve(load_space("recorded_grid"))
    settings = SearchConfig(sampler="last")  # type: ignore[arg-type]
    sampler = samplers.make_sampler(resolved, settings, np.random.default_rng(0))
    assert sampler.suggest() == resolved.cells()[-1]
    assert "last" in samplers.names()
