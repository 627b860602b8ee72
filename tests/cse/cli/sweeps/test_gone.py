"""Encoders and profiles that are shipped no more: one line where a command names one, and nothing is spent on it."""

from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.checkpoint import load_model, save_best
from cse_train.config import parse_run
from cse_train.encoder import gone
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from search_spaces.catalog import HEIRS, former, load_space, profiles
from search_spaces.cells import resolve
from search_spaces.profiles import load_former, parse_profile

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.corpus: generated, train.dev: "generated_dev:20", train.examples: 64, train.batch_size: 16}
space:
  train.encoder: {grid: [words-l1-h64, wiki-l2-h128]}
"""
SMALL = ("--set", "train.corpus=generated", "--set", "train.dev=generated_dev:20", "--set", "train.examples=64")
MLM = ("--set", "method.augmentation=mlm", "--set", "train.encoder=words-l1-h64")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)


def of_encoder(setting: str, shape: str) -> str:
    gone_name, heir = f"wiki-{shape}", f"words-{shape}"
    return f"cse: gone encoder: {setting}={gone_name} is shipped no more; give {heir}, which stands in its place"


def of_profile(setting: str, name: str, file: str = "") -> str:
    heir = name.removeprefix("wiki_")
    return f"cse: {file}gone profile: {setting}={name} is shipped no more; give {heir}, which stands in its place"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("plan", "mine.yaml"), of_encoder("train.encoder", "l2-h128")),
        (("run", "mine.yaml", "--yes"), of_encoder("train.encoder", "l2-h128")),
        (
            ("run", "demo", "--yes", "--set", "train.encoder=wiki-l4-h128"),
            of_encoder("train.encoder", "l4-h128"),
        ),
        (
            ("train", "simcse", *SMALL, "--set", "train.encoder=wiki-l1-h64"),
            of_encoder("train.encoder", "l1-h64"),
        ),
        (("train", "simcse", *SMALL, *MLM), of_encoder("method.generator", "l1-h64")),
        (("eval", "wiki-l1-h64", "--pooler", "mean"), of_encoder("model", "l1-h64")),
        (("plan", "E7", "--profile", "wiki_tiny"), of_profile("profile", "wiki_tiny")),
        (("reproduce", "S3", "--profile", "wiki_small"), of_profile("profile", "wiki_small")),
        (
            ("plan", "E7", "--profile", "mine_scale.yaml"),
            of_profile("extends", "wiki_tiny", "mine_scale.yaml: "),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_gone_is_one_line_with_what_stands_in_its_place(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], line: str
) -> None:
    """Also where another cell of the space could be trained."""
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Path("mine_scale.yaml").write_text("version: 1\nextends: wiki_tiny\n", encoding="utf8")
    assert main(argv) == 2
    assert capsys.readouterr().err.splitlines()[-1] == line
    assert [run for file in Path().rglob("ledger.db") for run in Ledger.open(file).runs()] == []


def test_each_heir_is_shipped_and_nothing_gone_is_planned() -> None:
    assert {name.replace("wiki-", "words-") for name in gone.SHAPES} <= {path.name for path in find_weights().iterdir()}
    assert set(HEIRS.values()) <= set(profiles()) and not set(HEIRS) & set(profiles())
    for name in ("S3", "D6", "demo"):
        assert "wiki-" not in str([cell.flat["train.encoder"] for cell in resolve(load_space(name)).cells()])


def test_a_recorded_profile_resolves_as_it_did() -> None:
    """wiki_tiny's 2,560 sentences and rates lie over wiki_small's, and a user's own profile over both."""
    assert set(HEIRS) < set(former())
    tiny, small = load_former("wiki_tiny"), load_former("wiki_small")
    assert [each.settings("simcse")["train.learning_rate"] for each in (small, tiny)] == [5e-4, 2e-4]
    assert [each.settings("esimcse")["train.learning_rate"] for each in (small, tiny)] == [2e-4, 2e-4]
    assert tiny.train["train.evaluations"] == 10 and tiny.train["train.encoder"] == "wiki-l2-h128"
    own = {"version": 1, "extends": "wiki_tiny", "train": {"examples": 640}}
    assert parse_profile(own, Path("own.yaml"), recorded=True).train["train.encoder"] == "wiki-l2-h128"
    with pytest.raises(ConfigError, match="gone profile: extends=wiki_tiny"):
        parse_profile(own, Path("own.yaml"))


@pytest.mark.parametrize(("name", "layers"), [("wiki-l1-h64", 1), ("wiki-l2-h128", 2), ("wiki-l4-h128", 4)])
def test_an_old_run_is_opened_with_its_own_weights(tmp_path: Path, name: str, layers: int) -> None:
    """The run has every weight; its encoder's configuration and tokenizer are made again."""
    empty = gone.write_empty(name, find_weights() / "tokenizer")
    settings: dict[str, Any] = {"method": "simcse", "train.dev": "generated_dev:20", "method.pooler": "mean"}
    run = parse_run({**settings, "train.encoder": name})
    model = load_method("simcse").build(run.options, load_backbone(str(empty)), training=False).eval()
    for number, parameter in enumerate(model.parameters()):
        parameter.data.fill_(number / 100)
    save_best(tmp_path / "run", run, model, {"best": 12.0, "best_examples": 64})
    opened = load_model(tmp_path / "run" / "best")
    assert all((a == b).all() for a, b in zip(model.parameters(), opened.method.parameters(), strict=True))
    assert (opened.method.encoder.config.num_hidden_layers, len(opened.tokenizer)) == (layers, 8192)


def test_an_old_run_is_exported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = gone.write_empty("wiki-l1-h64", find_weights() / "tokenizer")
    run = parse_run({"method": "simcse", "train.encoder": "wiki-l1-h64", "train.dev": "generated_dev:20"})
    model = load_method("simcse").build(run.options, load_backbone(str(empty)), training=False).eval()
    for parameter in model.parameters():
        parameter.data.uniform_(-0.1, 0.1)
    save_best(tmp_path / "run", run, model, {"best": 12.0, "best_examples": 64})
    assert main(["export", str(tmp_path / "run"), "--to", "model", "--format", "hf"]) == 0
    assert Path("model/model.safetensors").is_file() and "wiki-l1-h64" in Path("model/README.md").read_text("utf8")
