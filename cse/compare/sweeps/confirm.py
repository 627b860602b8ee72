"""`cse confirm`: trains a sweep's pick and a reference on fresh seeds, and asks once which of them is better."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from analysis.documents import HIDDEN, convert_row, dump_json
from analysis.run_state import RunState
from analysis.sweep_spec import Confirmation
from cse.cli import exit, ledgers, options, screen
from cse.cli.listing import FormatOption
from cse.cli.loader import deferred
from cse.cli.sweep_options import SweepArguments, Yes
from cse.cli.sweeps.run import train
from cse.compare.candidate import GateVerdict, judge_candidate
from cse.compare.loop import Loop
from cse.compare.missing_scores import Scoring
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions, Suites
from search_spaces.space import MOST_SEEDS

with deferred(__name__):
    from cse.compare import confirmation

What = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep (cse ls) or its space: its pick is confirmed; or SWEEP:CELL.")
]
Against = Annotated[
    str,
    typer.Option("--against", metavar="REFERENCE", help="A cell that is trained too, untrained, or a model's folder."),
]
FRESH_SEEDS = 8


@dataclass(frozen=True, kw_only=True)
class ConfirmArguments(SweepArguments):
    """Options of a command that trains a sweep, with the number of fresh seeds."""

    seeds: Annotated[int | None, typer.Option(min=2, max=MOST_SEEDS, help="Fresh seeds of each side.")] = FRESH_SEEDS


@dataclass(frozen=True, kw_only=True)
class ConfirmVerdict(GateVerdict):
    """Verdict of `cse confirm`: that of `cse gate`, over fresh seeds alone."""

    sweep: str
    """Sweep of the fresh runs."""
    confirms: Confirmation
    cells: int
    """Cells of the sweep with finished runs, of which the confirmed one is one."""
    lines: Sequence[str] = field(metadata=HIDDEN)
    """Lines for people on what was confirmed."""

    def text(self, n_more: bool = False) -> str:
        """Returns the text of the gate, and behind it what was confirmed on which seeds."""
        return "\n".join([super().text(n_more), *self.lines])

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse confirm --format json` prints."""
        return convert_row(self)


Answer = ConfirmVerdict


@options.add_arguments
def confirm(
    what: What,
    against: Against,
    yes: Yes = False,
    *,
    difference: DifferenceOptions,
    suite: Suites = None,
    form: FormatOption = "text",
    arguments: ConfirmArguments,
) -> int:
    """Train a sweep's pick and a reference on fresh seeds, which took no part in the choice, and judge them once.

    0: better or tie, 3: worse or breaks, 4: more seeds, undecided or no signal, 5: seeds do nothing, 2: your mistake,
    before anything is trained. The same command goes on where it ended, and trains nothing twice. --profile and --set
    are of the reference's name.
    """
    difference.terms()
    scoring = Scoring.of(ScoringOptions(suite=suite, data=arguments.data, senteval=arguments.senteval))
    opened = ledgers.existing_ledger(arguments.ledger, arguments.storage)
    screen.note("looking for what could go wrong")
    plan = confirmation.prepare(
        what, against, arguments.seeds or FRESH_SEEDS, difference.columns(), scoring.suites or (), arguments, opened
    )
    with contextlib.redirect_stdout(sys.stderr) if form == "json" else contextlib.nullcontext():
        print("\n".join(plan.lines()), flush=True)
        ledger = ledgers.open_ledger(plan.request.ledger, plan.request.options.storage, create=True)
        confirmation.write(plan.request.resolved.space)
        code = train(plan.request, ledger, yes)
    if code is None:  # the user declined
        return exit.DONE
    runs, cells = ledger.runs(sweep=plan.sweep), plan.request.resolved.cells()
    done = [run for run in runs if run.state == RunState.DONE]
    failed, planned = sum(run.state == RunState.FAILED for run in runs), len(plan.request.seeds) * len(cells)
    # A seed that is left out could be one that broke, and a word on the others too good. One that failed is judged.
    is_whole = len(done) + failed == planned and len({run.settings for run in done}) == len(cells)
    if code not in (exit.DONE, exit.SOME_FAILED) or not is_whole:
        exit.say([f"no word yet: {len(done)} of {planned} runs are done; the same command goes on"])
        return code or exit.SOME_FAILED
    verdict = judge_candidate(
        plan.candidate, plan.against, ledger, difference, ModelOptions(), None, Loop(plan.loop), scoring
    )
    answer = ConfirmVerdict(
        **vars(verdict), sweep=plan.sweep, confirms=plan.confirms, cells=plan.cells, lines=_tell(plan)
    )
    print(dump_json(answer) if form == "json" else answer.text())
    return answer.exit_code


def _tell(plan: "confirmation.ConfirmationPlan") -> list[str]:
    seeds = confirmation.tell_seeds(plan.confirms.seeds)
    return [f"over the fresh seeds {seeds} alone, which took no part in the choice (sweep {plan.sweep})"]
