"""`cse reproduce`: published tables given back with seeds, intervals, a verdict per value, and what they cost."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments, baselines, evidence, failure, searching, sweeping, table
from cluster.commands import plan as plan_command
from cluster.commands.shown_url import shown_url
from cluster.commands.sweep_options import SweepArguments, with_sweep_arguments
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cluster.planned import SpacePlan

    Tables = list[tuple[sweeping.Request, SpacePlan]]

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Tables such as D7, space files, or all.")]
Out = Annotated[Path | None, typer.Option(help="Also write each table as ID.md and ID.json here.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
REPEATED = ("profile", "data", "train_file", "senteval", "seeds", "workers")
"""Options that the printed command names where they were given; --set follows."""


@with_sweep_arguments
def reproduce(ids: Ids, given: SweepArguments, out: Out = None, yes: Yes = False) -> int:
    """Train what published tables need, each shared run once, and print them with verdicts and cost."""
    from cluster.commands.named import load_all

    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError([f"not a folder: --out={out}; name a folder, new or not"])
    out = out.resolve() if out else None
    requests = given.requests(load_all(ids))
    ledger = arguments.open_ledger(given.ledger, create=True)
    tables = _planned(requests, ledger)
    code = _train(tables, ledger, yes)
    if code == failure.INTERRUPTED:
        return code
    return max(code, _show(tables, ledger, given, out))


def _planned(requests: Sequence[sweeping.Request], ledger: "Ledger") -> "Tables":
    """Each table with its plan, printed; those of which every cell is blocked are told and left out. ConfigError."""
    from cluster.plan import plan_all

    first = requests[0]
    asked = [(request.resolved, tuple(request.seeds)) for request in requests]
    found = plan_all(asked, ledger, first.paths, workers=first.options.workers)
    print(plan_command.text(found), flush=True)
    both = list(zip(requests, found.spaces, strict=True))
    for _, space in both:
        if _wholly_blocked(space):
            print(f"{space.id}: left out, every cell is blocked", flush=True)
    return [(request, space) for request, space in both if not _wholly_blocked(space)]


def _wholly_blocked(space: "SpacePlan") -> bool:
    return bool(space.blocked) and all(run.signature in space.held for run in space.runs)


def _train(tables: "Tables", ledger: "Ledger", yes: bool) -> int:
    """One sweep for the runs of all tables, then each search within its own budget."""
    grids = [request for request, space in tables if not space.is_search]
    searches = [request for request, space in tables if space.is_search]
    work = sweeping.work_of_all(grids, ledger) if grids else None
    if work is not None:
        print(f"{work.line()}  (ledger {ledger.url})", flush=True)
    left = (0 if work is None else work.total - work.done) + len(searches)
    if left and not (yes or _agreed(left)):
        return failure.DONE
    code = failure.DONE
    if work is not None and not work.nothing_left:
        code = sweeping.told(sweeping.run_grid(grids[0], work), ledger.url)
    for request in searches:
        if code != failure.INTERRUPTED:
            code = max(code, sweeping.told(searching.run_search(request, ledger), ledger.url))
    return code


def _agreed(left: int) -> bool:
    """Ask a person at a terminal."""
    return not sys.stdin.isatty() or typer.confirm(f"Start {left} runs (of a search: its budget)?")


def _show(tables: "Tables", ledger: "Ledger", given: SweepArguments, out: Path | None) -> int:
    """Print each table with what is said of it; a table that cannot be made is told, and the others are."""
    from analysis.table_spec import TableError

    code = failure.DONE
    for request, space in tables:
        elsewhere = _signatures(other for _, other in tables if other is not space)
        try:
            _with_baselines(request)
            found = evidence.gather(request, space, ledger, repeated(space.id, given), elsewhere)
        except TableError as error:
            failure.say([f"{space.id}: {error}"])
            code = failure.MISTAKE
            continue
        print(f"\n{found.markdown()}", end="", flush=True)
        if out is not None:
            print(f"\nwritten: {', '.join(map(str, evidence.write(found, out)))}", flush=True)
    return code


def _signatures(spaces: "Iterable[SpacePlan]") -> frozenset[str]:
    return frozenset(run.signature for space in spaces for run in space.runs)


def _with_baselines(request: sweeping.Request) -> None:
    """Rows without training are computed once and stored beside the ledger."""
    folder, resolved = arguments.notes_folder(request.ledger, request.options.storage), request.resolved
    baselines.ensure(table.setups(resolved), table.columns_of(resolved), folder, request.paths)


def repeated(name: str, given: SweepArguments) -> str:
    """The command line that gives one table again."""
    words = ["cse", "reproduce", name]
    for option in REPEATED:
        value = getattr(given, option)
        if value is not None and value != getattr(SweepArguments, option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    words += [word for pair in given.settings or [] for word in ("--set", pair)]
    return shlex.join([*words, *(("--ledger", shown_url(given.ledger)) if given.ledger else ())])
