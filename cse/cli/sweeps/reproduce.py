"""`cse reproduce`: trains published tables again, with seeds, intervals, a verdict for each value, and their cost."""

import contextlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers import study
from analysis.answers.judge import Terms
from analysis.answers.study import spell_terms
from analysis.ledger import Ledger, mask_password
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.spec import TableError
from cluster.plan.plan import SpacePlan
from cse.cli import exit, ledgers, options, screen, table_text
from cse.cli import plan_text as plan_command
from cse.cli.loader import deferred
from cse.cli.sweep_options import SweepArguments, print_outcome
from cse.experiments import request as sweeping
from cse.experiments.request import Work
from cse.experiments.tables import FinishedTables, LookSource, TableLooks, add_looks, plan_rows
from cse_train.fields import ConfigError
from search_spaces.catalog import load_all, space_name

with deferred(__name__):
    from cse.experiments import run as experiments
    from cse.experiments import untrained

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Tables such as D7, space files, or all.")]
Out = Annotated[Path | None, typer.Option(help="Also write each table as ID.md and ID.json here.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before training.")]
REPEATED = ("profile", "data", "train_file", "train_columns", "senteval", "seeds", "workers")
"""Options that the printed command repeats where they were given; --set follows them."""


@options.add_arguments
def reproduce(
    ids: Ids,
    out: Out = None,
    until: options.Until = None,
    max_seeds: options.MaxSeeds = None,
    margin: options.Margin = TIE_MARGIN,
    yes: Yes = False,
    *,
    arguments: SweepArguments,
) -> int:
    """Train what published tables need, each shared run once, and print them with verdicts and cost."""
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError([f"not a folder: --out={out}; name a folder, new or not"])
    terms = options.terms(until, max_seeds, margin, arguments.seeds)
    requests = [add_looks(request, terms) for request in arguments.requests(load_all(ids))]
    screen.note("counting runs")
    sweep = _TableSweep(requests, arguments, out.resolve() if out else None)
    with sweep.finished:
        code = sweep.train(yes)
    if code == exit.INTERRUPTED:
        sweep.report_unfinished()
        return code
    return max(code, sweep.show())


def train_and_judge(requests: list[sweeping.Request], arguments: SweepArguments) -> list[study.Reproduction]:
    """Trains the runs that tables lack, without asking, and returns each table. Raises TableError for one that cannot
    be made."""
    sweep = _TableSweep(requests, arguments)
    sweep.finished = FinishedTables([], lambda place: None)
    with sweep.finished:
        sweep.train(yes=True)
    return [sweep.judge(place, sweep.ledger) for place in range(len(sweep.tables))]


