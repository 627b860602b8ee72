"""`cse plan`: counts the runs that spaces would start, how many are done, and what the rest costs. Trains nothing."""

from analysis.documents import dump_json
from analysis.statistics.looks import TIE_MARGIN
from cluster.plan.planner import plan as planned
from cse.cli import exit, ledgers, options, screen
from cse.cli.listing import FormatOption
from cse.cli.loader import deferred
from cse.cli.plan_text import PlanAnswer, describe, tell_until_decided, text
from search_spaces.catalog import load_all
from search_spaces.cells import sweep_name

with deferred(__name__):
    from cse.experiments import tables


Answer = PlanAnswer


def plan(
    spaces: options.SpaceNames,
    plugins: options.Plugins = None,
    profile: options.Profile = None,
    data: options.Data = None,
    train_file: options.TrainFile = None,
    train_columns: options.TrainColumns = None,
    senteval: options.SentEval = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    ledger: ledgers.LedgerUrl = None,
    workers: options.Workers = 1,
    until: options.Until = None,
    max_seeds: options.MaxSeeds = None,
    form: FormatOption = "text",
) -> None:
    """Count cells and runs of spaces, which of them the ledger has, which lack an input, and what the rest costs."""
    values = options.settings(settings)
    terms = options.terms(until, max_seeds, TIE_MARGIN, seeds)
    paths = options.data_paths(data, train_file, senteval, train_columns)
    opened = ledgers.ledger_to_be(ledger)
    screen.note("counting runs")
    work = planned(load_all(spaces), profile, seeds, opened, paths, overrides=values, workers=workers)
    expected = {}
    if terms.looks is not None:
        expected = {
            space.id: tables.expect_cost(space, opened, terms.looks, terms) for space in work.tables if space.runs
        }
    if form == "json":
        print(dump_json(describe(work, expected)))
        return
    print(text(work))
    if opened is not None:
        for line in (line for space in work.spaces for line in opened.sweep_spec(sweep_name(space.resolved)).spent):
            print(screen.prose(line, indent="  "))
    for line in tell_until_decided(work, expected, terms):
        print(screen.prose(line, indent="  "))
    exit.say([f"what is done was recognised by settings alone: {line}" for line in work.absent])
