"""A sweep of stubs on Ray beside trackers that raise and hang; and that a sweep's listeners have the trackers."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import SweepEvent, SweepOutcome
from cse.cli.options import data_paths
from cse.experiments import request as sweeping
from cse.experiments import run as experiments_run
from cse.trackers import tracking
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.cse.trackers.conftest import Hanging, Kept, Raising
from tests.run_values import book_run


@pytest.mark.slow
def test_a_sweep_goes_on_beside_trackers_that_raise_and_hang(
    ray_cluster: None,
    sweeper: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tracking, "TRACKER_CLOSE_SECONDS", 2.0)
    kept, hanging = Kept(), Hanging()
    seeds = [0, 1]
    names = {f"signature{seed}": "s" for seed in seeds}
    every = {"raising": Raising(), "hanging": hanging, "kept": kept}
    with tracking.Tracking(str(tmp_path / "ledger.db"), names, names, every) as listener:
        swept = sweeper(tmp_path, {}, seeds, on_event=listener)
        begun = time.monotonic()
    assert time.monotonic() - begun < 30  # of the 120 s that one tracker hangs
    hanging.free.set()
    assert (swept.outcome.done, swept.outcome.failed) == (2, 0)
    ended = {run.signature: run for run in kept.runs if run.ended}
    assert {name: run.state for name, run in ended.items()} == dict.fromkeys(names, "done")
    for name in names:
        sent = [examples for run in kept.runs if run.signature == name for examples, _ in run.points]
        assert sent == [point.examples for point in swept.ledger.curve(name)]
    lines = [record.getMessage() for record in caplog.records if "tracker behind" in record.getMessage()]
    assert len(lines) == 2 and {line.split("track=")[1].split(";")[0] for line in lines} == {"raising", "hanging"}


def test_grid_and_search_tell_the_trackers_that_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, ...]] = []
    kept = Kept()

    def makes(names: tuple[str, ...], storage: Path) -> dict[str, Kept]:
        made.append(names)
        assert storage == tmp_path
        return dict.fromkeys(names, kept)

    def sweeps(runs: Any, ledger: str, paths: Any, options: Any, tell: Any, *rest: Any) -> SweepOutcome:
        planned = runs[0] if isinstance(runs, list | tuple) else runs.ask()
        book_run(Ledger.open(ledger), planned.signature, planned.run.flat(), seed=planned.seed, examples=8, best=50.0)
        for kind in ("started", "done"):
            tell(SweepEvent(kind=kind, signature=planned.signature))  # type: ignore[arg-type]
        return SweepOutcome(done=1)

    monkeypatch.setattr("cse.trackers.make_trackers", makes)
    monkeypatch.setattr(experiments_run, "run_sweep", sweeps)
    settings = {"train.corpus": "generated", "train.dev": "generated_dev:20"}
    request = sweeping.Request(
        resolved=resolve(load_space("E7"), None, settings),  # type: ignore[arg-type]
        seeds=(0,),
        paths=data_paths(None, None, None),
        ledger=str(tmp_path / "ledger.db"),
        options=SweepOptions(storage=tmp_path),
        track=("kept",),
        mirror=False,
    )
    ledger = Ledger.open(request.ledger)
    experiments_run.run_grid(request, sweeping.work_of([request], ledger))
    (shown,) = [run for run in kept.runs if run.ended]
    assert shown.sweep.startswith("E7") and shown.settings["method"] == "esimcse" and shown.name.endswith("seed 0")
    search = dataclasses.replace(request, resolved=resolve(load_space("simcse"), None, settings))  # type: ignore[arg-type]
    experiments_run.run_search(search, ledger)
    assert made == [("kept",), ("kept",)]
    last = kept.runs[-1]
    assert last.ended and last.sweep.startswith("simcse") and last.settings["method"] == "simcse"
