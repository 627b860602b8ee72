"""The mirror for optuna-dashboard: complete, in a database of its own, and never in the way."""

import threading
import time

import optuna
import pytest

from analysis.matching import make_observation
from analysis.run_state import RunState
from cluster.search.optuna_studies import StudyMirror, mirror_url
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.profiles import Profile
from tests.waiting import wait_for

SPACE = """
version: 1
id: T
method: esimcse
space:
  train.learning_rate: {loguniform: [1e-5, 1e-2]}
  method.dup_rule: {choice: [paper, released]}
  method.dup_rate: {grid: [0.1, 0.3]}
search: {num_samples: 5}
"""


@pytest.fixture
def resolved(tmp_path):
    (tmp_path / "t.yaml").write_text(SPACE)
    return resolve(load_space(tmp_path / "t.yaml"), Profile("p"))


def cell_of(resolved, rate):
    return resolved.cell({"train.learning_rate": rate, "method.dup_rule": "paper", "method.dup_rate": 0.3})


def study_at(url):
    return optuna.load_study(study_name="T", storage=url)


def rates(url):
    return sorted(trial.params["train.learning_rate"] for trial in study_at(url).trials)


def warned(caplog):
    return [record.message for record in caplog.records if record.name.startswith("cluster")]


def test_it_shows_real_values_and_a_new_start_adds_nothing_twice(tmp_path, resolved):
    url = f"sqlite:///{tmp_path}/new/mirror.db"
    for _ in range(2):
        with StudyMirror(url, resolved) as mirror:
            mirror.add(make_observation(cell_of(resolved, 1e-3), 1, RunState.DONE, 80.0))
            mirror.add(make_observation(cell_of(resolved, 1e-4), 0, RunState.STOPPED, 60.0, 32))
            mirror.add(make_observation(cell_of(resolved, 1e-5), 0, RunState.FAILED, None))
    study = study_at(url)
    assert [t.state.name for t in study.trials] == ["COMPLETE", "PRUNED", "FAIL"]
    expected = {"train.learning_rate": 1e-3, "method.dup_rule": "paper", "method.dup_rate": 0.3}
    assert study.best_trial.params == expected
    assert study.best_trial.user_attrs == {"seed": 1, "state": "done"}


def test_drivers_that_see_the_same_runs_end_at_once_add_each_once(tmp_path, resolved):
    url = f"sqlite:///{tmp_path}/mirror.db"
    wanted = [10 ** (-2 - number / 10) for number in range(30)]
    with StudyMirror(url, resolved) as first, StudyMirror(url, resolved) as second:
        for rate in wanted:
            for mirror in (first, second):
                mirror.add(make_observation(cell_of(resolved, rate), 0, RunState.DONE, 80.0))
    assert rates(url) == sorted(wanted)


def test_a_search_waits_for_no_row(tmp_path, resolved, monkeypatch):
    goes_on, waited = threading.Event(), list[bool]()
    opened = StudyMirror._open_study
    monkeypatch.setattr(StudyMirror, "_open_study", lambda mirror: waited.append(goes_on.wait(250)) or opened(mirror))
    url = f"sqlite:///{tmp_path}/mirror.db"
    with StudyMirror(url, resolved) as mirror:
        for number in range(200):
            mirror.add(make_observation(cell_of(resolved, 10 ** (-2 - number / 100)), 0, RunState.DONE, 80.0))
        assert waited == []
        goes_on.set()
        wait_for(lambda: not mirror._left)
    assert len(rates(url)) == 200


def test_a_database_that_is_away_costs_one_warning_and_is_brought_up_to_date(tmp_path, resolved, caplog, monkeypatch):
    monkeypatch.setattr("cluster.search.optuna_studies.MIRROR_RETRY_SECONDS", 0.05)
    (tmp_path / "here").write_text("a file where the folder is to be")
    url = f"sqlite:///{tmp_path}/here/mirror.db"
    with StudyMirror(url, resolved) as mirror:
        for rate in (1e-3, 1e-4):
            mirror.add(make_observation(cell_of(resolved, rate), 0, RunState.DONE, 80.0))
        wait_for(lambda: warned(caplog))
        time.sleep(0.3)
        (line,) = warned(caplog)
        assert line.startswith(f"mirror behind: mirror={url}; ") and line.endswith("; the ledger has everything")
        (tmp_path / "here").unlink()
        mirror.add(make_observation(cell_of(resolved, 1e-2), 0, RunState.DONE, 80.0))
        wait_for(lambda: not mirror._left)
    assert rates(url) == [1e-4, 1e-3, 1e-2]


def test_a_study_that_was_deleted_meanwhile_is_written_again(tmp_path, resolved, caplog, monkeypatch):
    monkeypatch.setattr("cluster.search.optuna_studies.MIRROR_RETRY_SECONDS", 0.05)
    url = f"sqlite:///{tmp_path}/mirror.db"
    with StudyMirror(url, resolved) as mirror:
        mirror.add(make_observation(cell_of(resolved, 1e-3), 0, RunState.DONE, 80.0))
        wait_for(lambda: not mirror._left)
        optuna.delete_study(study_name="T", storage=url)
        mirror.add(make_observation(cell_of(resolved, 1e-4), 0, RunState.DONE, 80.0))
        wait_for(lambda: not mirror._left)
    assert rates(url) == [1e-4, 1e-3]


def test_it_lies_beside_the_ledger_or_in_its_database(tmp_path):
    assert mirror_url(str(tmp_path / "new" / "ledger.db")) == f"sqlite:///{tmp_path}/new/optuna.db"
    there = "postgresql://me:secret@host:5432/cse"
    assert mirror_url(there) == there.replace("postgresql", "postgresql+psycopg", 1)


@pytest.mark.parametrize("address", ["me:secret@127.0.0.1:1/none", "127.0.0.1:1/none?user=me&password=secret"])
def test_a_mirror_that_cannot_be_opened_ends_nothing_and_keeps_the_password(resolved, caplog, address):
    pytest.importorskip("psycopg")
    with StudyMirror(f"postgresql+psycopg://{address}", resolved) as mirror:
        mirror.add(make_observation(cell_of(resolved, 1e-3), 0, RunState.DONE, 80.0))
        wait_for(lambda: warned(caplog))
    (line,) = warned(caplog)
    assert line.startswith("mirror behind: mirror=postgresql+psycopg://")
    assert "secret" not in line and "\n" not in line
