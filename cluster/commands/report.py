"""`cse report`: a space or a sweep as one HTML page with figures, out of the ledger."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.shown_url import shown_url
from cluster.commands import arguments, results, table
from cse_train.fields import ConfigError, nearest

if TYPE_CHECKING:
    from analysis.aggregate import Table
    from analysis.ledger import Ledger, SweepRow
    from analysis.ordering import Ordering
    from analysis.results import Planned
    from analysis.study import Member, Study
    from analysis.verdict import Verdicts
    from cluster.cells import ResolvedSpace

NAMED = 5
"""Missing runs that a message names."""

Name = Annotated[str, typer.Argument(metavar="FILE|ID|SWEEP", help="A space, or a sweep's name (cse ls).")]
Out = Annotated[
    Path | None, typer.Option(help="Folder of the page (reports/NAME beside the ledger).", show_default=False)
]
Figures = Annotated[bool, typer.Option("--figures", help="Also write each figure as PNG and PDF.")]


def report(
    name: Name,
    ledger: arguments.LedgerUrl = None,
    out: Out = None,
    figures: Figures = False,
    profile: arguments.Profile = None,
    seeds: arguments.Seeds = None,
    settings: arguments.Set = None,
    storage: arguments.Storage = None,
) -> None:
    """Write one self-contained HTML page: table, curves, importance, geometry, cost, provenance."""
    from analysis.report import make_report
    from analysis.report_facts import slug
    from analysis.report_page import write_report

    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError([f"not a folder: --out={out}; name a folder, new or not"])
    opened = arguments.existing_ledger(ledger)
    folder = arguments.notes_folder(arguments.ledger_url(ledger), arguments.storage_folder(storage))
    found = _sweep(name, opened)
    if found is not None and opened is not None:
        resolved, study, made = of_sweep(found, opened, folder, ledger)
    else:
        resolved = _space(name, opened).resolve(profile, arguments.settings(settings))
        study, made = of_space(resolved, _there(opened), folder, tuple(range(seeds)) if seeds else None, ledger)
    _check_finished(study)
    verdicts, ordering = compared(resolved, study, made, _there(opened))
    target = out or folder / "reports" / slug(study.id)
    print(write_report(make_report(study, made, verdicts, ordering), target, figures=figures))


def _sweep(name: str, ledger: "Ledger | None") -> "SweepRow | None":
    """The sweep of this very name, unless a shipped ID or a file has it."""
    from cluster.catalog import catalog

    if Path(name).is_file() or name.lower() in map(str.lower, catalog()):
        return None
    return next((sweep for sweep in ledger.sweeps() if sweep.id == name), None) if ledger else None


def _space(name: str, ledger: "Ledger | None") -> Any:
    """The space; ConfigError with the nearest of all IDs and sweeps."""
    from cluster.catalog import catalog
    from cluster.space import load_space

    known = [*catalog(), *(sweep.id for sweep in (ledger.sweeps() if ledger else []))]
    if not (Path(name).is_file() or name.lower() in map(str.lower, catalog())):
        raise ConfigError([f"unknown study: study={name}; {nearest(name, known)}"])
    return load_space(name)


def _there(ledger: "Ledger | None") -> "Ledger":
    if ledger is None:
        raise ConfigError(["no ledger yet: --ledger=results/ledger.db; cse run starts one, or name another"])
    return ledger


def of_space(
    resolved: "ResolvedSpace", ledger: "Ledger", folder: Path, seeds: Sequence[int] | None, url: str | None
) -> "tuple[Study, Table]":
    """A space's study: the runs that answer its cells, and the cells that no run answers."""
    from analysis.study import read_study

    answers = results.answers(resolved, ledger.runs(), seeds)
    planned = [(answer.key, answer.run.signature, answer.run.seed) for answer in answers]
    made = table.of_planned(resolved, ledger, folder, planned)
    space = resolved.space
    command = _command(str(space.file), resolved.profile.name, resolved.overrides, seeds or space.seeds, url)
    lacking = _unanswered(resolved, planned, seeds or space.seeds)
    study = read_study(
        ledger, [*planned, *lacking], id=space.id, title=space.title, axes=space.axis_names, command=command
    )
    return study, made


