"""What the page and `cse status` say of a search: all axes in a run's name, counts out of all that it may make."""

from pathlib import Path

import numpy as np
import pytest

from analysis.ledger import Ledger
from analysis.ledger.cluster_log import Driver
from analysis.ledger.database import connect
from analysis.progress.follower import Follower
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.cli.results.status import facts

AXES = ("train.learning_rate", "method.temperature", "method.dup_rate", "method.queue_multiple")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Six of at most fourteen runs, four of them done."""
    path = str(tmp_path / "ledger.db")
    ledger = Ledger.open(path)
    ledger.record_sweep("s", SweepSpec({"title": "A search", "space": "s", "asked": 14}))
    draws = np.random.default_rng(0).uniform(size=(6, len(AXES)))
    cells = [dict(zip(AXES, map(float, row), strict=True)) for row in draws]
    ledger.link("s", [(f"{number}", cell, 0) for number, cell in enumerate(cells)])
    for number, cell in enumerate(cells[:4]):
        claim = ledger.claim(
            f"{number}",
            cell | {"train.dev": "sts_dev"},
            method="esimcse",
            seed=0,
            owner="o",
            identity={},
            provenance={},
        )
        assert claim is not None
        ended = {"examples": 10, "best": 50.0 + number, "best_examples": 10, "seconds": 1.0, "folder": None}
        ledger.finish(claim, "done", **ended)
    ledger.close()
    return path


def test_a_search_names_all_axes_and_counts_out_of_what_it_may_make(url: str) -> None:
    shown = Follower(connect(url, create=False)).detail("s")
    assert shown is not None
    names = [axis.rpartition(".")[2] for axis in AXES]
    assert all(f"{name}=" in run.label for run in shown.runs for name in names)
    assert all(f"{name}=" in shown.progress.best_run for name in names)
    assert shown.progress.share == pytest.approx(4 / 14)
    assert facts(shown.progress)[0] == "4/14 done"


def test_status_says_what_each_user_has_of_the_cluster_and_by_what_rule(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.open(url)
    facts = {"cluster": "one", "slots": 4, "most": 4, "wanted": 4}
    anna = Driver(owner="anna@node1:71:aa", sweeps=("s",), running=3, priority=3, cap=None, **facts)
    ben = Driver(owner="ben@node2:72:bb", sweeps=("other", "s"), running=1, priority=1, cap=2, **facts)
    eve = Driver(owner="eve@node2:73:cc", sweeps=("other",), running=0, priority=1, cap=2, **facts)
    for driver in (anna, ben, eve):
        ledger.stand_beside(driver)
    assert main(["status", "--ledger", url]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("  driver")] == [
        "  driver anna@node1:71  3 of 4 slots, 1 more wait, priority 3",
        "  driver ben@node2:72  1 of 4 slots, 3 more wait, priority 1, at most 2 for ben",
    ]
    assert main(["status", "--format", "json", "--ledger", url]) == 0
    assert '"owner": "ben@node2:72:bb"' in capsys.readouterr().out
