"""`cse reproduce`: trains published tables again, with seeds, intervals, a verdict for each value, and their cost."""

import contextlib
import shlex
import sys
from collections.abc import Iterable, Sequence
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
from cse.cli.sweep_options import SweepArguments
from cse.experiments import request as sweeping
from cse.experiments.finished_tables import FinishedTables
from cse.experiments.looks import LookSource, TableLooks, add_looks
from cse.experiments.request import Work
from cse.experiments.undecided import plan_rows
from cse_train.fields import ConfigError
from search_spaces.catalog import load_all, space_name

with deferred(__name__):
    from cse.experiments import baselines as untrained
    from cse.experiments import evaluated
    from cse.experiments import run as experiments

Tables = list[tuple[sweeping.Request, SpacePlan]]

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Tables such as D7, space files, or all.")]
Out = Annotated[Path | None, typer.Option(help="Also write each table as ID.md and ID.json here.", show_default=False)]
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
    out = out.resolve() if out else None
    terms = options.terms(until, max_seeds, margin, arguments.seeds)
    requests = [add_looks(request, terms) for request in arguments.requests(load_all(ids))]
    ledger = ledgers.open_ledger(arguments.ledger, arguments.storage, create=True)
    screen.note("counting runs")
    tables = _plan(requests, ledger)

    def print_finished(place: int) -> None:
        # While Ray runs, the working folder is not the user's.
        with contextlib.closing(Ledger.open(requests[0].ledger, storage=requests[0].options.storage)) as opened:
            _print_page(_judge_table(tables, place, opened, arguments), out)

    with FinishedTables([_list_awaited(*table) for table in tables], print_finished) as finished:
        code = _train(tables, ledger, yes, finished)
    if code == exit.INTERRUPTED:
        _report_unfinished(tables, finished.missed(), ledger, arguments, out)
        return code
    return max(code, _show(tables, finished.missed(), ledger, arguments, out))


def train_and_judge(requests: list[sweeping.Request], arguments: SweepArguments) -> list[study.Reproduction]:
    """Trains the runs that tables lack, without asking, and returns each table. Raises TableError for one that cannot
    be made."""
    ledger = ledgers.open_ledger(arguments.ledger, arguments.storage, create=True)
    tables = _plan(requests, ledger)
    with FinishedTables([], lambda place: None) as finished:
        _train(tables, ledger, True, finished)
    return [_judge_table(tables, place, ledger, arguments) for place in range(len(tables))]


def _list_awaited(request: sweeping.Request, space: SpacePlan) -> frozenset[str]:
    """Returns signatures of the runs after which the table is complete; empty for searches and interim analyses.

    Searches and tables with interim analyses report by themselves when they are complete.
    """
    if space.is_search or request.terms.looks:
        return frozenset()
    return frozenset(run.signature for run in space.runs) - space.incomplete_runs


def _plan(requests: Sequence[sweeping.Request], ledger: Ledger) -> Tables:
    """Prints and returns the plan of each table; tables of which every cell lacks an input are left out.

    Raises ConfigError if the code of a method has changed since its runs were trained.
    """
    plan = sweeping.plan_of(requests, ledger)
    sweeping.check_code(requests[0], plan.changed())
    print(plan_command.text(plan), flush=True)
    both = list(zip(requests, plan.spaces, strict=True))
    for _, space in both:
        if _lacks_all_inputs(space):
            print(f"{space.id}: left out, every cell lacks an input", flush=True)
    return [(request, space) for request, space in both if not _lacks_all_inputs(space)]


def _lacks_all_inputs(space: SpacePlan) -> bool:
    return bool(space.incomplete) and all(run.signature in space.incomplete_runs for run in space.runs)


def _train(tables: Tables, ledger: Ledger, yes: bool, finished: FinishedTables) -> int:
    """Trains the runs of all tables as one sweep, then each search within its own budget; returns the exit code."""
    grids = [request for request, space in tables if not space.is_search]
    searches = [(place, request) for place, (request, space) in enumerate(tables) if space.is_search]
    has_looks = bool(grids and grids[0].terms.looks)
    work = sweeping.work_of(grids, ledger, recorded=not has_looks) if grids else None
    source = _looks(tables, work, ledger, finished) if work is not None and has_looks else None
    waiting = 0 if work is None else work.total - work.done if source is None else source.waiting
    if work is not None:
        print(f"{work.line() if source is None else source.line(work.total)}  (ledger {ledger.url})", flush=True)
    ask = waiting + len(searches) and not yes and sys.stdin.isatty()
    if ask and not typer.confirm(f"Start {waiting + len(searches)} runs (of a search: its budget)?"):
        return exit.DONE
    _score_models(tables, ledger)
    code = exit.DONE
    if work is not None and not (work.nothing_left if source is None else source.exhausted()):
        code = exit.print_outcome(experiments.run_grid(grids[0], work, finished, source=source), ledger.url)
    for place, request in searches:
        if code != exit.INTERRUPTED:
            code = max(code, exit.print_outcome(experiments.run_search(request, ledger), ledger.url))
            finished.whole(place)
    return code


