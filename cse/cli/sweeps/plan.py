"""`cse plan`: what spaces would run, how much of it is done, and what the rest costs. Trains nothing."""

import json

from cluster.plan.planner import plan as planned
from cse.cli import exit, options, screen
from cse.cli.listing import FormatOption
from cse.cli.plan_text import published, text
from search_spaces.catalog import load_all


def plan(
    spaces: options.SpaceNames,
    plugins: options.Plugins = None,
    profile: options.Profile = None,
    data: options.Data = None,
    train_file: options.TrainFile = None,
    senteval: options.SentEval = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    ledger: options.LedgerUrl = None,
    workers: options.Workers = 1,
    form: FormatOption = "text",
) -> None:
    """Count cells and runs of spaces, which of them the ledger has, which lack an input, and what the rest costs."""
    given = options.settings(settings)
    paths = options.data_paths(data, train_file, senteval)
    opened = options.existing_ledger(ledger)
    screen.note("counting runs")
    work = planned(load_all(spaces), profile, seeds, opened, paths, overrides=given, workers=workers)
    if form == "json":
        print(json.dumps(work.as_dict() | {"published": published(work)}))
        return
    print(text(work))
    exit.say([f"what is done was recognised by settings alone: {line}" for line in work.absent])
