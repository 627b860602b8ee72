"""Bundles in docs/results/bundles: each imports, and each page of docs/results that imports one is made again from it.

Such a page shows its commands in a code block, `cse import docs/results/bundles/NAME.jsonl.gz` first. They run here as
they stand, in a folder of their own. Every line of a table that one prints stands in the page, in this order; files
that `--out` names are equal byte for byte.
"""

import contextlib
import gzip
import io
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from analysis.bundles import Bundle
from analysis.ledger import Ledger
from analysis.ledger.exchange.columns import RECORD_KINDS
from analysis.ledger.exchange.merge import RecordSource, merge
from cse.bundles.contents import gather, write
from cse.cli.app import main
from cse.experiments import run as experiments_run
from docs.results_pages import IMPORT, blocks

REPO = Path(__file__).resolve().parents[2]
RESULTS = Path("docs/results")
OLD = REPO / "tests" / "ledger_0_1_0"
BUNDLES = [
    pytest.param(file, id=file.name, marks=pytest.mark.slow if file.stat().st_size > 1_000_000 else ())
    for file in sorted((REPO / RESULTS / "bundles").rglob("*.jsonl.gz"))
]


def pages(root: Path) -> list[Path]:
    return [page for page in sorted((root / RESULTS).rglob("*.md")) if [*blocks(page.read_text(encoding="utf8"))]]


def weigh(page: Path) -> int:
    """Bytes of the bundles that a page names."""
    return sum(
        (REPO / name).stat().st_size
        for name in set(re.findall(r"docs/results/bundles/[\w/]+\.jsonl\.gz", page.read_text(encoding="utf8")))
    )


PAGES = [
    pytest.param(page, id=page.name, marks=pytest.mark.slow if weigh(page) > 3_000_000 else ()) for page in pages(REPO)
]


def differences(page: Path, root: Path) -> list[str]:
    """What a page says otherwise than its commands; they run in the working folder."""
    text = page.read_text(encoding="utf8")
    return [line for block in blocks(text) for command in block for line in _differences(command, text, root)]


def _differences(command: str, page: str, root: Path) -> list[str]:
    words = shlex.split(command)[1:]
    folder = words[words.index("--out") + 1] if "--out" in words else None
    if folder is not None:
        words[words.index("--out") + 1] = "out"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(words)
    if code:
        return [f"{command}: exit code {code}"]
    if folder is not None:
        made = sorted(Path("out").iterdir())
        return [f"{command}: {path.name}" for path in made if not _is_same(path, root / folder / path.name)]
    rest = iter(page.splitlines())
    tables = (line for line in printed.getvalue().splitlines() if line.startswith("|"))
    return [f"{command}: {line}" for line in tables if line not in rest]


def _is_same(made: Path, shown: Path) -> bool:
    """Whether two files are equal; numbers of JSON up to the last bits, in which processors differ."""
    texts = [path.read_text(encoding="utf8") for path in (made, shown)]
    if texts[0] == texts[1] or made.suffix != ".json":
        return texts[0] == texts[1]
    plain = [re.sub(NUMBER, "0", text) for text in texts]
    numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in texts]
    return plain[0] == plain[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-12, abs=1e-15)


