"""Collects the contents of `cse site`: every published table with all results in a ledger, at each scale."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.answers.build import spec_of
from analysis.answers.explain import command
from analysis.answers.judge import judge, read_terms
from analysis.answers.lookup import space_of_sweep
from analysis.answers.paper_scale import name_scale
from analysis.answers.study import add_left_out, judge_study, read_space, read_sweep, spell_terms
from analysis.ledger import Ledger, SweepRow
from analysis.render.formats import render
from analysis.study.study import Member, Study, sum_cost
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.results import drop_part
from analysis.tables.spec import identify
from cluster.plan.planner import plan
from cse.site.content import RowId, Scale, Sheet, SheetState, Site
from cse_train.data_paths import DataPaths
from search_spaces.catalog import ALL, load_all, profiles, space_name
from search_spaces.cell_names import setting
from search_spaces.cells import PAPER_PROFILE, PART, Cell, ResolvedSpace, full_key, resolve, sweep_name
from search_spaces.space import Space


def gather(ledger: Ledger, sources: Sequence[str]) -> Site:
    """Returns all published tables in their papers' order, then the ledger's other spaces.

    `sources`: names of files or of the ledger, for the page's foot. The same ledger gives the same site. Raises
    TableError for a table that cannot be made.
    """
    spaces_by_id: dict[str, list[ResolvedSpace]] = {}
    imported = [sweep for sweep in ledger.sweeps() if sweep.spec.imported is not None]
    for sweep in ledger.sweeps():
        resolved = space_of_sweep(sweep)
        if resolved is not None:
            spaces_by_id.setdefault(resolved.space.id, []).append(resolved)
    published = load_all([ALL])
    others = [each[0].space for id, each in sorted(spaces_by_id.items()) if id not in {space.id for space in published}]
    by_space = {sweep.spec.space: [s for s in imported if s.spec.space == sweep.spec.space] for sweep in imported}
    sheets = [
        _sheet(space, spaces_by_id.get(space.id, ()), by_space.get(space.id, ()), ledger)
        for space in [*published, *others]
    ]
    sheets += [_sheet_of_imported(sweep, ledger) for sweep in imported if not sweep.spec.file]
    return Site([sheet for sheet in sheets if sheet.citation or sheet.scales], sources)


def _sheet(space: Space, sweep_spaces: Sequence[ResolvedSpace], imported: Sequence[SweepRow], ledger: Ledger) -> Sheet:
    paper, at_paper = space.paper, resolve(space, PAPER_PROFILE)
    printed = [identify(full_key(at_paper, row.key)) for row in paper.rows] if paper else []
    layout = add_left_out(aggregate(spec_of(at_paper), []), at_paper)
    if space.search is not None and paper is not None:  # the rows that a search may draw are not the paper's
        layout = replace(layout, rows=[row for row in layout.rows if identify(row.key) in printed])
    labelled = at_paper.rows() if space.cells else ()
    scales = [*_scales(space, sweep_spaces, ledger), *(_scale_of_imported(sweep, ledger) for sweep in imported)]
    scales.sort(key=lambda scale: scale.rank, reverse=True)
    missing_inputs, blocked = _find_lacking(space)
    return Sheet(
        id=space.id,
        title=space.title,
        state=_state(space, scales, blocked),
        layout=layout,
        citation=paper.citation if paper else "",
        where=paper.table if paper else "",
        source=paper.source if paper else "",
        metric=paper.metric if paper else "",
        methods=space.methods(),
        suites=space.evaluate,
        unrun=judge(layout, same_scale=True),
        printed=[] if space.search is not None else printed,
        names={identify(full_key(at_paper, cell.key)): cell.label for cell in labelled if cell.label},
        scales=scales,
        lacking=missing_inputs,
    )


def _sheet_of_imported(sweep: SweepRow, ledger: Ledger) -> Sheet:
    """Returns the table of another tool's runs, for which no space declares what varies."""
    scale, methods = _scale_of_imported(sweep, ledger), [str(sweep.spec.imported)]
    return Sheet(sweep.id, sweep.spec.title, SheetState.DONE, scale.table, methods=methods, scales=[scale])


def _scale_of_imported(sweep: SweepRow, ledger: Ledger) -> Scale:
    """Returns imported runs as a scale; at the paper's own scale if they belong to its table."""
    resolved, study, table = read_sweep(sweep, ledger, None)
    name = f"{sweep.id}, imported from {sweep.spec.imported}"
    if resolved is not None:
        return replace(_scale(name, resolved, study, table, ledger, name), commands={})
    files = {form: render(table, form) for form in ("json", "csv")}
    return Scale(name, table, study, sum_cost(study), {"code": (["another"], ["ours"])}, name, files)


