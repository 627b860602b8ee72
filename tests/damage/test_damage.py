"""Thousands of damaged files at every boundary: each is refused in clean lines, or read as if nothing had happened.

`make test` tries some 900, `make test-slow` some 18,000, with those of bundles and imports, whose tests lie with them.
"""

from typing import Any

import pytest

from tests.damage.boundaries import Boundary, all_boundaries
from tests.damage.tries import FEW, MANY, by_name, holds, try_many

NAMES = (
    *("text.txt", "pairs.csv", "texts.jsonl", "text.txt.gz", "pairs.csv.gz", "texts.jsonl.gz", "words.vec"),
    *("space.yaml", "settings", "best", "best's header", "state"),
    *("config.json", "config.json's bytes", "tokenizer_config.json", "tokenizer.json", "weights"),
    *("ledger's file", "ledger's rows"),
    "ratings",
    *("set.tsv", "set.jsonl", "set.parquet", "queries.csv", "labels.csv"),
    *("saved .json, state", "saved .json, datas", "saved .arrow, data-", "a file's mapping"),
)


@pytest.fixture(scope="module")
def boundaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Boundary]:
    return by_name(all_boundaries(tmp_path_factory.mktemp("sound")), NAMES)


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