def _unanswered(resolved: "ResolvedSpace", planned: "Sequence[Planned]", seeds: Sequence[int]) -> "list[Planned]":
    """(cell, seed) without a run, for a space whose cells are all run; they have no signature yet."""
    if resolved.size() is None or resolved.space.sampled:
        return []
    have = {(repr(sorted(key.items())), seed) for key, _, seed in planned}
    keys = [results.full_key(resolved, cell.key) for cell in resolved.cells()]
    return [(key, "", seed) for key in keys for seed in seeds if (repr(sorted(key.items())), seed) not in have]


def of_sweep(
    sweep: "SweepRow", ledger: "Ledger", folder: Path, url: str | None
) -> "tuple[ResolvedSpace | None, Study, Table]":
    """A sweep's study: the runs linked to it, under its space's table where the file is still there."""
    from analysis.study import read_study

    links = ledger.cells(sweep.id)
    resolved = _resolved(sweep.spec, {axis for link in links for axis in link.cell})
    axes = resolved.space.axis_names if resolved else sorted({axis for link in links for axis in link.cell})
    planned = [({axis: link.cell.get(axis) for axis in axes}, link.signature, link.seed) for link in links]
    title = str(sweep.spec.get("title", ""))
    made = (
        table.of_planned(resolved, ledger, folder, planned) if resolved else _plain_table(sweep, axes, ledger, planned)
    )
    spec = sweep.spec
    command = _command(
        str(spec.get("file", sweep.id)), spec.get("profile"), spec.get("set", {}), spec.get("seeds"), url
    )
    study = read_study(ledger, planned, id=sweep.id, title=title, axes=axes, command=command)
    return resolved, study, made


def compared(
    resolved: "ResolvedSpace | None", study: "Study", made: "Table", ledger: "Ledger"
) -> "tuple[Verdicts, list[Ordering]]":
    """Verdicts and orders of a table that has published values; nothing for any other."""
    from analysis.ordering import orderings
    from analysis.verdict import judge
    from cluster.commands.evidence import kept_cosines
    from cluster.scale import unlike_paper

    if resolved is None or not made.spec.published:
        return {}, []
    planned = [(one.key, one.run.signature, one.seed) for one in study.members if one.run is not None]
    verdicts = judge(made, same_scale=not unlike_paper(resolved))
    return verdicts, orderings(made, kept_cosines(made, ledger, planned))


def _resolved(spec: Mapping[str, Any], axes: set[str]) -> "ResolvedSpace | None":
    """The space of a sweep as it ran; None where its file is gone or has other axes today."""
    from cluster.space import load_space

    try:
        resolved = load_space(str(spec["file"])).resolve(spec["profile"], spec["set"])
    except (KeyError, ConfigError):
        return None
    return resolved if axes <= set(resolved.space.axis_names) else None


def _plain_table(sweep: "SweepRow", axes: Sequence[str], ledger: "Ledger", planned: "Sequence[Planned]") -> "Table":
    """A table of what was scored, for a sweep whose space is not known any more."""
    from analysis.aggregate import aggregate
    from analysis.results import BEST, results_of
    from analysis.table_spec import TableSpec

    suites = sorted({score.suite for score in ledger.scores(signature for _, signature, _ in planned)})
    rows = list({repr(key): dict(key) for key, _, _ in planned}.values())
    spec = TableSpec(
        id=sweep.id, title=str(sweep.spec.get("title", "")), axes=list(axes), columns=suites or [BEST], rows=rows
    )
    return aggregate(spec, results_of(ledger, planned, spec.columns))


def _command(
    space: str, profile: str | None, overrides: Mapping[str, Any], seeds: Sequence[int] | None, url: str | None
) -> str:
    """The command line that runs what is missing and prints the table."""
    words = ["cse", "run", space, *(("--profile", profile) if profile else ())]
    words += [word for key, value in sorted(overrides.items()) for word in ("--set", f"{key}={value}")]
    words += ["--seeds", str(len(seeds))] if seeds else []
    return shlex.join([*words, *(("--ledger", shown_url(url)) if url else ())])


def _check_finished(study: "Study") -> None:
    """ConfigError that names what is missing when no run has a result."""
    if study.finished:
        return
    some = ", ".join(_told(member) for member in study.missing[:NAMED])
    more = f" and {len(study.missing) - NAMED} more" if len(study.missing) > NAMED else ""
    lacking = f"; missing: {some}{more}" if some else ""
    raise ConfigError([f"no finished run: study={study.id}{lacking}; {study.command} runs them"])


def _told(member: "Member") -> str:
    return f"{member.cell} seed {member.seed} ({member.state})"
