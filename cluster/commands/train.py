"""`cse train`: one run in this process, or many variants for a few steps each."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments
from cse_train.fields import ConfigError, Scalar

if TYPE_CHECKING:
    from cluster.space import Space
    from cse_train.config import DataPaths
    from cse_train.loop import Point

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="METHOD|SPACE...", help="One method, or spaces whose cells are all tried.", show_default=False
    ),
]
All = Annotated[bool, typer.Option("--all-variants", help="Every cell of every table of the papers.")]
Folder = Annotated[
    Path | None, typer.Option("--to", help="METHOD: the run's folder (results/train/...).", show_default=False)
]
Examples = Annotated[
    int | None, typer.Option(min=1, help="Variants: training examples of each (200 steps).", show_default=False)
]
Out = Annotated[Path | None, typer.Option(help="Variants: also write the table here.", show_default=False)]


def train(
    what: What = None,
    all_variants: All = False,
    profile: arguments.Profile = None,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    senteval: arguments.SentEval = None,
    settings: arguments.Set = None,
    to: Folder = None,
    examples: Examples = None,
    seeds: arguments.Seeds = None,
    ledger: arguments.LedgerUrl = None,
    storage: arguments.Storage = None,
    workers: arguments.Workers = 1,
    gpus_per_worker: arguments.Gpus = 0,
    max_concurrent: arguments.Concurrent = None,
    out: Out = None,
) -> int | None:
    """METHOD: one run here, without Ray. SPACE or --all-variants: a few steps of each cell, one line for each."""
    given, paths = arguments.settings(settings), arguments.data_paths(data, train_file, senteval)
    if is_method(what or []) and not all_variants:
        train_here((what or [])[0], profile, paths, given, to)
        return None
    from cluster.commands.sweep_options import check_fit
    from cluster.commands.variants import run_variants
    from cluster.options import SweepOptions
    from cluster.variants import Short

    options = SweepOptions(
        storage=arguments.storage_folder(storage),
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        max_concurrent=max_concurrent,
    )
    check_fit(options)
    short = Short(
        paths=paths,
        profile=profile,
        overrides=given,
        seeds=range(seeds or 1),
        examples=examples,
        workers=workers,
    )
    found = short.variants(spaces_of(what or [], all_variants))
    return run_variants(found, arguments.ledger_url(ledger), paths, options, out and out.resolve())


def is_method(words: list[str]) -> bool:
    """Whether one run is asked for; a method's name goes before a space's ID."""
    from cse_train import methods

    return len(words) == 1 and words[0] in methods.names()


def spaces_of(words: list[str], every: bool) -> "list[Space]":
    """The spaces that are named, or all of the papers; ConfigError for neither and for both."""
    from cluster.space import load_spaces
    from cluster.variants import paper_spaces

    if bool(words) == every:
        raise ConfigError([f"nothing to train: train={' '.join(words)}; give METHOD, or SPACE..., or --all-variants"])
    return paper_spaces() if every else [space for word in words for space in load_spaces(word)]


def train_here(
    method: str, profile: str | None, paths: "DataPaths", settings: Mapping[str, Scalar], to: Path | None
) -> None:
    """One run in this process; the same command continues an interrupted one."""
    flat = configuration(method, profile, settings)
    folder = (to or arguments.RESULTS / "train" / f"{method}-{digest(flat)}").resolve()
    from cse_train.config import parse_run
    from cse_train.loop import train as train_one

    run = parse_run(flat)
    print(f"run folder: {folder}")
    outcome = train_one(run, paths, folder, lambda point: _tell(point, run.train.dev, run.train.examples))
    print(f"{outcome.state}: best {run.train.dev} {outcome.best:.2f} at {outcome.best_examples} examples")
    print(f"score it: cse eval {folder} --suite {run.train.dev}   use it: cse export {folder} --to MODEL")


def configuration(method: str, profile: str | None, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The run's dotted keys: the profile's for this method, then `--set`."""
    from cluster.profiles import load_profile

    return {**load_profile(profile or "small").settings(method), **settings, "method": method}


def digest(flat: Mapping[str, Scalar]) -> str:
    """8 hex digits that name a configuration."""
    return hashlib.sha256(json.dumps(dict(flat), sort_keys=True).encode()).hexdigest()[:8]


def _tell(point: "Point", dev: str, examples: int) -> bool:
    loss = f"  loss {point.metrics['loss']:.4f}" if "loss" in point.metrics else ""
    score = f"{dev} {point.metrics[dev]:.2f}  best {point.best:.2f}"
    print(f"{point.examples:>9}/{examples}  {score}{loss}  {point.seconds:.0f} s", flush=True)
    return False
