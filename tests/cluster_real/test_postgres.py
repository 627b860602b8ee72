"""A sweep whose ledger and Optuna mirror lie in a PostgreSQL server that the test starts."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster_real.postgres import PASSWORD, Postgres, programs
from tests.cluster_real.processes import Processes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SEARCH = """version: 1
id: searched
method: simcse
seeds: 1
set:
  train.encoder: wiki-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 128
  train.batch_size: 16
  train.evaluations: 2
space:
  method.temperature: {choice: [0.05, 0.1, 0.2]}
search: {sampler: random, num_samples: 2}
"""


@pytest.fixture
def server(processes: Processes, free_port: Callable[[], int]) -> Iterator[Postgres]:
    pytest.importorskip("psycopg", reason="pip install 'psycopg[binary]'")
    if programs() is None:
        pytest.skip("no pg_ctl: apt-get install postgresql")
    made = Postgres(processes, free_port())
    made.create()
    made.start()
    yield made
    made.stop()


def test_ledger_and_mirror_lie_in_postgresql(server: Postgres, processes: Processes) -> None:
    import optuna

    from analysis.ledger import Ledger

    (processes.folder / "searched.yaml").write_text(SEARCH, encoding="utf8")
    command = ("cse", "run", "searched.yaml", "--max-concurrent", "1", "--ledger", server.url)
    first = processes.run(*command, timeout=300)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "2 done, 0 failed" in first.stdout

    ledger = Ledger.open(server.url, create=False)
    assert [run.state for run in ledger.runs(sweep="searched")] == ["done", "done"]
    assert all(ledger.curves([run.signature]) for run in ledger.runs())
    ledger.close()
    study = optuna.load_study(study_name="searched", storage=server.url.replace("postgresql:", "postgresql+psycopg:"))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]
    assert not list(processes.folder.rglob("*.db"))

    again = processes.run(*command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "0 done, 0 failed" in again.stdout
    assert "dashboard" not in again.stdout + again.stderr, "no cluster is started for nothing"
    written = [path for path in (processes.folder / "results").rglob("*") if path.is_file()]
    for secret in (PASSWORD, processes.environment["RAY_AUTH_TOKEN"]):
        for said in (first, again):
            assert secret not in said.stdout + said.stderr
        assert not [path for path in written if secret.encode() in path.read_bytes()]
