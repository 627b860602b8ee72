"""`cse train`: trains one run in this process, without Ray."""

import functools
import hashlib
import json
import math
import shlex
from pathlib import Path
from typing import Annotated

import typer

from analysis.run_state import RunState
from cse.cli import exit, ledgers
from cse.cli import options as arguments
from cse.cli.loader import deferred
from cse_train import methods
from cse_train.config import RunConfig, count_examples, effective, parse_run
from cse_train.evaluate.pairs import dev_problem
from cse_train.fields import ConfigError
from cse_train.results import Point
from cse_train.text.corpora import rows_of
from cse_train.training.saver import SAVE_MINUTES
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.user_files import add_user_files, describe_files
from search_spaces.profiles import load_profile
from search_spaces.user_data import read_settings

with deferred(__name__):
    from cse_train.training import loop as training

Method = Annotated[str, typer.Argument(metavar="METHOD", help="A method, such as simcse.")]
Folder = Annotated[Path | None, typer.Option(help="The run's folder (results/train/...).")]

SPACE_ENDINGS = (".yaml", ".yml")


def train(
    method: Method,
    plugins: arguments.Plugins = None,
    profile: arguments.Profile = None,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    train_columns: arguments.TrainColumns = None,
    senteval: arguments.SentEval = None,
    settings: arguments.Set = None,
    save_minutes: arguments.SaveMinutes = SAVE_MINUTES,
    to: Folder = None,
) -> None:
    """Train one run of a method in this process, without Ray; the same command continues an interrupted one."""
    if method.endswith(SPACE_ENDINGS):
        reason = f"no method: method={method} is a space, of methods or of a trainer of your own"
        raise ConfigError([f"{reason}; cse run {shlex.quote(method)} trains its runs"])
    methods.require(method)
    values, files = read_settings(arguments.settings(settings), Path.cwd())
    paths = add_user_files(arguments.data_paths(data, train_file, senteval, train_columns), files)
    exit.say(describe_files(paths))
    if "train.dev" in values and (line := dev_problem(str(values["train.dev"]))):
        raise ConfigError([line])
    run = parse_run({**load_profile(profile or "small").settings(method), **values, "method": method})
    folder = (to or ledgers.RESULTS / "train" / f"{method}-{digest(run)}").resolve()
    run = count_examples(run, lambda: rows_of(run.train.corpus, paths))
    print(f"run folder: {folder}")
    tell = functools.partial(_tell, dev=run.train.dev, total=run.train.examples)
    outcome = training.train(run, paths, folder, tell, save_minutes=save_minutes)
    state = RunState.STOPPED if outcome.stopped else RunState.DONE
    print(f"{state}: best {run.train.dev} {outcome.best:.2f} at {outcome.best_examples} examples")
    dev = next((shlex.quote(file.text()) for file in files if file.role == "dev"), run.train.dev)
    quoted = shlex.quote(str(folder))
    print(f"score it: cse eval {quoted} --suite {dev}\nuse it: cse export {quoted} --to MODEL")


def digest(run: RunConfig) -> str:
    """Returns 8 hex digits that name a configuration, with the method's version and any code of the user's own."""
    facts = {"version": run.options.version(), **effective(run.flat())}
    if code := own_digest(run.method):
        facts["code"] = code
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def _tell(point: Point, dev: str, total: int | str) -> bool:
    """Prints one evaluation of a run: examples, dev score, best score, loss and seconds; never asks the run to stop."""
    loss = f"  loss {point.metrics['loss']:.4f}" if "loss" in point.metrics else ""
    value = point.metrics[dev]
    score = f"{dev} {'no score, all cosines equal' if math.isnan(value) else f'{value:.2f}'}  best {point.best:.2f}"
    print(f"{point.examples:>9}/{total}  {score}{loss}  {point.seconds:.0f} s", flush=True)
    return False
