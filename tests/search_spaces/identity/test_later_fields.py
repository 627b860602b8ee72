"""A field that comes after a release, at its default, leaves every signature as it was."""

import dataclasses
import gzip
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cse.cli.app import main
from cse_train import config, methods
from cse_train.config import complete, effective, parse_run
from cse_train.fields import Added
from cse_train.plugins import config as plugin_config
from cse_train.plugins.config import read_first
from search_spaces.catalog import catalog, find_folder, load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.signature import describe_signature, signature

INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}
TABLES = [name for name, file in sorted(catalog().items()) if file.parent.name == "papers"]
PARTS = ("train", *read_first())
OLD = Path(__file__).parents[2] / "ledger_0_1_0" / "demo.db.gz"


def with_field(shape: Any, name: str, kind: type, default: object) -> Any:
    """A configuration as its class would be with one more field."""
    return dataclasses.make_dataclass(
        shape.__name__, [(name, kind, default)], bases=(shape,), frozen=True, kw_only=True
    )


@pytest.fixture
def add_fields(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives TrainConfig and the options of every method one more field each."""

    def add() -> None:
        monkeypatch.setattr(config, "TrainConfig", with_field(config.TrainConfig, "later", int, 3))
        for name in methods.list_methods():
            module = sys.modules[methods.config_class(name).__module__]
            monkeypatch.setattr(module, "Config", with_field(module.Config, "later_option", str, "plain"))

    return add


def cells(space: ResolvedSpace) -> Sequence[Cell]:
    """All cells, and of ranges without an end some that a search may draw."""
    random = np.random.default_rng(0)
    return space.cells() if space.size() is not None else [space.sample(random) for _ in range(40)]


def signatures(table: str) -> list[str]:
    spaces = (resolve(load_space(table), profile) for profile in ("small", "paper"))
    return [signature(cell.run(seed), INPUTS) for space in spaces for cell in cells(space) for seed in (0, 7)]


def test_all_signatures_of_all_tables_stay(add_fields: Callable[[], None]) -> None:
    before = {table: signatures(table) for table in TABLES}
    add_fields()
    assert {"train.later", "method.later_option"} <= parse_run({"method": "simcse"}).flat().keys()
    assert {table: signatures(table) for table in TABLES} == before
    assert len(TABLES) == len(list((find_folder() / "papers").glob("*.yaml"))) >= 45


@pytest.mark.parametrize("method", methods.list_methods())
def test_another_value_counts(add_fields: Callable[[], None], method: str) -> None:
    vectors = {"train.encoder": "glove-6b-50d"} if methods.config_class(method).WORDS else {}
    base = {"method": method, **vectors}
    before = signature(parse_run(base), INPUTS)
    add_fields()
    others = [{"train.later": 4}, {"method.later_option": "bold"}]
    assert signature(parse_run(base), INPUTS) == before
    assert len({before, *(signature(parse_run(base | other), INPUTS) for other in others)}) == 3


def test_a_default_that_changes_later_is_told_from_what_was_done_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ADDED` keeps what runs of before did, so that neither default is taken for the other."""
    before = signature(parse_run({"method": "simcse"}), INPUTS)
    monkeypatch.setattr(config, "TrainConfig", with_field(config.TrainConfig, "later", int, 9))
    monkeypatch.setitem(config.ADDED, "later", Added(3))
    run = parse_run({"method": "simcse"})
    assert describe_signature(run, INPUTS)["train"]["later"] == 9 and signature(run, INPUTS) != before
    assert signature(parse_run({"method": "simcse", "train.later": 3}), INPUTS) == before


def test_an_old_ledger_is_reused_whole(
    add_fields: Callable[[], None], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    with gzip.open(OLD) as packed, (tmp_path / "results" / "ledger.db").open("wb") as ledger:
        shutil.copyfileobj(packed, ledger)
    assert main(["table", "demo"]) == 0
    before = capsys.readouterr().out
    add_fields()
    assert main(["plan", "demo"]) == 0
    assert "12 runs, 12 unique: 12 done, 0 to run" in capsys.readouterr().out
    assert main(["table", "demo"]) == 0
    assert capsys.readouterr().out == before and "49.27 ± 1.46" in before


def test_stored_settings_of_before_and_of_today_agree(add_fields: Callable[[], None]) -> None:
    stored = parse_run({"method": "esimcse"}).flat()
    add_fields()
    today = parse_run({"method": "esimcse"}).flat()
    assert effective(today) == effective(stored) and complete(stored) == complete(today)


@pytest.mark.parametrize("part", PARTS)
def test_every_field_that_came_later_is_declared(part: str) -> None:
    """Else nothing would say what runs of before did once the default changes: add it to `ADDED` beside the fields."""
    shape = config.TrainConfig if part == "train" else methods.config_class(part)
    added = config.ADDED if part == "train" else methods.config_class(part).ADDED
    names = {field.name for field in dataclasses.fields(shape)}
    assert set(read_first()[part]) <= names, "a field that a signature holds was renamed or removed"
    assert names - set(read_first()[part]) == set(added)


def test_a_method_of_a_users_own_is_signed_by_all_its_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code's digest tells its versions apart."""
    listed = {part: names for part, names in read_first().items() if part != "simcse"}
    (tmp_path / "fields.json").write_text(json.dumps(listed), encoding="utf8")
    before = signature(parse_run({"method": "simcse"}), INPUTS)
    monkeypatch.setattr(plugin_config, "FIRST_FIELDS", tmp_path / "fields.json")
    module = sys.modules[methods.config_class("simcse").__module__]
    monkeypatch.setattr(module, "Config", with_field(module.Config, "later_option", str, "plain"))
    for cached in (plugin_config.read_first, plugin_config._find_unnamed):
        cached.cache_clear()
    assert signature(parse_run({"method": "simcse"}), INPUTS) != before
    config.note_first_fields()
    read_first.cache_clear()
    assert "later_option" in read_first()["simcse"] and read_first()["esimcse"] == listed["esimcse"]
    for cached in (plugin_config.read_first, plugin_config._find_unnamed):
        cached.cache_clear()
