"""No snippet of README and docs/ is only read by people: commands are parsed and run, spaces loaded, code executed.

Each command stands in exactly one table: it runs here, another test runs it, or a reason says why none can.
"""

import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

from cse.cli import app
from cse_train.plugins import registry
from search_spaces.catalog import load_space
from search_spaces.profiles import load_profile
from search_spaces.strict_yaml import parse_yaml
from tests.docs.snippets import PAGES, REPO, Block, blocks, commands

BUNDLES = tuple(f"docs/results/bundles/{name}.jsonl.gz" for name in ("words_tiny", "words_simcse"))
HERE = {
    "cse import docs/results/bundles/words_tiny.jsonl.gz": "0 runs imported, 91 already there",
    "cse bundle E7@tiny --to e7.jsonl.gz": "42 runs of 1 sweep",
    "cse import e7.jsonl.gz --ledger other.db": " runs imported, 0 already there",
    "cse compare E7:dup_rate=0.24 E7:dup_rate=0.08 --profile tiny": "undecided",
    "cse gate E7:dup_rate=0.24 --against E7:dup_rate=0.08 --profile tiny": "more-seeds 6: ",
    "cse plan E7 --decide --runs 20 --deviation 0.8": "10 seeds each, level 0.05: finds a true gain of 1.13",
    "cse plan S3 --profile tiny --data DIR": "8 cells x 3 seeds",
    "cse data list": "wiki1m",
    "cse plan mine.yaml --data DIR": "3 cells x 3 seeds = 9 runs",
    "cse table S3 --profile tiny": "68.60 ±",
    "cse launch slurm E7 --profile small --seeds 3 --workers 2 --dry-run": "#SBATCH",
    "cse launch ray-job E7 --profile small --seeds 3": "job submit",
    "cse launch kuberay E7 --profile small --seeds 3": "kind: RayJob",
}
"""Runs in a folder with the ledger of the shipped bundles, and prints this."""
EXTRA = {"cse launch ray-job": ["--dry-run"], "cse launch kuberay": ["--dry-run"]}
"""Beginning of a command -> what is added, so that nothing is submitted."""
CODES = {"cse gate E7:dup_rate=0.24 --against E7:dup_rate=0.08 --profile tiny": 4}
LONG = "tests/docs/test_long_snippets.py"
ELSEWHERE = {
    "cse site docs/results/bundles/*.jsonl.gz --to site": LONG,
    "cse site --ledger results/ledger.db --to site": LONG,
    "cse plan search_spaces/papers": LONG,
    "cse reproduce S3 --profile tiny --data DIR": LONG,
    "cse run mine.yaml --data DIR": LONG,
    "cse run SPACE --budget 40runs": LONG,
    "cse import optuna sqlite:///study.db --as tuned": "tests/docs/test_trackers.py",
    "cse best tuned": "tests/docs/test_trackers.py",
    "cse import optuna study.db --as tuned --rename lr=train.learning_rate": "tests/docs/test_trackers.py",
    "cse table tuned.yaml": "tests/docs/test_trackers.py",
    "docs/your_data.md": "tests/docs/test_your_data.py",
    "docs/your_method.md": "tests/docs/test_your_method.py",
    "docs/your_trainer.md": "tests/docs/test_your_trainer.py",
}
"""A command, or a page with all its commands -> the test that runs it."""
REASONS = {
    "make demo": "installs from a registry, then is `cse demo`, which tests/cse/cli/sweeps/test_demo.py runs",
    "make lint": "a check of the code itself",
    "make test": "would run this test",
    "make format": "changes the checkout",
    "make docs": "installs from a registry, then is the build of tests/docs/test_docs_site.py",
    "cse dashboard": "serves until it is ended; tests/cse/live_page/test_live_page_browser.py looks at it",
    "cse reproduce D7 D8": "42 runs, an hour and a half on two cores",
    "cse import csv": "needs tables of one's own; tests/cse/importers/test_csv.py imports such, and the public ones",
    "cse import mlflow": "needs MLflow; tests/cse/importers/test_optuna.py imports where it is installed",
    "cse import wandb": "needs W&B; tests/cse/importers/test_csv.py imports where it is installed",
    "cse confirm mine --against": "needs a search; tests/cse/compare/test_confirm.py confirms one",
    "cse gate new-0,": "needs folders of one's own; tests/cse/compare/test_folders.py judges such",
    "cse gate exported/": "needs folders of one's own; tests/cse/compare/test_folders.py judges two",
    "cse compare my_model/": "needs folders of one's own; tests/cse/compare/test_by_queries.py compares two",
    "cse compare E7:dup_rate=0.24 untrained": "needs data; tests/cse/compare/test_further_models.py compares so",
    "cse run my_space.yaml --track": "needs MLflow; tests/cse/trackers runs each tracker that is installed",
    "cse reproduce E7 --track": "needs TensorBoard and W&B; tests/cse/trackers runs each that is installed",
    "cp cluster/launch/cluster.yaml .": "the folder below has this file",
    "ray start": "starts a cluster that outlives the test; tests/cluster_real/test_ray_job.py starts one",
    "cse data get": "needs a network; tests/cse/downloads/test_data.py fetches from a publisher on this machine",
    "python -m benchmarks.": "minutes to hours of a quiet machine; tests/benchmarks covers the parts",
}
"""Beginning of a command -> why no test runs it as it stands."""


def tables(command: str, pages: set[str]) -> list[str]:
    """Where a command is listed."""
    names = ["HERE"] * (command in HERE)
    names += ["ELSEWHERE"] * (command in ELSEWHERE or any(page in ELSEWHERE for page in pages))
    return names + [start for start in REASONS if command.startswith(start)]