class _TableSweep:
    """Tables whose runs one call trains together, and prints one by one; a table's place is its index in `tables`."""

    def __init__(
        self, requests: Sequence[sweeping.Request], arguments: SweepArguments, out: Path | None = None
    ) -> None:
        """Prints the plan of each table; tables of which every cell lacks an input are left out.

        Raises ConfigError if the code of a method has changed since its runs were trained.
        """
        self.arguments, self.out = arguments, out
        self.ledger = ledgers.open_ledger(arguments.ledger, arguments.storage, create=True)
        plan = sweeping.plan_of(requests, self.ledger)
        sweeping.check_code(requests[0], plan.changed())
        print(plan_command.text(plan), flush=True)
        self.tables: list[tuple[sweeping.Request, SpacePlan]] = []
        for request, space in zip(requests, plan.spaces, strict=True):
            if space.incomplete and all(run.signature in space.incomplete_runs for run in space.runs):
                print(f"{space.id}: left out, every cell lacks an input", flush=True)
            else:
                self.tables.append((request, space))
        self.finished = FinishedTables([_list_awaited(*table) for table in self.tables], self._print_finished)

    def train(self, yes: bool) -> int:
        """Trains the runs of all tables as one sweep, then each search within its own budget; returns the exit code."""
        grids = [request for request, space in self.tables if not space.is_search]
        searches = [(place, request) for place, (request, space) in enumerate(self.tables) if space.is_search]
        has_looks = bool(grids and grids[0].terms.looks)
        work = sweeping.work_of(grids, self.ledger, recorded=not has_looks) if grids else None
        source = self._looks(work) if work is not None and has_looks else None
        waiting = 0 if work is None else work.total - work.done if source is None else source.waiting
        if work is not None:
            print(
                f"{work.line() if source is None else source.line(work.total)}  (ledger {self.ledger.url})", flush=True
            )
        ask = waiting + len(searches) and not yes and sys.stdin.isatty()
        if ask and not typer.confirm(f"Start {waiting + len(searches)} runs (of a search: its budget)?"):
            return exit.DONE
        self._score_models()
        code = exit.DONE
        if work is not None and not (work.nothing_left if source is None else source.exhausted()):
            outcome = experiments.run_grid(grids[0], work, self.finished, source=source)
            code = print_outcome(outcome, self.ledger.url)
        for place, request in searches:
            if code != exit.INTERRUPTED:
                outcome = experiments.run_search(request, self.ledger)
                code = max(code, print_outcome(outcome, self.ledger.url))
                self.finished.whole(place)
        return code

    def _looks(self, work: Work) -> LookSource:
        """Returns the source of runs for interim analyses: the first analysis of every table that is not a search.

        A table that gets no more seeds is complete, and reported at once.
        """
        places = [place for place, (_, space) in enumerate(self.tables) if not space.is_search]

        def whole(number: int, plan: SpacePlan) -> None:
            place = places[number]
            request, before = self.tables[place]
            self.tables[place] = request, replace(plan, unevaluated=before.unevaluated)
            self.finished.whole(place)

        tables = [TableLooks(*self.tables[place]) for place in places]
        return LookSource(tables, self.ledger, whole, work.finished - work.unscored)

    def _score_models(self) -> None:
        """Scores the untrained models that papers print, before the runs; plans then say which could not be scored."""
        spaces = [request.resolved for request, _ in self.tables]
        if any(space.evaluated() for space in spaces):
            reasons = untrained.score_models(spaces, self.ledger, self.tables[0][0].paths, exit.tell)
            for place, (request, space) in enumerate(self.tables):
                self.tables[place] = request, replace(space, unevaluated=reasons[place])

    def show(self) -> int:
        """Prints tables that were not printed while runs were trained, and returns the exit code.

        A table that cannot be made is reported, and the others printed.
        """
        code = exit.DONE
        for place in self.finished.missed():
            try:
                self._print_page(self.judge(place, self.ledger))
            except TableError as error:
                exit.say([f"{self.tables[place][1].id}: {error}"])
                code = exit.MISTAKE
        return code

    def report_unfinished(self) -> None:
        """Reports what each unfinished table of an interrupted sweep lacks, and writes it as it is."""
        for place in self.finished.missed():
            with contextlib.suppress(TableError):  # the call that continues reports it
                page = self.judge(place, self.ledger, baselines_too=False)
                exit.say([f"{page.table.spec.id}: {line}" for line in page.lacking()])
                if self.out is not None:
                    study.write(page, self.out)

    def judge(self, place: int, ledger: Ledger, *, baselines_too: bool = True) -> study.Reproduction:
        """Returns one table from the ledger; `baselines_too` first scores rows without training. Raises TableError."""
        request, space = self.tables[place]
        elsewhere = {run.signature for _, other in self.tables if other is not space for run in other.runs}
        if baselines_too:
            untrained.ensure(request.resolved, ledger, request.paths)
        command = spell_command(space_name(request.resolved.space.file), self.arguments, request.terms)
        planned = plan_rows(space, request.seeds, ledger)
        return study.gather(
            space.resolved, planned, ledger, command, elsewhere, request.terms, space.incomplete, space.unevaluated
        )

    def _print_finished(self, place: int) -> None:
        # While Ray runs, the working folder is not the user's.
        request = self.tables[0][0]
        with contextlib.closing(Ledger.open(request.ledger, storage=request.options.storage)) as opened:
            self._print_page(self.judge(place, opened))

    def _print_page(self, page: study.Reproduction) -> None:
        """Prints a table with verdicts and the order of its rows, and writes it to the folder `out`.

        On a terminal the headline comes first, the basis of the numbers last; elsewhere it is Markdown.
        """
        text = page.markdown()
        if screen.width() is not None:
            head = f"{screen.bold(page.headline)}\n\n" if page.headline else ""
            table = table_text.show_table(page.table, page.verdicts, page.ordering)
            text = f"{head}{table}\n{screen.bold('Basis')}\n\n{table_text.list_lines(page.basis())}\n"
        written = "" if self.out is None else f"\nwritten: {', '.join(map(str, study.write(page, self.out)))}\n"
        print(f"\n{text}{written}", end="", flush=True)


def _list_awaited(request: sweeping.Request, space: SpacePlan) -> frozenset[str]:
    """Returns signatures of the runs after which the table is complete.

    It is empty for searches and tables with interim analyses, which report by themselves when they are complete.
    """
    if space.is_search or request.terms.looks:
        return frozenset()
    return frozenset(run.signature for run in space.runs) - space.incomplete_runs


def spell_command(name: str, arguments: SweepArguments, terms: Terms) -> str:
    """Returns the `cse reproduce` command line that prints one of the tables again."""
    words = ["cse", "reproduce", name, *spell_terms(terms)]
    for option in REPEATED:
        value = getattr(arguments, option)
        if value is not None and value != getattr(SweepArguments, option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    words += [word for pair in arguments.settings or [] for word in ("--set", pair)]
    return shlex.join([*words, *(("--ledger", mask_password(arguments.ledger)) if arguments.ledger else ())])
