"""A path in a space, a profile or a setting counts from where it is written, and is absolute from then on."""

import dataclasses
import json
from pathlib import Path

import pytest

from cse_train import methods
from cse_train.encoder.folders import find_weights
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.parse import parse_written
from search_spaces.profiles import load_profile

HEAD = "version: 1\nid: mine\nseeds: 1\nmethod: d2cse\n"
PLUGIN = '''
"""A method that reads a file of words."""
from dataclasses import dataclass
from pathlib import Path

from cse_train.api import Method, Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    VERSION = 1
    words: str = ""
    mode: str = "fast"

    def inputs(self):
        return {"words": Path(self.words).read_text().strip()}


class Listed(Method): ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two encoders, one of which is called as a model of the hub, and one as a shipped encoder."""
    place = tmp_path / "project"
    for name in ("enc", "models/other", "org/hub-like", "words-l2-h128"):
        (place / name).mkdir(parents=True)
    return place


def space_of(folder: Path, text: str, head: str = HEAD):
    file = folder / "space.yaml"
    file.write_text(head + text, encoding="utf8")
    return load_space(file)


def test_a_relative_path_counts_from_the_spaces_folder_wherever_the_shell_stands(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space_of(
        folder, "set: {train.encoder: enc, method.generator: ./gone}\nspace: {train.learning_rate: {grid: [1e-4]}}"
    )
    (tmp_path / "elsewhere" / "enc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    (cell,) = resolve(load_space("../project/space.yaml")).cells()
    monkeypatch.chdir(tmp_path)
    assert cell.run(0).train.encoder == str(folder / "enc")
    assert cell.run(0).options.generator == str(folder / "gone")  # written as a path, so the line on it names the place


def test_names_of_the_hub_and_of_shipped_encoders_stay_names(folder: Path) -> None:
    values = "[bert-base-uncased, org/name, words-l2-h128, glove-6b-50d, org/hub-like, ./words-l2-h128]"
    space = space_of(folder, f"space: {{train.encoder: {{grid: {values}}}}}")
    assert space.axes["train.encoder"].arguments == (
        "bert-base-uncased",
        "org/name",
        "words-l2-h128",
        "glove-6b-50d",
        str(folder / "org" / "hub-like"),
        str(folder / "words-l2-h128"),
    )


def test_a_path_is_absolute_wherever_a_setting_may_stand(folder: Path) -> None:
    text = """
space:
  train.encoder: {grid: [enc, words-l1-h64]}
  method.generator: {grid: [models/other], when: {train.encoder: [enc]}}
evaluate: [transfer_dev]
set_for: {transfer_dev: {train.encoder: models/other}}
components: {start: {train.encoder: {enc: models/other}}}
paper:
  citation: A paper
  table: Table 1
  metric: Spearman
  source: https://example.org
  columns: [sts_dev]
  rows: [{key: {train.encoder: words-l1-h64}, cells: {sts_dev: 1.0}}]
  default: {train.encoder: enc, method.generator: models/other}
  references: [{label: it, evaluated: {encoder: ./enc, pooler: mean}, cells: {sts_dev: 1.0}}]
"""
    space = space_of(folder, text)
    enc, other = str(folder / "enc"), str(folder / "models" / "other")
    assert space.axes["method.generator"].when == {"train.encoder": (enc,)}
    assert space.set_for == {"transfer_dev": {"train.encoder": other}}
    assert space.components["start"].replaced == {"train.encoder": {enc: other}}
    assert space.paper is not None and space.paper.references[0].evaluated is not None
    assert space.paper.default == {"train.encoder": enc, "method.generator": other}
    assert space.paper.references[0].evaluated.encoder == enc
    listed = "cells: [{label: a, set: {train.encoder: enc}}]"
    assert space_of(folder, listed).cells[0].settings == {"train.encoder": enc}


def test_settings_count_from_the_shells_folder_and_home_is_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(folder, "space: {train.learning_rate: {grid: [1e-4]}}")
    monkeypatch.chdir(folder / "models")
    monkeypatch.setenv("HOME", str(folder))
    given = {"train.encoder": "other", "method.generator": "~/enc"}
    assert resolve(space, None, given).overrides == {
        "train.encoder": str(folder / "models" / "other"),
        "method.generator": str(folder / "enc"),
    }
    recorded = resolve(space, None, {"train.encoder": "other"}, absolute=True)
    assert recorded.overrides == {"train.encoder": "other"}  # a ledger's name is no folder that is here by chance


def test_a_profiles_paths_count_from_the_profiles_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = folder / "mine.yaml"
    profile.write_text(
        "version: 1\ntrain: {encoder: enc}\nmethods: {d2cse: {method.generator: models/other}}\n"
        "substitutions: {train.encoder: {bert-base-uncased: ./enc}}\n"
        "recipes: [{when: {method: d2cse, train.encoder: enc}, set: {method.generator: enc}}]\n"
    )
    space = space_of(folder, "profile: mine.yaml\nspace: {train.learning_rate: {grid: [1e-4]}}")
    monkeypatch.chdir(folder / "models")
    made, enc = load_profile("../mine.yaml"), str(folder / "enc")
    assert made.train == {"train.encoder": enc}
    assert made.methods["d2cse"] == {"method.generator": str(folder / "models" / "other")}
    assert made.substitution("train.encoder", "bert-base-uncased", "d2cse") == enc
    (cell,) = resolve(space).cells()
    assert (cell.settings["train.encoder"], cell.settings["method.generator"]) == (enc, enc)


def test_an_option_of_a_plug_in_is_a_path_where_its_method_hashes_what_it_reads(folder: Path) -> None:
    (folder / "listed.py").write_text(PLUGIN)
    (folder / "words.txt").write_text("one")
    head = HEAD.replace("d2cse", "listed") + "plugins: [listed.py]\n"
    space = space_of(folder, "set: {method.words: words.txt}\nspace: {train.learning_rate: {grid: [1e-4]}}", head)
    assert space.settings == {"method.words": str(folder / "words.txt")}
    assert space.written["plugins"] == [str(folder / "listed.py")]


def test_every_option_of_ours_that_names_a_place_is_one_by_the_rule(folder: Path) -> None:
    named = {
        (method, field.name)
        for method in methods.list_methods()
        for field in dataclasses.fields(methods.config_class(method))
        if field.name in ("generator", "synonyms")
    }
    for method, name in sorted(named):
        head = HEAD.replace("d2cse", method)
        text = f"set: {{method.{name}: enc}}\nspace: {{train.learning_rate: {{grid: [1e-4]}}}}"
        assert space_of(folder, text, head).settings == {f"method.{name}": str(folder / "enc")}, method


def test_what_a_space_says_is_the_same_read_again_without_its_file(folder: Path) -> None:
    (folder / "mine.tsv").write_text("sentence1\tsentence2\trating\na b\tc d\t1\nb c\td e\t2\n")
    text = "set: {train.encoder: enc}\ndev: mine.tsv\nspace: {train.learning_rate: {grid: [1e-4, 2e-4]}}"
    space = space_of(folder, text)
    written = json.loads(json.dumps(space.written))
    space.file.unlink()
    again = parse_written(written, space.file)
    assert [cell.settings for cell in resolve(again).cells()] == [cell.settings for cell in resolve(space).cells()]
    assert again.files == space.files


def test_a_name_that_is_none_is_told_where_folders_count_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cse_train.encoder.folders import locate

    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="missing encoder: train.encoder=enc; no such shipped encoder or folder"):
        locate("enc")  # only what was made absolute is a folder: a worker's folder is another
    assert locate("words-l2-h128") == find_weights() / "words-l2-h128"
