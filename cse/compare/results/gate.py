"""`cse gate`: one word on a candidate, for CI and for programs that propose changes."""

from typing import Annotated

import typer

from analysis.documents import dump_json
from cse.cli import ledgers, options
from cse.cli.listing import FormatOption
from cse.compare.candidate import GateVerdict, judge_candidate
from cse.compare.loop import CONFIRMATION, DEFAULT_LOOP, Loop
from cse.compare.missing_scores import Scoring
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions
from cse_train.fields import ConfigError

Candidate = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE", help="SPACE:CELL, SWEEP:CELL, runs or folders with commas: as `cse compare` has it."
    ),
]
Against = Annotated[str, typer.Option(metavar="REFERENCE", help="What it is compared with, named alike.")]
Looks = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Numbers of seeds at which you look, named before the first, such as 3,5,8,12; one look where absent.",
    ),
]
LoopName = Annotated[str, typer.Option(help="The loop whose candidates share the level; any name.")]
Candidates = Annotated[
    int | None,
    typer.Option(
        min=1, help="How many candidates the loop will ask about, named with the first: equal shares of the level."
    ),
]
NMore = Annotated[bool, typer.Option("--n-more", help="Also say how many more seeds would decide, and their cost.")]

Answer = GateVerdict


@options.add_arguments
def gate(
    candidate: Candidate,
    against: Against,
    *,
    difference: DifferenceOptions,
    looks: Looks = None,
    loop: LoopName = DEFAULT_LOOP,
    candidates: Candidates = None,
    n_more: NMore = False,
    scoring: ScoringOptions,
    naming: ModelOptions,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: FormatOption = "text",
) -> int:
    """Say whether a candidate is better, a tie or worse, or needs more seeds; the exit code says so too.

    0: better or tie, 3: worse, or breaks (more of its seeds failed), 4: more seeds, undecided, or no signal (its runs
    did not train), 5: seeds do nothing, 2: your mistake. Without --column those of --suite decide, else the dev set.
    Every question is logged, and each costs its level.
    """
    if loop.startswith(CONFIRMATION):
        raise ConfigError([f"a confirmation's loop: loop={loop}; cse confirm asks there, about seeds that it trains"])
    gate_loop, opened = Loop(loop, candidates), ledgers.existing_ledger(ledger, storage)
    verdict = judge_candidate(
        candidate, against, opened, difference, naming, _numbers(looks), gate_loop, Scoring.of(scoring)
    )
    print(dump_json(verdict) if form == "json" else verdict.text(n_more))
    return verdict.exit_code


def _numbers(looks: str | None) -> list[int] | None:
    if looks is None:
        return None
    parts = [part.strip() for part in looks.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        raise ConfigError([f"wrong looks: looks={looks}; give numbers of seeds with commas, such as --looks 3,5,8,12"])
    return [int(part) for part in parts]