def _scales(space: Space, sweep_spaces: Sequence[ResolvedSpace], ledger: Ledger) -> Iterator[Scale]:
    """Yields scales with measured values, most decided first, without those whose runs another scale contains."""
    # With the shipped profiles: a run of one table may be a run of another, whose sweep nobody has started.
    by_name = {}
    for resolved in (*(resolve(space, name) for name in profiles()), *sweep_spaces):
        overrides = [setting(key, value) for key, value in sorted(resolved.overrides.items())]
        by_name[", ".join([resolved.profile.name, *overrides])] = resolved
    read = {name: read_space(resolved, ledger, None, None) for name, resolved in by_name.items()}
    scales = [
        (
            frozenset(run.signature for _, run in study.finished),
            _scale(name, by_name[name], _with_command(by_name[name], study, ledger), table, ledger),
        )
        for name, (study, table) in read.items()
        if study.finished or table.untrained
    ]
    scales.sort(key=lambda pair: pair[1].rank, reverse=True)
    shown: list[frozenset[str]] = []
    for signatures, scale in scales:
        if not any(signatures <= other for other in shown) or not signatures:
            shown.append(signatures)
            yield scale


def _with_command(resolved: ResolvedSpace, study: Study, ledger: Ledger) -> Study:
    """Returns the study with the command line that trains the table again and prints it."""
    seeds = 1 + max((member.seed for member, _ in study.finished), default=len(resolved.space.seeds) - 1)
    terms = read_terms(ledger.sweep_spec(sweep_name(resolved)))
    words = ["cse", "reproduce" if resolved.space.paper else "run", space_name(resolved.space.file)]
    words += ["--profile", resolved.profile.name, *(() if terms.looks else ("--seeds", str(seeds)))]
    words += spell_terms(terms)
    words += [word for key, value in sorted(resolved.overrides.items()) for word in ("--set", setting(key, value))]
    return replace(study, command=shlex.join(words))


def _scale(name: str, resolved: ResolvedSpace, study: Study, table: Table, ledger: Ledger, title: str = "") -> Scale:
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    page = judge_study(resolved, study, table, ledger, planned)
    plain = json.dumps(page.as_dict(), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    return Scale(
        name=name,
        table=page.table,
        study=page.study,
        spent=page.spent,
        unlike=page.unlike,
        title=title or name_scale(resolved),
        files={"json": plain, "csv": render(page.table, "csv", page.verdicts, page.ordering)},
        verdicts=page.verdicts,
        ordering=page.ordering,
        headline=page.headline,
        commands=_commands(resolved, page.study.members),
    )


def _commands(resolved: ResolvedSpace, members: Sequence[Member]) -> Mapping[RowId, Sequence[str]]:
    """Returns row -> command lines that train each of its cells again."""
    by_cell: dict[tuple[RowId, str | None], tuple[Cell, list[Member]]] = {}
    for member in members:
        if member.run is not None:
            part = member.key.get(PART)
            key = {axis: value for axis, value in drop_part(member.key).items() if value is not None}
            cell = resolved.cell(key, part=None if part is None else str(part))
            by_cell.setdefault((identify(drop_part(member.key)), cell.part), (cell, []))[1].append(member)
    commands: dict[RowId, list[str]] = {}
    for (row, _), (cell, runs) in by_cell.items():
        rows = [member.run for member in runs if member.run is not None]
        commands.setdefault(row, []).append(command(resolved, cell, sorted(run.seed for run in rows), rows))
    return commands


def _find_lacking(space: Space) -> tuple[list[str], bool]:
    """Returns what cells lack if only data are at hand that every user has, and True if no cell is left to train."""
    (planned,) = plan([space], None, None, None, DataPaths()).spaces
    reasons = dict.fromkeys(reason for cell in planned.incomplete for reason in cell.reasons)
    cells = {run.signature for run in planned.runs}
    is_empty = not planned.is_search and not cells and not any(resolve(space).evaluated().values())
    return list(reasons), is_empty or (bool(cells) and cells <= planned.incomplete_runs)


def _state(space: Space, scales: Sequence[Scale], blocked: bool) -> SheetState:
    """Returns `done` if at some scale every run is done and every row with runs has all scores that can be computed."""
    if not scales:
        return SheetState.BLOCKED if blocked else SheetState.NOT_RUN
    unscored = space.paper.unscored if space.paper else {}
    for scale in scales:
        entries = [entry for row in scale.table.rows if scale.members(row) for entry in row.entries.items()]
        scored = all(entry.n for column, entry in entries if column not in unscored)
        if scored and not scale.study.missing and all(model.values for model in scale.table.untrained.values()):
            return SheetState.DONE
    return SheetState.PARTIAL
