"""Commands of the pages that take long: they train, score or draw, on the shipped runs or a tiny space."""

import re
import shlex
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from tests.docs.snippets import REPO, blocks, commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BUNDLES = sorted(str(path.relative_to(REPO)) for path in REPO.glob("docs/results/bundles/*.jsonl.gz"))
SMALL = ("train.encoder=words-l1-h64", "train.examples=64", "train.evaluations=2", "train.batch_size=16")
SPACE = """\
version: 1
id: tiny
method: simcse
seeds: 1
set: {train.corpus: generated, train.dev: "generated_dev:40"}
space:
  train.learning_rate: {grid: [1e-4, 3e-4]}
search: {sampler: random}
"""


def words(command: str) -> list[str]:
    """What the page says, without `cse`; a pattern of bundles is filled in as a shell does."""
    assert command in commands()
    return [name for word in shlex.split(command)[1:] for name in (BUNDLES if "*" in word else [word])]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the ledger of the shipped bundles."""
    for name in ("docs", "search_spaces"):
        (tmp_path / name).symlink_to(REPO / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    for bundle in BUNDLES:
        assert main(["import", bundle]) == 0
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "cse site docs/results/bundles/*.jsonl.gz --to site",
        "cse site --ledger results/ledger.db --to site",
    ],
)
def test_a_site_is_written(command: str, lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(command)) == 0
    assert "of 45 tables with runs" in capsys.readouterr().out and (lab / "site" / "tables" / "E7.html").is_file()


def test_all_tables_are_planned(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("cse plan search_spaces/papers")) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^[CDELS]\d+ ", out, re.MULTILINE)) == 45
    assert re.search(r"^E7 .* 8 +24 +24 +0 +0 +24 ", out, re.MULTILINE), "no bundle has runs of small"
    assert main([*words("cse plan search_spaces/papers"), "--profile", "tiny"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^E7 .* 8 +24 +24 +24 +0 +0 ", out, re.MULTILINE), "the shipped runs are done"


def test_the_table_of_the_readme_is_made_again(lab: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "DIR").symlink_to(data_dir)
    command = "cse reproduce S3 --profile tiny --data DIR"
    assert main(words(command)) == 0
    out = " ".join(capsys.readouterr().out.split())
    of_readme = (block.text for block in blocks("") if block.page == "README.md")
    (shown,) = (text for text in of_readme if f"$ .venv/bin/{command}" in text)
    lines = [" ".join(line.split()) for line in shown.splitlines() if "…" not in line and "$" not in line]
    assert len(lines) > 6 and [line for line in lines if line not in out] == []


def test_spaces_of_the_pages_are_trained(
    ray_cluster: None, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (whole,) = (
        block.text for block in blocks("yaml") if block.page == "docs/spaces.md" and "\nid: mine\n" in block.text
    )
    (tmp_path / "mine.yaml").write_text(whole, encoding="utf8")
    (tmp_path / "SPACE").with_suffix(".yaml").write_text(SPACE, encoding="utf8")
    (tmp_path / "DIR").symlink_to(data_dir)
    place = ["--ledger", str(tmp_path / "l.db"), "--storage", str(tmp_path / "runs")]
    small = [word for setting in SMALL for word in ("--set", setting)]
    for command, runs in {"cse run mine.yaml --data DIR": 9, "cse run SPACE --budget 40runs": 2}.items():
        monkeypatch.chdir(tmp_path)
        given = ["SPACE.yaml" if word == "SPACE" else word for word in words(command)]
        assert main([*given, *small, *place]) == 0, capsys.readouterr().err
        assert f"{runs} done, 0 failed" in capsys.readouterr().out
    assert {run.state for run in Ledger.open(tmp_path / "l.db").runs()} == {"done"}
