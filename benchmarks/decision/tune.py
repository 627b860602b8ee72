"""A grid's cells by Ray Tune: OptunaSearch proposes, ASHA stops, the authors' loop trains and scores the dev set.

As many trials as our search makes, one after the other, in one worker that is kept (`reuse_actors`). What it costs is
the CPU time of the trials and of the driver; the start of Ray and of the worker is left out.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.decision import authors
from benchmarks.search.replay import GRACE, REDUCTION
from benchmarks.sweep.rows import Row
from benchmarks.sweep.sides import Bench, OutOfTime
from search_spaces.cells import Cell, ResolvedSpace

SEED = 0
STEP = "step_s"
EVALUATION = "evaluation_s"


def search(bench: Bench) -> Iterator[Row]:
    """All trials, recorded or made in one go; the pick is the best trial that ASHA let finish."""
    trials = bench.resolved.space.search
    assert trials is not None
    rows = bench.results.of("tune")
    if len(rows) < (trials.num_samples or 0):
        if time.monotonic() > bench.until:
            raise OutOfTime
        begun = time.process_time()
        trained = _tuned(bench, trials.num_samples or 0)
        driver_s = (time.process_time() - begun) / len(trained)
        rows = [replace(row, step_s=row.step_s + driver_s) for row in trained]
        for row in rows:
            bench.results.add(row)
    best = max((row for row in rows if row.state == "done"), key=lambda row: row.best)
    bench.picks["tune"] = next(cell for cell in bench.resolved.cells() if dict(cell.key) == best.cell)
    yield from rows


def _tuned(bench: Bench, samples: int) -> list[Row]:
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.optuna import OptunaSearch

    last = bench.evaluations
    ray.init(address="local", num_cpus=1, log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as work:
            results = tune.Tuner(
                tune.with_parameters(_trial, bench=_without_search(bench)),
                param_space={name: tune.choice(values) for name, values in axes(bench.resolved).items()},
                tune_config=tune.TuneConfig(
                    metric="dev",
                    mode="max",
                    search_alg=OptunaSearch(seed=SEED),
                    scheduler=ASHAScheduler(
                        time_attr="evaluation",
                        max_t=last,
                        grace_period=max(1, round(GRACE * last)),
                        reduction_factor=REDUCTION,
                    ),
                    num_samples=samples,
                    max_concurrent_trials=1,
                    reuse_actors=True,
                ),
                run_config=tune.RunConfig(storage_path=work, verbose=0),
            ).fit()
            return [_row(result, last) for result in results]
    finally:
        ray.shutdown()


def axes(resolved: ResolvedSpace) -> dict[str, list[Any]]:
    """Setting -> its values in the grid."""
    cells = resolved.cells()
    return {name: list(dict.fromkeys(cell.key[name] for cell in cells)) for name in cells[0].key}


def _without_search(bench: Bench) -> Bench:
    """What a trial needs; of the pairs the dev set alone."""
    return Bench(bench.resolved, bench.results, bench.paths, bench.texts, bench.sets[:1])


def _trial(config: Mapping[str, Any], bench: Bench) -> None:
    import torch
    from ray import tune

    torch.set_num_threads(1)
    cell = cell_of(config, bench.resolved)
    begun, scores = time.process_time(), list[float]()

    def said(score: float, evaluation_s: float) -> None:
        scores.append(score)
        step_s = time.process_time() - begun - evaluation_s
        tune.report(
            {"dev": max(scores), "evaluation": len(scores), "scores": [*scores], STEP: step_s, EVALUATION: evaluation_s}
        )

    with tempfile.TemporaryDirectory() as folder:
        authors.train(cell.run(SEED), bench.paths, Path(folder), bench.sets, said)


def cell_of(config: Mapping[str, Any], resolved: ResolvedSpace) -> Cell:
    """The cell with these settings."""
    return next(cell for cell in resolved.cells() if dict(cell.key) == dict(config))


def _row(result: Any, last: int) -> Row:
    if result.error is not None:
        raise SystemExit(f"a trial of Tune failed: {result.error}")
    said = result.metrics
    state = "done" if said["evaluation"] == last else "stopped"
    config = dict(result.config)
    return Row("tune", config, SEED, state, said["scores"], said[STEP], said[EVALUATION], os.getloadavg()[0])