def test_every_command_is_run_or_has_a_reason() -> None:
    shown = commands()
    assert len(shown) > 40
    assert {
        command: tables(command, pages) for command, pages in shown.items() if len(tables(command, pages)) != 1
    } == {}
    listed = [*HERE, *(name for name in ELSEWHERE if not name.startswith("docs/"))]
    assert [command for command in listed if command not in shown] == []
    assert [start for start in REASONS if not any(command.startswith(start) for command in shown)] == []
    for name, test in ELSEWHERE.items():
        text = (REPO / test).read_text(encoding="utf8")
        assert (Path(name).name if name.startswith("docs/") else f'"{name}"') in text, f"{test} does not run {name}"


def test_every_block_is_in_a_language_that_is_read() -> None:
    count = sum(page.read_text(encoding="utf8").count("\n```") for page in PAGES) / 2
    languages = ("console", "bash", "yaml", "python", "toml", "text", "mermaid")
    fenced = [*blocks(*languages)]
    unnamed = [block for block in blocks("") if block.text not in {other.text for other in fenced}]
    plain = [block for block in unnamed if block.before.endswith("\n\n") and "\n```\n" + block.text in _text(block)]
    assert len(fenced) + len(plain) == count, "a fence in another language: read it here"


def _text(block: Block) -> str:
    return (REPO / block.page).read_text(encoding="utf8")


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("cse ")])
def test_every_command_is_parsed_by_the_command_line(command: str) -> None:
    name, *words = shlex.split(command)[1:]
    group: Any = get_command(app.app)
    with typer.Context(group) as context:
        parser = group.get_command(context, name)
    assert parser is not None, name
    with parser.make_context(name, words) as parsed:
        assert parsed.params


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("make ")])
def test_every_target_of_make_exists(command: str) -> None:
    (target,) = shlex.split(command)[1:]
    assert f"\n{target}: " in (REPO / "Makefile").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the ledger of the shipped bundles, a cluster file, the space of the page, and an empty `DIR`."""
    folder = tmp_path_factory.mktemp("lab")
    for name in ("docs", "search_spaces", "cluster"):
        (folder / name).symlink_to(REPO / name)
    (folder / "DIR").mkdir()
    shutil.copy(REPO / "cluster" / "launch" / "cluster.yaml", folder)
    shutil.copy(REPO / BUNDLES[0], folder / "e7.jsonl.gz")
    (whole, *_) = (block.text for block in blocks("yaml") if "\nid: mine\n" in block.text)
    (folder / "mine.yaml").write_text(whole, encoding="utf8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("CSE_DATA", raising=False)
        for bundle in BUNDLES:
            assert app.main(["import", bundle]) == 0
        yield folder


@pytest.mark.parametrize("command", HERE)
def test_what_reads_a_ledger_runs_as_it_stands(command: str, lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra = [word for start, words in EXTRA.items() if command.startswith(start) for word in words]
    assert app.main([*shlex.split(command)[1:], *extra]) == CODES.get(command, 0), capsys.readouterr().err
    out = capsys.readouterr().out
    assert HERE[command] in out
    shown = [block for block in blocks("", "console") if f"$ {command}\n" in block.text]
    for block in shown:
        assert block.text.partition(f"$ {command}\n")[2].strip() in out, f"{block.page} shows another output"


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.page)
def test_python_is_executed(block: Block, lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = compile(block.text, block.page, "exec")
    if block.page not in ELSEWHERE:
        names: dict[str, Any] = {}
        exec(code, names)
        assert "cse" in names


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: f"{block.page}-{block.text[:24]}".strip())
def test_yaml_is_read_as_a_command_reads_it(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.text.startswith("#"):
        assert (REPO / block.text.strip().rpartition("cse-search/")[2]).is_file()
        return
    given = parse_yaml(block.text, block.page)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yaml"
    if "title" in given and "id" not in given:
        file.write_text(block.text, encoding="utf8")
        assert load_profile(str(file)).train["train.examples"] == given["train"]["examples"]
        return
    for name in given.get("plugins", ()):
        (code,) = (other.text for other in blocks("python") if other.page == block.page)
        (tmp_path / name).write_text(code, encoding="utf8")
    program = given.get("trainer", {})
    if program:
        (tmp_path / program["script"]).touch()
    file.write_text(yaml.safe_dump(whole(given, block.before)), encoding="utf8")
    try:
        assert load_space(str(file)).id
    finally:
        registry.forget()


def whole(given: dict[str, Any], before: str) -> dict[str, Any]:
    """The snippet as a space: a whole one, some of its keys, an axis, or settings of the method that is named above."""
    if "id" in given:
        return given
    base: dict[str, Any] = {"version": 1, "id": "mine"}
    if all(key.startswith("method.") for key in given):
        return base | {
            "method": before.rstrip().rpartition("\n")[2].strip("*"),
            "cells": [{"label": "a", "set": given}],
        }
    if all("." in key for key in given):
        return base | {"method": "simcse", "space": {"method.objective": {"grid": ["pairs", "triplets"]}} | given}
    return base | {"method": "esimcse", "space": {"method.dup_rate": {"grid": [0.16, 0.32]}}} | given


def test_toml_names_the_groups_that_are_read() -> None:
    (block,) = blocks("toml")
    groups = tomllib.loads(block.text)["project"]["entry-points"]
    assert set(groups) == set(registry.ENTRY_POINTS.values())
