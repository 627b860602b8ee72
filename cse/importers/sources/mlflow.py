"""Reads the runs of an MLflow experiment, from a tracking URI, a SQLite file or a folder `mlruns`."""

import os
from pathlib import Path
from typing import Any

from cse.importers import ForeignRun
from cse.importers.sources import package
from cse.importers.values import require_table, scalar, sqlite_file
from cse_train.fields import ConfigError, nearest
from cse_train.reading import reading

SCORE = None
MLFLOW_PAGE = 1_000
MLFLOW_FINISHED = "FINISHED"
KEPT_TAGS = ("mlflow.runName", "mlflow.source.name", "mlflow.source.git.commit")
"""MLflow's own tags that may distinguish configurations; all tags of users may."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns every run of an experiment; `study` names it, and may be None if only one experiment has runs.

    Raises ConfigError for an unknown source or experiment, and for several without a name.
    """
    if (file := sqlite_file(source)) is not None:
        require_table(file, "experiments", "MLflow")
        source = f"sqlite:///{file.resolve()}"
    elif "://" not in source and not Path(source).is_dir():
        raise ConfigError([f"no such file: source={source}; name MLflow's database, its folder or a tracking URI"])
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder is only read here
    client = package("mlflow").MlflowClient(tracking_uri=source)
    with reading("no MLflow", f"source={source}", "name MLflow's database, its folder or a tracking URI"):
        experiments = {experiment.name: experiment.experiment_id for experiment in client.search_experiments()}
        if study is not None and study not in experiments:
            raise ConfigError([f"unknown study: study={study} of source={source}; {nearest(study, experiments)}"])
        experiments_read = experiments if study is None else {study: experiments[study]}
        runs = {name: _read_experiment(client, number) for name, number in experiments_read.items()}
    runs = {name: rows for name, rows in runs.items() if rows}
    if len(runs) > 1:
        raise ConfigError([f"several studies: source={source} has {', '.join(sorted(runs))}; give one with --study"])
    return [run for rows in runs.values() for run in rows]


def _read_experiment(client: Any, number: str) -> list[ForeignRun]:
    runs, token = list[ForeignRun](), None
    while token != "":
        page = client.search_runs([number], max_results=MLFLOW_PAGE, page_token=token)
        runs += [_run(client, run) for run in page]
        token = page.token or ""
    return runs


def _run(client: Any, run: Any) -> ForeignRun:
    """Converts one MLflow run; of each metric, the value that was logged last counts.

    MLflow itself takes the value at the highest step, also where a run went back to an earlier step and logged on from
    there.
    """
    begun, end = run.info.start_time, run.info.end_time
    metrics = dict(run.data.metrics)
    # `run.data.metrics` has the values without their steps.
    for metric in run.data._metric_objs if run.info.status == MLFLOW_FINISHED else ():
        if metric.step:
            history = client.get_metric_history(run.info.run_id, metric.key)
            metrics[metric.key] = max(history, key=lambda each: (each.timestamp, each.step)).value
    again = [name for name, value in metrics.items() if value != run.data.metrics[name]]
    name = run.info.run_name or run.info.run_id
    line = f"steps logged again: {name} has {', '.join(sorted(again))} twice; the value that was logged last counts"
    tags = {key: text for key, text in run.data.tags.items() if not key.startswith("mlflow.") or key in KEPT_TAGS}
    inputs = getattr(run.inputs, "dataset_inputs", None) or ()
    data = ", ".join(sorted(f"{each.dataset.name} {each.dataset.digest}" for each in inputs))
    return ForeignRun(
        id=run.info.run_id,
        unfinished="" if run.info.status == MLFLOW_FINISHED else str(run.info.status).lower(),
        settings={name: scalar(value) for name, value in run.data.params.items()},
        metrics=metrics,
        rest={**tags, **({"dataset": data} if data else {})},
        seconds=(end - begun) / 1000 if begun and end else None,
        begun=begun / 1000 if begun else None,
        remarks=[line] if again else [],
    )
