"""`cse gate`: one word on a candidate, for CI and for programs that propose changes."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from analysis.statistics.needed import MOST_SEEDS_NEEDED
from analysis.tables.directions import Terms
from cse.cli import ledgers, options
from cse.cli.exit import DONE
from cse.cli.listing import FormatOption
from cse.compare.by_seeds import ColumnComparison, GateWord, compare_by_seeds, verdict_of
from cse.compare.gathered import Gathered, gather
from cse.compare.question import DifferenceOptions, ModelOptions
from cse.compare.results.compare import column_dict, model_dict
from cse.compare.text import interval_text, no_ties, sign_number, word_with_count
from cse.tables.models import Model
from cse_train.fields import ConfigError

WORSE, MORE_SEEDS = 3, 4
EXIT_CODES: dict[GateWord, int] = {
    "better": DONE, "tie": DONE, "worse": WORSE, "more-seeds": MORE_SEEDS, "no signal": MORE_SEEDS,
}  # fmt: skip
Candidate = Annotated[
    str,
    typer.Argument(metavar="CANDIDATE", help="SPACE:CELL, SWEEP:CELL, or runs with commas, as `cse compare` has it."),
]
Against = Annotated[str, typer.Option("--against", metavar="REFERENCE", help="What it is compared with, named alike.")]
Looks = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Numbers of seeds at which you look, named before the first, such as 3,5,8,12; one look where absent.",
        show_default=False,
    ),
]


@options.add_arguments
def gate(
    candidate: Candidate,
    against: Against,
    *,
    difference: DifferenceOptions,
    looks: Looks = None,
    named: ModelOptions,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: FormatOption = "text",
) -> int:
    """Say whether a candidate is better, a tie or worse, or needs more seeds; the exit code says so too.

    0: better or tie, 3: worse, 4: more seeds, or no signal (its runs did not train), 2: your mistake. Without --column
    the dev set decides.
    """
    terms = difference.terms(_numbers(looks))
    opened = ledgers.existing_ledger(ledger, storage)
    left, right = models = named.read_two(candidate, against, opened)
    if without := [model.name for model in models if model.folder is not None]:
        what = f"no seeds: model={without[0]} is a folder, and a gate is about seeds"
        raise ConfigError([f"{what}; name runs of the ledger, or use cse compare"])
    wanted = difference.columns()
    if wanted is None:  # the dev set that picked the checkpoints of both
        if left.dev != right.dev:
            raise ConfigError([f"unlike dev sets: candidate {left.dev}, reference {right.dev}; give --column"])
        wanted = [str(left.dev)]
    common = gather(left, right, opened, wanted, spans=difference.spans(), cosines=False)
    columns = compare_by_seeds(common.columns, terms)
    word, more = verdict_of(columns)
    if form == "json":
        print(json.dumps(_list_facts(models, terms, columns, word, more, common), indent=1, allow_nan=False))
    else:
        apart = common.difference_line()
        print("\n".join([line(word, more, columns, common.others()), *([apart] if apart else [])]))
    return EXIT_CODES[word]


def _numbers(looks: str | None) -> list[int] | None:
    if looks is None:
        return None
    parts = [part.strip() for part in looks.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        raise ConfigError([f"wrong looks: looks={looks}; give numbers of seeds with commas, such as --looks 3,5,8,12"])
    return [int(part) for part in parts]


def line(word: GateWord, more: int | None, columns: list[ColumnComparison], others: str = "") -> str:
    """`better: sts_dev +3.00 (+0.52 to +5.48: better, the 95% interval excludes 0)`, with the seeds that it lacks."""
    lacking = "" if word != "more-seeds" else f" {more}" if more is not None else f" over {MOST_SEEDS_NEEDED}"
    return f"{word_with_count(word, others)}{lacking}: " + "; ".join([*map(_column, columns), *no_ties(columns)])


def _column(column: ColumnComparison) -> str:
    interval = "no interval" if column.interval is None else interval_text(column.interval, column.digits)
    difference = sign_number(column.difference, column.digits)
    return f"{column.column} {difference} ({interval}: {column.word}, {column.reason})"


def _list_facts(
    models: Sequence[Model],
    terms: Terms,
    columns: list[ColumnComparison],
    word: GateWord,
    more: int | None,
    common: Gathered,
) -> dict[str, object]:
    return {
        "verdict": word,
        **({"differing": apart} if (apart := common.difference_line()) else {}),
        "more_seeds": more,
        "exit_code": EXIT_CODES[word],
        "margin": terms.margin,
        "level": terms.family,
        "looks": terms.looks,
        "columns": [column_dict(column) for column in columns],
        "candidate": model_dict(models[0]),
        "reference": model_dict(models[1]),
        "settings": [asdict(setting) for setting in common.differing],
        "notes": list(common.notes),
    }
