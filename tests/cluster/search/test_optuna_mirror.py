"""The mirror for optuna-dashboard: complete, in a database of its own, and never in the way."""

import optuna
import pytest

from cluster.plan.match import observed
from cluster.search.optuna_mirror import StudyMirror, mirror_url
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.profiles import Profile

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


def test_it_shows_real_values_and_is_made_anew_at_each_start(tmp_path, resolved):
    url = f"sqlite:///{tmp_path}/mirror.db"
    for _ in range(2):
        mirror = StudyMirror(url, resolved)
        mirror.add(observed(cell_of(resolved, 1e-3), 1, "done", 80.0))
        mirror.add(observed(cell_of(resolved, 1e-4), 0, "stopped", 60.0, 32))
        mirror.add(observed(cell_of(resolved, 1e-5), 0, "failed", None))
    study = optuna.load_study(study_name="T", storage=url)
    assert [t.state.name for t in study.trials] == ["COMPLETE", "PRUNED", "FAIL"]
    expected = {"train.learning_rate": 1e-3, "method.dup_rule": "paper", "method.dup_rate": 0.3}
    assert study.best_trial.params == expected
    assert study.best_trial.user_attrs == {"seed": 1, "state": "done"}


def test_two_drivers_that_see_the_same_runs_end_add_each_once(tmp_path, resolved):
    url = f"sqlite:///{tmp_path}/mirror.db"
    first = StudyMirror(url, resolved)
    first.add(observed(cell_of(resolved, 1e-3), 0, "done", 80.0))
    second = StudyMirror(url, resolved)
    for mirror in (second, first):
        for rate in (1e-3, 0.00037, 1e-4):
            mirror.add(observed(cell_of(resolved, rate), 0, "done", 80.0))
    study = optuna.load_study(study_name="T", storage=url)
    assert sorted(t.params["train.learning_rate"] for t in study.trials) == [1e-4, 0.00037, 1e-3]


def test_a_database_that_is_away_costs_one_warning_and_is_brought_up_to_date(tmp_path, resolved, caplog, monkeypatch):
    mirror = StudyMirror(f"sqlite:///{tmp_path}/mirror.db", resolved)

    def away(trial):
        raise OSError("server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr(mirror._study, "add_trial", away)
        for rate in (1e-3, 1e-4):
            mirror.add(observed(cell_of(resolved, rate), 0, "done", 80.0))
    assert [r.message for r in caplog.records if r.name.startswith("cluster")] == [
        "mirror behind: server closed the connection; the ledger has everything"
    ]
    assert mirror._study.trials == []
    mirror.add(observed(cell_of(resolved, 1e-2), 0, "done", 80.0))
    assert [t.params["train.learning_rate"] for t in mirror._study.trials] == [1e-3, 1e-4, 1e-2]


def test_a_database_that_cannot_be_opened_is_one_line(resolved):
    with pytest.raises(ConfigError, match=r"no mirror: mirror=sqlite:////none/x\.db") as caught:
        StudyMirror("sqlite:////none/x.db", resolved)
    assert "\n" not in str(caught.value)


def test_it_lies_beside_the_ledger_or_in_its_database(tmp_path):
    assert mirror_url(str(tmp_path / "new" / "ledger.db")) == f"sqlite:///{tmp_path}/new/optuna.db"
    assert (tmp_path / "new").is_dir()
    there = "postgresql://me:secret@host:5432/cse"
    assert mirror_url(there) == there.replace("postgresql", "postgresql+psycopg", 1)


def test_a_mirror_that_cannot_be_opened_keeps_the_password(resolved):
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match="no mirror: mirror=postgresql") as refused:
        StudyMirror("postgresql+psycopg://me:secret@127.0.0.1:1/none", resolved)
    assert "secret" not in str(refused.value)
