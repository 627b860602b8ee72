"""Finished runs that came without files and lack a table's scores are counted, with the command that helps."""

from pathlib import Path

import pytest

from cse.cli.app import main
from tests.sides import needs

pytestmark = needs("importers", "bundles")
BUNDLE = Path(__file__).resolve().parents[3] / "docs" / "results" / "bundles" / "words_tiny.jsonl.gz"
SPACE = """version: 1
id: again
method: esimcse
profile: tiny
seeds: 5
evaluate: [SUITE]
space:
  method.dup_rate: {grid: [0.32]}
"""
TOLD = "5 runs without a score came without files; cse run {space} --retrain-missing, with the same settings and data, "


@pytest.mark.parametrize(("suite", "lines"), [("repetition", 1), ("sts_dev", 0)])
@pytest.mark.parametrize("command", ["table", "reproduce"])
def test_the_page_says_what_trains_them_again(
    command: str, suite: str, lines: int, somewhere: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(BUNDLE)]) == 0
    Path("again.yaml").write_text(SPACE.replace("SUITE", suite), encoding="utf8")
    capsys.readouterr()
    assert main([command, "again.yaml", "--data", str(data_dir)]) == 0
    assert capsys.readouterr().out.count(TOLD.format(space=Path("again.yaml").resolve())) == lines