def _looks(tables: Tables, work: Work, ledger: Ledger, finished: FinishedTables) -> LookSource:
    """Returns the source of runs for interim analyses: the first analysis of every table that is not a search.

    A table that gets no more seeds is complete, and reported at once.
    """
    places = [place for place, (_, space) in enumerate(tables) if not space.is_search]

    def whole(number: int, plan: SpacePlan) -> None:
        place = places[number]
        tables[place] = tables[place][0], replace(plan, unevaluated=tables[place][1].unevaluated)
        finished.whole(place)

    return LookSource([TableLooks(*tables[place]) for place in places], ledger, whole, work.finished - work.unscored)


def _score_models(tables: Tables, ledger: Ledger) -> None:
    """Scores the untrained models that papers print, before the runs; the plans then say which could not be scored."""
    if any(request.resolved.evaluated() for request, _ in tables):
        spaces, paths = [request.resolved for request, _ in tables], tables[0][0].paths
        reasons = evaluated.score_models(spaces, ledger, paths, exit.tell)
        tables[:] = [
            (request, replace(space, unevaluated=reasons_of_table))
            for (request, space), reasons_of_table in zip(tables, reasons, strict=True)
        ]


def _show(tables: Tables, places: Iterable[int], ledger: Ledger, arguments: SweepArguments, out: Path | None) -> int:
    """Prints reproduced tables and returns the exit code; a table that cannot be made is reported, and the others
    printed."""
    code = exit.DONE
    for place in places:
        try:
            _print_page(_judge_table(tables, place, ledger, arguments), out)
        except TableError as error:
            exit.say([f"{tables[place][1].id}: {error}"])
            code = exit.MISTAKE
    return code


def _print_page(page: study.Reproduction, out: Path | None) -> None:
    """Prints a table with verdicts and the order of its rows, and writes it to the folder `out`."""
    written = "" if out is None else f"\nwritten: {', '.join(map(str, study.write(page, out)))}\n"
    print(f"\n{_text(page)}{written}", end="", flush=True)


def _text(page: study.Reproduction) -> str:
    """Returns a reproduced table as text: the headline first, the basis of the numbers last."""
    if screen.width() is None:
        return page.markdown()
    head = f"{screen.bold(page.headline)}\n\n" if page.headline else ""
    text = table_text.show_table(page.table, page.verdicts, page.ordering)
    return f"{head}{text}\n{screen.bold('Basis')}\n\n{table_text.list_lines(page.basis())}\n"


def _report_unfinished(
    tables: Tables, places: Iterable[int], ledger: Ledger, arguments: SweepArguments, out: Path | None
) -> None:
    """Reports what each unfinished table of an interrupted sweep lacks, and writes it as it is."""
    for place in places:
        with contextlib.suppress(TableError):  # the call that continues reports it
            page = _judge_table(tables, place, ledger, arguments, baselines_too=False)
            exit.say([f"{page.table.spec.id}: {line}" for line in page.lacking()])
            if out is not None:
                study.write(page, out)


def _judge_table(
    tables: Tables, place: int, ledger: Ledger, arguments: SweepArguments, *, baselines_too: bool = True
) -> study.Reproduction:
    """Returns one table from the ledger; `baselines_too` first scores rows that need no training. Raises TableError."""
    request, space = tables[place]
    elsewhere = {run.signature for _, other in tables if other is not space for run in other.runs}
    if baselines_too:
        untrained.ensure(request.resolved, ledger, request.paths)
    command = spell_command(space_name(request.resolved.space.file), arguments, request.terms)
    planned = plan_rows(space, request.seeds, ledger)
    incomplete, unevaluated = space.incomplete, space.unevaluated
    return study.gather(space.resolved, planned, ledger, command, elsewhere, request.terms, incomplete, unevaluated)


def spell_command(name: str, arguments: SweepArguments, terms: Terms) -> str:
    """Returns the `cse reproduce` command line that prints one of the tables again."""
    words = ["cse", "reproduce", name, *spell_terms(terms)]
    for option in REPEATED:
        value = getattr(arguments, option)
        if value is not None and value != getattr(SweepArguments, option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    words += [word for pair in arguments.settings or [] for word in ("--set", pair)]
    return shlex.join([*words, *(("--ledger", mask_password(arguments.ledger)) if arguments.ledger else ())])
