"""Thousands of damaged files at every boundary: each is refused in clean lines, or read as if nothing had happened.

`make test` tries some 900, `make test-slow` some 18,000.
"""

import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from cse.cli.exit import MISTAKE, verdict
from cse.cli.printing import problem_lines
from tests.damage.boundaries import Boundary, all_boundaries
from tests.damage.damages import Damaged

NAMES = (
    *("text.txt", "pairs.csv", "texts.jsonl", "text.txt.gz", "pairs.csv.gz", "texts.jsonl.gz", "words.vec"),
    *("space.yaml", "settings", "best", "best's header", "state"),
    *("config.json", "config.json's bytes", "tokenizer_config.json", "tokenizer.json", "weights"),
    *("ledger's file", "ledger's rows"),
    *("bundle", "bundle, unpacked", "bundle's header", "bundle's records", "bundle, deep", "bundle, bombs"),
    "ratings",
    *("set.tsv", "set.jsonl", "set.parquet", "queries.csv", "labels.csv"),
    *("saved .json, state", "saved .json, datas", "saved .arrow, data-", "a file's mapping"),
    *("runs.json", "runs.csv", "study.db", "study.log"),
)
FEW, MANY = 25, 500
"""Damages of each boundary."""
SECONDS = 5.0
"""Of this process for one damaged file, at most: more is a file that hangs."""
BYTES = 10**9
"""By which this process may grow over all damages of a boundary."""


@pytest.fixture(scope="module")
def boundaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Boundary]:
    made = all_boundaries(tmp_path_factory.mktemp("sound"))
    assert [boundary.name for boundary in made] == list(NAMES)
    return {boundary.name: boundary for boundary in made}


def holds(boundary: Boundary, damage: Any) -> None:
    """Read the damaged file in a folder of its own."""
    folder, begun = Path(tempfile.mkdtemp(prefix="damage")), time.process_time()
    try:
        boundary.read(folder, damage.made() if isinstance(damage, Damaged) else damage)
    except AssertionError:
        raise
    except Exception as error:
        code, lines = verdict(error)
        assert code == MISTAKE and lines, lines
        assert all(line.isprintable() for line in problem_lines(lines)), lines
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert time.process_time() - begun < SECONDS, "hangs"


def try_many(boundary: Boundary, count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(boundary.damages)
    def every(damage: Any) -> None:
        holds(boundary, damage)

    every()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused_in_clean_lines(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], FEW)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("ledger's rows", (("cse_scores", "cosines_file"), "\0")),
        ("ledger's rows", (("cse_sweep_runs", "cell"), True)),
        ("ledger's rows", (("cse_sweep_runs", "cell"), '{"train.learning_rate": {"": null}}')),
        ("a file's mapping", {"file": "\0", "name": "x", "columns": {"rating": "score"}, "kind": "ratings"}),
    ],
)
def test_what_once_was_an_internal_error(boundaries: dict[str, Boundary], name: str, damage: Any, capsys) -> None:
    holds(boundaries[name], damage)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_damaged_files(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], MANY)
