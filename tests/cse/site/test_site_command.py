"""`cse site` as it is typed: from a bundle and from a ledger the same site, and a line for each mistake."""

import errno
import shlex
from pathlib import Path

import pytest
import yaml

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train import files
from tests.commands import printed, refused
from tests.site_ledger import noise, small, train

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with lab.db and lab.jsonl.gz."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open(tmp_path / "lab.db")
    train(ledger, small("E7"), 2, lambda run: 60 + noise(run, 1.0))
    ledger.close()
    assert main(["bundle", "E7", "--to", "lab.jsonl.gz", "--ledger", "lab.db"]) == 0
    return tmp_path


def test_a_bundle_and_its_ledger_give_the_same_tables(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "site", "lab.jsonl.gz", "--to", "site")
    assert "wrote site/index.html:" in out and "of 45 tables with runs" in out
    assert not (lab / "results").exists(), "no ledger of the user's"
    assert main(["site", "--to", "again", "--ledger", "lab.db"]) == 0
    first, again = (
        {p.name: p.read_bytes() for p in sorted((lab / name / "tables").iterdir())} for name in ("site", "again")
    )
    assert first.keys() == again.keys() and "E7-small.json" in first
    assert [name for name in first if first[name] != again[name]] == []
    assert "from lab.jsonl.gz" in (lab / "site" / "index.html").read_text(encoding="utf8")


@pytest.mark.parametrize(
    "shown", [pytest.param(name, marks=pytest.mark.slow) for name in ("words_tiny.jsonl.gz", "*.jsonl.gz")]
)
def test_the_workflow_builds_the_site_of_the_repository_s_bundles_beside_the_docs(
    shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one bundle in every run of the tests, of all of them, which takes a minute, in the slow ones."""
    workflow = yaml.safe_load((REPO / ".github" / "workflows" / "pages.yml").read_text(encoding="utf8"))
    steps = workflow["jobs"]["build"]["steps"]
    (command,) = (step["run"] for step in steps if step.get("run", "").startswith("cse "))
    words, bundles = shlex.split(command)[1:], Path("docs", "results", "bundles")
    at = words.index(str(bundles / "*.jsonl.gz"))
    words[at : at + 1] = sorted(map(str, (REPO / bundles).glob(shown)))
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    (uploaded,) = (step["with"]["path"] for step in steps if "upload-pages-artifact" in step.get("uses", ""))
    assert (tmp_path / uploaded / "tables" / "index.html").stat().st_size < 200_000
    (docs,) = (step for step in steps if step.get("run", "").startswith("mkdocs "))
    assert docs["run"].endswith(f"--strict --site-dir {uploaded}") and docs["env"]["CSE_TABLES"] == "tables/"
    assert steps.index(docs) < next(i for i, step in enumerate(steps) if step.get("run") == command), (
        "it clears its folder"
    )


def test_mistakes_are_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf8")
    assert main(["site", "no.jsonl.gz", "file", "--to", "file", "--ledger", "lab.db"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "cse: not a folder: --to=file; name a folder, new or not",
        "cse: two sources: --ledger=lab.db beside 2 bundles; give one of them",
        "cse: no such file: file=no.jsonl.gz; name a bundle (cse bundle writes one)",
    ]
    assert main(["site", "file", "--to", "site"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "cse: no bundle: file=file has no header; cse bundle writes one"
    line = refused(capsys, "site", "--to", "site")
    assert line.startswith("cse: no ledger yet: --ledger=") and line.endswith("name bundles, or another ledger")
    assert not (tmp_path / "site").exists()


def test_bundles_that_contradict_each_other_are_told_with_what_to_do(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.open(lab / "other.db")
    train(ledger, small("E7"), 2, lambda run: 50 + noise(run, 1.0))
    ledger.close()
    printed(capsys, "bundle", "E7", "--to", "other.jsonl.gz", "--ledger", "other.db")
    line = refused(capsys, "site", "lab.jsonl.gz", "other.jsonl.gz", "--to", "site")
    assert line.startswith("cse: two results: signature=") and " in another of these bundles and " in line
    assert "other.jsonl.gz" in line and line.endswith("; leave one of the two bundles out")


def test_a_full_disk_leaves_the_site_as_it_was(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab / "site").mkdir()
    (lab / "site" / "index.html").write_text("before")
    written: list[Path] = []

    def fill(path: Path, text: str) -> None:
        written.append(path)
        if len(written) == 5:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        files.replace_text(path, text)

    monkeypatch.setattr("cse.site.sharing.site.replace_text", fill)
    assert main(["site", "lab.jsonl.gz", "--to", "site"]) == 1
    assert capsys.readouterr().err.startswith(f"cse: disk full: file={written[-1]}; free some space")
    assert [(path.name, path.read_text()) for path in (lab / "site").iterdir()] == [("index.html", "before")]
