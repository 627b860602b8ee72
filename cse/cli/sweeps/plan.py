"""`cse plan`: counts the runs that spaces would start, how many are done, and what the rest costs. Trains nothing."""

from typing import Annotated

import typer

from analysis.documents import dump_json
from analysis.ledger import Ledger
from analysis.statistics.looks import TIE_MARGIN
from cluster.plan.plan import Plan
from cluster.plan.planner import plan as planned
from cse.cli import exit, ledgers, options, screen
from cse.cli.listing import FormatOption
from cse.cli.loader import deferred
from cse.cli.plan_text import PlanAnswer, describe, tell_until_decided, text
from cse_train.fields import ConfigError
from search_spaces.catalog import load_all
from search_spaces.cells import setups, sweep_name

with deferred(__name__):
    from analysis.answers import power
    from cse.experiments import tables

Decide = Annotated[
    bool, typer.Option("--decide", help="Say what gain the runs can find, for one, three and ten candidates.")
]
Runs = Annotated[int | None, typer.Option("--runs", min=1, help="With --decide: runs to spend (default: the plan's).")]
Deviation = Annotated[
    float | None,
    typer.Option(help="With --decide: standard deviation of a score over seeds (default: that of the ledger's runs)."),
]
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
    decide: Decide = False,
    runs: Runs = None,
    deviation: Deviation = None,
    form: FormatOption = "text",
) -> None:
    """Count cells and runs of spaces, which of them the ledger has, which lack an input, and what the rest costs."""
    if not decide and (runs is not None or deviation is not None):
        given = f"--runs={runs}" if runs is not None else f"--deviation={deviation:g}"
        raise ConfigError([f"nothing to decide: {given}; give --decide with it"])
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
    found = _what_runs_find(work, opened, runs, deviation) if decide else None
    if form == "json":
        print(dump_json(describe(work, expected, found)))
        return
    print(text(work))
    if opened is not None:
        for line in (line for space in work.spaces for line in opened.sweep_spec(sweep_name(space.resolved)).spent):
            print(screen.prose(line, indent="  "))
    for line in [*tell_until_decided(work, expected, terms), *(found.lines() if found else [])]:
        print(screen.prose(line, indent="  "))
    exit.say([f"what is done was recognised by settings alone: {line}" for line in work.absent])


def _what_runs_find(work: Plan, opened: Ledger | None, runs: int | None, deviation: float | None) -> "power.Power":
    """Returns what the runs can find, by the deviation that is given, else by that of the ledger's runs.

    Raises ConfigError where neither is known, and where the spaces have dev sets of unlike ranges.
    """
    spaces, rows = [space.resolved for space in work.spaces], opened.runs() if opened else []
    scale = power.find_scale(spaces, rows)
    if deviation is not None:
        spread = power.SeedSpread(deviation, "--deviation")
    else:
        found = power.find_spread([setup for space in spaces for setup in setups(space)], rows)
        if found is None:
            line = "no deviation: the ledger has no two seeds of this method, encoder and dev set that differ"
            raise ConfigError([f"{line}; give --deviation, such as 0.84, that of fifty seeds of SimCSE on BERT-base"])
        spread = found
    counts = work.counts()
    digits = scale.digits([spread.deviation])
    return power.what_runs_find(runs or counts["unique"], spread, TIE_MARGIN * scale.point, digits)
