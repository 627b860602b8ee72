"""Programs of a user's own under real Ray: killed children and ranks, ASHA's stop, two ranks."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger, RunRow
from analysis.run_state import RunState
from cluster.plan.planner import plan
from cluster.runtime.options import AshaOptions, SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from search_spaces.parse import parse_file
from tests.cse_train.training.programs import CALL

PROGRAM = """
    import os

    def train(trial):
        state = trial.checkpoint_folder / "state.txt"
        done = int(state.read_text()) if trial.resume_from else 0
        for step in range(done + 1, 9):
            score = [0.1, 0.2, 0.9, 0.3, 0.4, 0.5, 0.2, 0.1][step - 1] - trial.params["rate"]
            if trial.report(step, score=score, fraction=step / 8):
                (trial.best_folder / "model.txt").write_text(str(step))
            state.write_text(str(step))
            for at, whom in DEATHS:
                mark = os.path.join(os.path.dirname(__file__), f"{whom}-{at}")
                if step == at and not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid() if whom == "child" else os.getppid(), 9)
"""
JOINS = """
    import os
    import torch.distributed as dist

    def train(trial):
        dist.init_process_group("gloo")
        trial.report(1, score=dist.get_world_size() + dist.get_rank(), fraction=1)
        dist.destroy_process_group()
"""
ALONE = "def train(trial):\n    trial.report(1, score=1, fraction=1)\n"
SPACE = """
version: 1
id: mine
trainer: {{script: mine.py, score: {{name: acc, scale: 100}}}}
seeds: 1
space: {{rate: {{grid: {rates}}}}}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def no_programs_after() -> Iterator[None]:
    yield
    registry.forget()


def sweep(folder: Path, program: str, rates: list[float], workers: int = 1, **options: object) -> list[RunRow]:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(textwrap.dedent(program) + CALL)
    (folder / "mine.yaml").write_text(SPACE.format(rates=rates))
    runs = plan([parse_file(folder / "mine.yaml")], None, None, None, DataPaths(), workers=workers).runs
    given = SweepOptions(storage=folder / "store", workers=workers, max_concurrent=1, **options)  # type: ignore[arg-type]
    run_sweep(runs, folder / "ledger.db", DataPaths(), given)
    ledger = Ledger.open(folder / "ledger.db")
    rows = {row.signature: row for row in ledger.runs()}
    ledger.close()
    return [rows[run.signature] for run in runs]


def test_a_killed_child_and_a_killed_rank_change_nothing_in_the_result(tmp_path: Path, ray_cluster: None) -> None:
    (whole,) = sweep(tmp_path / "whole", PROGRAM.replace("DEATHS", "()"), [0.05])
    deaths = "(2, 'child'), (4, 'rank'), (6, 'child'), (8, 'rank')"
    (killed,) = sweep(tmp_path / "killed", PROGRAM.replace("DEATHS", f"({deaths})"), [0.05])
    assert sorted(path.name for path in (tmp_path / "killed").glob("*-?")) == ["child-2", "child-6", "rank-4", "rank-8"]
    assert (killed.state, killed.best, killed.best_examples) == (whole.state, whole.best, whole.best_examples)
    assert (killed.state, killed.best, killed.best_examples) == (RunState.DONE, (0.9 - 0.05) * 100, 375)
    assert (Path(str(killed.folder)) / "best" / "model.txt").read_text() == "3"


def test_a_run_that_asha_stops_keeps_its_best(tmp_path: Path, ray_cluster: None) -> None:
    asha = AshaOptions(grace_examples=250, max_examples=1000, reduction_factor=2)
    better, worse = sweep(tmp_path, PROGRAM.replace("DEATHS", "()"), [0.0, 0.05], asha=asha)
    assert (better.state, better.best) == (RunState.DONE, 90.0)
    assert (worse.state, worse.examples, worse.best) == (RunState.STOPPED, 250, (0.2 - 0.05) * 100)
    assert (Path(str(worse.folder)) / "best" / "model.txt").read_text() == "2"


def test_two_ranks_see_each_other_and_a_program_that_trains_alone_fails(tmp_path: Path, ray_cluster: None) -> None:
    (joined,) = sweep(tmp_path / "joins", JOINS, [0.5], workers=2)
    assert (joined.state, joined.best, joined.identity["workers"]) == (RunState.DONE, 200.0, 2)
    (alone,) = sweep(tmp_path / "alone", ALONE, [0.5], workers=2)
    assert alone.state == RunState.FAILED
    assert str(alone.reason).startswith("ranks apart: workers=2, and the program trains as 1; let it join the group")
