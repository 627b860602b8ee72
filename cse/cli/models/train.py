"""`cse train`: one run in this process."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cse.cli import options as arguments
from cse_train import methods
from cse_train.config import RunConfig, counted, parse_run
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.training.loop import Point
from cse_train.training.loop import train as train_one
from search_spaces.profiles import load_profile

Method = Annotated[str, typer.Argument(metavar="METHOD", help="A method, such as simcse.")]
Folder = Annotated[Path | None, typer.Option("--to", help="The run's folder (results/train/...).", show_default=False)]


def train(
    method: Method,
    profile: arguments.Profile = None,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    senteval: arguments.SentEval = None,
    settings: arguments.Set = None,
    to: Folder = None,
) -> None:
    """Train one run of a method in this process, without Ray; the same command continues an interrupted one."""
    if method not in methods.names():
        raise ConfigError([f"unknown method: method={method}; {nearest(method, methods.names())}"])
    paths = arguments.data_paths(data, train_file, senteval)
    run = parse_run(configuration(method, profile, arguments.settings(settings)))
    folder = (to or arguments.RESULTS / "train" / f"{method}-{digest(run)}").resolve()
    print(f"run folder: {folder}")
    outcome = train_one(run, paths, folder, lambda point: _tell(point, run.train.dev, run.train.examples))
    print(f"{outcome.state}: best {run.train.dev} {outcome.best:.2f} at {outcome.best_examples} examples")
    print(f"score it: cse eval {folder} --suite {run.train.dev}   use it: cse export {folder} --to MODEL")


def configuration(method: str, profile: str | None, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The run's dotted keys: the profile's for this method, then `--set`."""
    return {**load_profile(profile or "small").settings(method), **settings, "method": method}


def digest(run: RunConfig) -> str:
    """8 hex digits that name a configuration, other ones where its numbers have changed."""
    named = {"version": methods.version(run.method, run.options), **counted(run.flat())}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:8]


def _tell(point: Point, dev: str, examples: int) -> bool:
    loss = f"  loss {point.metrics['loss']:.4f}" if "loss" in point.metrics else ""
    score = f"{dev} {point.metrics[dev]:.2f}  best {point.best:.2f}"
    print(f"{point.examples:>9}/{examples}  {score}{loss}  {point.seconds:.0f} s", flush=True)
    return False
