"""A sweep whose ledger and Optuna mirror lie in a PostgreSQL server that the test starts."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from tests.cluster_real.postgres import PASSWORD, Postgres
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
def session() -> Iterator[Path]:
    """Where Ray is to keep its logs and sockets, whose paths must be short."""
    made = Path(tempfile.mkdtemp(prefix="cse-"))
    yield made
    shutil.rmtree(made)


def test_ledger_and_mirror_lie_in_postgresql(server: Postgres, processes: Processes, session: Path) -> None:
    import optuna

    (processes.folder / "searched.yaml").write_text(SEARCH, encoding="utf8")
    command = ("cse", "run", "searched.yaml", "--max-concurrent", "1", "--ledger", server.url)
    first = processes.run(*command, timeout=300, env={"RAY_TMPDIR": str(session)})
    assert first.returncode == 0, first.stdout + first.stderr
    assert "2 done, 0 failed" in first.stdout

    ledger = Ledger.open(server.url, create=False)
    assert [run.state for run in ledger.runs(sweep="searched")] == ["done", "done"]
    assert all(ledger.curves([run.signature]) for run in ledger.runs())
    ledger.close()
    study = optuna.load_study(study_name="searched", storage=server.url.replace("postgresql:", "postgresql+psycopg:"))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]
    assert not list(processes.folder.rglob("*.db"))

    without = server.url.replace(f":{PASSWORD}", "")  # libpq looks for it in the environment, where `ps` does not
    again = processes.run(*command[:-1], without, env={"PGPASSWORD": PASSWORD})
    assert again.returncode == 0, again.stdout + again.stderr
    assert "0 done, 0 failed" in again.stdout
    assert "dashboard" not in again.stdout + again.stderr, "no cluster is started for nothing"
    report = processes.run("cse", "report", "searched.yaml", "--out", "report", "--ledger", server.url)
    assert report.returncode == 0, report.stdout + report.stderr

    written = {folder: list(files_of(folder)) for folder in (processes.folder, session)}
    assert any(path.name == "raylet.out" for path in written[session])
    assert any(path.suffix == ".html" for path in written[processes.folder])
    for secret in (PASSWORD, processes.environment["RAY_AUTH_TOKEN"]):
        for said in (first, again, report):
            assert secret not in said.stdout + said.stderr
        told = [path for paths in written.values() for path in paths if secret.encode() in path.read_bytes()]
        assert not told, f"{secret} is in {told}"


def files_of(folder: Path) -> Iterator[Path]:
    """What was written there; the database's own files, which hold its users, left out."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and "postgres" not in path.relative_to(folder).parts[0]:
            yield path
