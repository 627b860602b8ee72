"""Scores from 0 to 1 are told with four decimals wherever they stand: two would make rows of them alike."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cse.cli.app import main
from tests.sides import needs

pytestmark = [pytest.mark.usefixtures("somewhere"), needs("importers")]

ROWS = [(model, seed, base + seed * seed / 1000) for model, base in (("a", 0.6012), ("b", 0.6023)) for seed in range(5)]
BARE = re.compile(r"(?<![\d.])0\.\d\d(?!\d)")
"""A number below 1 with two decimals."""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def said(*argv: str) -> str:
        code = main(argv)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    Path("runs.csv").write_text("model,seed,acc\n" + "".join(f"{m},{s},{v:.4f}\n" for m, s, v in ROWS), encoding="utf8")
    said("import", "csv", "runs.csv", "--as", "r", "--metric", "acc:max:0-1")
    return said


@pytest.mark.parametrize(
    "argv",
    [("table", "r"), ("best", "r"), ("explain", "r", "--cell", "model=a"), ("trials", "r"), ("ls",)],
    ids=lambda argv: argv[0],
)
def test_no_listing_cuts_them(say: Callable[..., str], argv: tuple[str, ...]) -> None:
    text = say(*argv)
    assert BARE.findall(text) == [] and ("0.60" in text or argv == ("ls",))


@needs("compare")
def test_nor_a_comparison(say: Callable[..., str]) -> None:
    assert BARE.findall(say("compare", "r:model=a", "r:model=b").replace("±0.005", "")) == []


def test_nor_a_report(say: Callable[..., str]) -> None:
    say("report", "r", "--out", "report")
    text = "".join(file.read_text(encoding="utf8") for file in sorted(Path("report").rglob("*.html")))
    assert "model=b, 0.6083 ± " in text and "from 0.6072 to 0.6083" in text, text[:3000]


@needs("site")
def test_nor_the_site(say: Callable[..., str]) -> None:
    say("site", "--ledger", "results/ledger.db", "--to", "site")
    pages = [file.read_text(encoding="utf8") for file in Path("site").rglob("*.html")]
    assert any("0.6072 ± 0.0066" in page for page in pages)
    assert [found for page in pages for found in re.findall(r"0\.\d\d ± 0\.\d\d\b", page)] == []
