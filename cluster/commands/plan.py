"""`cse plan`: what a space would run, and how much of it is done. Trains nothing, starts nothing."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments, failure
from cluster.commands.columns import Format, FormatOption
from cluster.commands.results import answers

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cluster.plan import SpacePlan

SENTENCE = "{cells} cells x {seeds} seeds = {runs} runs, {unique} unique: {done} done, {to_run} to run"
What = Annotated[str, typer.Argument(metavar="FILE|DIR|ID", help="A space, a folder of spaces, or a shipped ID.")]


def plan(
    space: What,
    profile: arguments.Profile = None,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    senteval: arguments.SentEval = None,
    seeds: arguments.Seeds = None,
    settings: arguments.Set = None,
    ledger: arguments.LedgerUrl = None,
    workers: arguments.Workers = 1,
    form: FormatOption = Format.text,
) -> None:
    """Count a space's cells and runs, and which of them the ledger has."""
    from cluster.plan import plan as planned
    from cluster.space import load_spaces

    given = arguments.settings(settings)
    paths = arguments.data_paths(data, train_file, senteval)
    opened = arguments.existing_ledger(ledger)
    found = planned(load_spaces(space), profile, seeds, opened, paths, overrides=given, workers=workers)
    if found.absent and opened:
        found = dataclasses.replace(found, spaces=tuple(done_by_settings(one, opened) for one in found.spaces))
    if form is Format.json:
        print(json.dumps(found.as_dict()))
        return
    print(SENTENCE.format(**found.counts()))
    failure.say([f"what is done was told by settings alone: {line}" for line in found.absent])


def done_by_settings(space: "SpacePlan", ledger: "Ledger") -> "SpacePlan":
    """What the ledger has of a space whose data is not at hand: runs with its settings, on whatever data they were."""
    if space.searched is not None:
        return space
    found = answers(space.resolved, ledger.runs(states=["done"]), space.seeds)
    return dataclasses.replace(space, done=frozenset(answer.run.signature for answer in found))
