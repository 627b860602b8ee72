"""The samplers: one module each, under the names that a space file may give."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args, get_type_hints

from cluster.search import samplers
from search_spaces.space import SearchConfig

LAST = """
from cluster.search.samplers import Sampler


class LastSampler(Sampler):
    def __init__(self, resolved):
        self.left = resolved.cells()

    def suggest(self):
        return self.left.pop() if self.left else None


def make(resolved, settings, rng):
    return LastSampler(resolved)
"""


SPACE = """
version: 1
id: mine
title: The last cell first
method: simcse
search: {sampler: last, num_samples: 2}
space: {method.temperature: {choice: [0.05, 0.1]}}
"""
SUGGESTED = """
from pathlib import Path
import numpy as np
from cluster.search.samplers import make_sampler
from search_spaces.cells import resolve
from search_spaces.parse import parse_file

resolved = resolve(parse_file(Path("mine.yaml")))
sampler = make_sampler(resolved, resolved.space.search, np.random.default_rng(0))
print([sampler.suggest().key, sampler.suggest().key, sampler.suggest()])
"""


def test_a_space_file_may_name_every_sampler_and_no_other() -> None:
    assert set(get_args(get_type_hints(SearchConfig)["sampler"])) == samplers.names() == {"gp", "grid", "random", "tpe"}


def test_a_new_sampler_is_one_module(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("cluster", "search_spaces")
    (copy / "cluster" / "search" / "samplers" / "last.py").write_text(LAST, encoding="utf8")
    (copy / "mine.yaml").write_text(SPACE, encoding="utf8")
    assert called(copy, "plan", "mine.yaml").startswith("2 cells x ")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-c", SUGGESTED], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "[{'method.temperature': 0.1}, {'method.temperature': 0.05}, None]", done.stderr