NUMBER = r"-?\d+\.\d+(?:e[-+]\d+)?"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which documentation and data are reached as from the repository; nothing is trained there."""

    def trained(*given: object) -> None:
        raise AssertionError("a bundle lacks runs of its page")

    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "docs").symlink_to(REPO / "docs")
    (tmp_path / "shared").symlink_to(REPO.parent / "shared")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CSE_DATA", raising=False)
    monkeypatch.setattr(experiments_run, "run_grid", trained)
    return folder


def test_the_page_of_the_format_has_every_column() -> None:
    shapes = {(kind, ""): shape for kind, shape in RECORD_KINDS.items()}
    shapes |= {(kind, name): part for kind, shape in RECORD_KINDS.items() for name, part in shape.parts.items()}
    text = (REPO / "docs" / "bundles.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| (\w+) \| (\w*) ?\| (\S.*\w\**) \|$", text, re.MULTILINE)
    written = {(kind, part): columns.split() for kind, part, columns in rows if kind in RECORD_KINDS}
    assert written == {
        place: [f"**{name}**" if name in shape.key else name for name in shape.names] for place, shape in shapes.items()
    }


@pytest.mark.parametrize("file", BUNDLES)
def test_every_bundle_imports_and_comes_out_the_same(file: Path, tmp_path: Path) -> None:
    bundle, ledger = Bundle(file), Ledger.open(tmp_path / "ledger.db")
    merged = merge(ledger, bundle.records(), RecordSource(file.name, bundle.header.sha256))
    assert (merged.added, merged.sweeps) == (bundle.header.counts["run"], bundle.header.counts.get("sweep", 0))
    write(tmp_path / "again.jsonl.gz", gather(ledger))
    assert Bundle(tmp_path / "again.jsonl.gz").header == bundle.header


def find_conflicts(files: Iterable[Path]) -> list[str]:
    """Runs with another result in an earlier file: one ledger, so the site of all, takes one result of a run."""
    bests: dict[str, tuple[float, str]] = {}
    conflicts = []
    for file in files:
        for record in Bundle(file).records():
            if record["kind"] == "run" and record["best"] is not None:
                best, earlier = bests.setdefault(record["signature"], (record["best"], file.name))
                conflicts += [f"{record['signature']}: {earlier}, {file.name}"] if best != record["best"] else []
    return conflicts


def test_the_bundles_of_the_site_go_into_one_ledger() -> None:
    bundles = REPO / RESULTS / "bundles"
    shown = sorted(bundles.glob("*.jsonl.gz"))
    assert len(shown) >= 5 and find_conflicts(shown) == []
    assert find_conflicts([*shown, bundles / "apart" / "card.jsonl.gz"]), "that one is apart for this"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_that_names_a_bundle_is_made_again_from_it(page: Path, checkout: Path) -> None:
    if "--data ../shared/data" in page.read_text(encoding="utf8") and not Path("../shared/data").exists():
        pytest.skip("no real data beside the repository")
    assert differences(page, REPO) == []


def test_a_page_with_one_wrong_digit_is_refused(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout / "planted"
    (root / RESULTS / "bundles").mkdir(parents=True)
    (checkout / "docs").unlink()
    (checkout / "docs").symlink_to(root / "docs")
    (checkout / "old").mkdir()
    (checkout / "old" / "ledger.db").write_bytes(gzip.decompress((OLD / "demo.db.gz").read_bytes()))
    shutil.copy(OLD / "demo_baselines.json", checkout / "old" / "baselines.json")
    assert main(["bundle", "demo", "--to", f"{RESULTS}/bundles/demo.jsonl.gz", "--ledger", "old/ledger.db"]) == 0
    commands = [f"{IMPORT}demo.jsonl.gz", "cse table demo"]
    table = (OLD / "demo.md").read_text(encoding="utf8")
    page = root / RESULTS / "demo.md"
    for layout in ("    {}\n    {}\n", "```\n{}\n{}\n```\n"):
        page.write_text(f"# Demo\n\n{layout.format(*commands)}\n{table}", encoding="utf8")
        assert pages(root) == [page] and list(blocks(page.read_text(encoding="utf8"))) == [commands]
        assert differences(page, root) == []
    row = next(line for line in table.splitlines() if "±" in line)
    digit = row.index("±") - 2
    wrong = row[:digit] + str((int(row[digit]) + 1) % 10) + row[digit + 1 :]
    page.write_text(page.read_text(encoding="utf8").replace(row, wrong), encoding="utf8")
    told = differences(page, root)
    assert told and told[0] == f"cse table demo: {row}"
    page.write_text(page.read_text(encoding="utf8").replace("cse table demo", "cse table dem"), encoding="utf8")
    assert differences(page, root) == ["cse table dem: exit code 2"]
