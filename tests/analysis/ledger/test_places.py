"""A folder of results may move or be copied: the ledger finds its runs' files; old rows with whole paths too."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event

from analysis.ledger import Ledger, LostClaim, RunRow
from analysis.ledger.places import FEW_FOLDERS, Places, shorten_path
from tests.run_values import claim_run, score_of

END = {"examples": 1, "best": 1.0, "best_examples": 1, "seconds": 1.0}


def trained(ledger: Ledger, storage: Path, name: str = "abc") -> None:
    """A finished run whose files lie where a driver puts them."""
    claim = claim_run(ledger, name, {})
    attempt = storage / "runs" / name / "attempt-1"
    (attempt / "best").mkdir(parents=True)
    ledger.running(claim, attempt)
    final = attempt.rename(attempt.with_name("final"))
    ledger.finish(claim, "done", folder=final, **END)
    ledger.add_score(name, score_of("sts_dev", 1.0, {}, final / "scores" / "sts_dev.npz"))


def row_of(ledger: Path | str, storage: Path | None = None) -> RunRow:
    with contextlib.closing(Ledger.open(ledger, create=False, storage=storage)) as opened:
        (row,) = opened.runs()
    return row


def raw(file: Path) -> list[str]:
    """Every path as the database holds it."""
    queries = ("SELECT folder FROM cse_runs", "SELECT cosines_file FROM cse_scores", "SELECT folder FROM cse_history")
    with contextlib.closing(sqlite3.connect(file)) as database:
        return [path for query in queries for (path,) in database.execute(query) if path]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    with contextlib.closing(Ledger.open(folder / "ledger.db")) as ledger:
        trained(ledger, folder)
    return folder


def test_the_database_holds_paths_relative_to_the_storage(results: Path) -> None:
    final = "runs/abc/final"
    assert raw(results / "ledger.db") == [final, f"{final}/scores/sts_dev.npz", "runs/abc/attempt-1", final]
    assert row_of(results / "ledger.db").folder == str(results / "runs" / "abc" / "final")


def test_a_moved_folder_and_a_copied_one_open(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "copy")
    assert row_of(tmp_path / "copy" / "ledger.db").folder == str(tmp_path / "copy" / "runs" / "abc" / "final")
    results.rename(tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere"
    assert row_of(moved / "ledger.db").folder == str(moved / "runs" / "abc" / "final")
    with contextlib.closing(Ledger.open(moved / "ledger.db")) as ledger:
        (score,) = ledger.scores(["abc"])
        assert score.cosines_file == str(moved / "runs" / "abc" / "final" / "scores" / "sts_dev.npz")
        assert ledger.reopen(["abc"], "files gone") == 1
        claim = ledger.claim("abc", {}, method="simcse", seed=0, owner="me", identity={}, provenance={})
    assert claim is not None and claim.attempt == 2
    assert claim.previous_folders[0] == str(moved / "runs" / "abc" / "final")


def test_rows_of_0_1_0_are_found_by_the_end_of_their_path(results: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(results / "ledger.db")) as database:
        database.execute("UPDATE cse_runs SET folder = '/gone/results/runs/abc/final'")
        database.commit()
    assert row_of(results / "ledger.db").folder == str(results / "runs" / "abc" / "final")
    shutil.rmtree(results / "runs")
    assert row_of(results / "ledger.db").folder == "/gone/results/runs/abc/final"


def test_a_storage_away_from_the_ledger_is_remembered_and_may_be_named(tmp_path: Path) -> None:
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        trained(ledger, tmp_path / "disk")
    assert row_of(tmp_path / "ledger.db").folder == str(tmp_path / "disk" / "runs" / "abc" / "final")
    (tmp_path / "disk").rename(tmp_path / "other")
    gone = row_of(tmp_path / "ledger.db").folder
    assert gone == str(tmp_path / "disk" / "runs" / "abc" / "final") and not Path(gone).exists()
    named = row_of(tmp_path / "ledger.db", storage=tmp_path / "other").folder
    assert named == str(tmp_path / "other" / "runs" / "abc" / "final")


def test_a_storage_is_written_down_once_and_again_where_that_was_undone(tmp_path: Path) -> None:
    far = tmp_path / "far"
    with contextlib.closing(Ledger.open(tmp_path / "near" / "ledger.db")) as ledger:
        given = {"method": "simcse", "seed": 0, "identity": {}, "provenance": {}}
        mine = ledger.claim("abc", {}, owner="me", **given)
        assert mine is not None
        ledger.release(mine)
        ledger.claim("abc", {}, owner="other", **given)
        with pytest.raises(LostClaim):
            ledger.running(mine, far / "runs" / "abc" / "attempt-1")
        trained(ledger, far, "abd")
        assert ledger.run("abd").folder == str(far / "runs" / "abd" / "final")
        asked: list[str] = []
        event.listen(ledger._engine, "before_cursor_execute", lambda *what: asked.append(what[2]))
        trained(ledger, far, "abe")
        assert asked and not [statement for statement in asked if "cse_meta" in statement]


def test_a_path_that_is_in_no_folder_of_the_run_is_kept_whole() -> None:
    assert shorten_path("/a/cell11-seed1", "cell11-seed1") == "/a/cell11-seed1" and shorten_path(None, "x") is None
    assert Places([], None).path("/a/cell11-seed1", "cell11-seed1") == "/a/cell11-seed1"


def test_many_runs_are_looked_for_in_one_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3 * FEW_FOLDERS):
        (tmp_path / "runs" / f"run{number}").mkdir(parents=True)
    asked: list[Path] = []
    plain = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path, **more: asked.append(path) or plain(path, **more))
    places = Places([tmp_path], tmp_path)
    found = [places.path(f"runs/run{number}/final", f"run{number}") for number in range(3 * FEW_FOLDERS)]
    assert found[-1] == str(tmp_path / "runs" / f"run{3 * FEW_FOLDERS - 1}" / "final") and len(asked) == FEW_FOLDERS + 1


def test_only_finished_runs_are_opened_again(results: Path) -> None:
    with contextlib.closing(Ledger.open(results / "ledger.db")) as ledger:
        assert ledger.reopen(["abc", "unknown"], "files gone") == 1
        assert ledger.reopen(["abc"], "files gone") == 0
        assert ledger.states(["abc"]) == {"abc": "lost"}
        assert [(row.state, row.reason) for row in ledger.history("abc")][-1] == ("lost", "files gone")
        assert [score.value for score in ledger.scores(["abc"])] == [1.0]
