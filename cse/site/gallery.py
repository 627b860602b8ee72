"""Collects the contents of `cse site`: every published table with all results in a ledger, at each scale."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.answers.build import spec_of
from analysis.answers.explain import command
from analysis.answers.lookup import space_of_sweep
from analysis.answers.paper_scale import name_scale
from analysis.answers.reproduction import Reproduction, add_left_out, judge_study
from analysis.answers.study import read_space, read_sweep, spell_terms
from analysis.ledger import Ledger, SweepRow
from analysis.render.formats import render
from analysis.study.cost import sum_cost
from analysis.study.study import Member, Study
from analysis.sweep_spec import SweepSpec
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.directions import read_terms
from analysis.tables.results import drop_part
from analysis.tables.spec import identify
from analysis.tables.verdict import judge
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
    paper = space.paper
    layout = _layout(space)
    scales = [*_scales(space, sweep_spaces, ledger), *(_scale_of_imported(sweep, ledger) for sweep in imported)]
    scales.sort(key=lambda scale: scale.rank, reverse=True)
    missing_inputs, blocked = _find_lacking(space)
    return Sheet(
        id=space.id,
        title=space.title,
        citation=paper.citation if paper else "",
        where=paper.table if paper else "",
        source=paper.source if paper else "",
        metric=paper.metric if paper else "",
        notes=layout.spec.notes,
        methods=space.methods(),
        suites=space.evaluate,
        state=_state(space, scales, blocked),
        layout=layout,
        unrun=judge(layout, same_scale=True),
        printed=_list_printed(space),
        names=_names(space),
        scales=scales,
        lacking=missing_inputs,
    )


def _sheet_of_imported(sweep: SweepRow, ledger: Ledger) -> Sheet:
    """Returns the table of another tool's runs, for which no space declares what varies."""
    scale = _scale_of_imported(sweep, ledger)
    return Sheet(
        id=sweep.id,
        title=sweep.spec.title,
        citation="",
        where="",
        source="",
        metric="",
        notes=(),
        methods=[str(sweep.spec.imported)],
        suites=(),
        state=SheetState.DONE,
        layout=scale.table,
        unrun={},
        scales=[scale],
    )


def _scale_of_imported(sweep: SweepRow, ledger: Ledger) -> Scale:
    """Returns imported runs as a scale; at the paper's own scale if they belong to its table."""
    resolved, study, table = read_sweep(sweep, ledger, None)
    name = f"{sweep.id}, imported from {sweep.spec.imported}"
    if resolved is not None:
        planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run]
        page = judge_study(resolved, study, table, ledger, planned)
        return replace(_scale(name, resolved, page, name), commands={})
    return Scale(
        name=name,
        table=table,
        verdicts={},
        ordering=(),
        study=study,
        spent=sum_cost(study),
        unlike={"code": (["another"], ["ours"])},
        title=name,
        headline="",
        commands={},
        files={form: render(table, form) for form in ("json", "csv")},
    )


def _layout(space: Space) -> Table:
    """Returns the table as the paper prints it, without measured values; for a search, only its printed rows."""
    resolved = resolve(space, PAPER_PROFILE)
    table = add_left_out(aggregate(spec_of(resolved), []), resolved)
    if space.search is None or space.paper is None:
        return table
    printed = {identify(full_key(resolved, row.key)) for row in space.paper.rows}
    return replace(table, rows=[row for row in table.rows if identify(row.key) in printed])


def _list_printed(space: Space) -> list[RowId]:
    """Returns the paper's rows in order; empty for a search."""
    if space.paper is None or space.search is not None:
        return []
    resolved = resolve(space, PAPER_PROFILE)
    return [identify(full_key(resolved, row.key)) for row in space.paper.rows]


def _names(space: Space) -> dict[RowId, str]:
    """Returns row -> label, for cells that a space lists with labels."""
    if not space.cells:
        return {}
    resolved = resolve(space, PAPER_PROFILE)
    return {identify(full_key(resolved, cell.key)): cell.label for cell in resolved.rows() if cell.label}


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
            _scale(name, by_name[name], _page(by_name[name], study, table, ledger)),
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


def _page(resolved: ResolvedSpace, study: Study, table: Table, ledger: Ledger) -> Reproduction:
    seeds = 1 + max((member.seed for member, _ in study.finished), default=len(resolved.space.seeds) - 1)
    study = replace(study, command=_command(resolved, seeds, ledger.sweep_spec(sweep_name(resolved))))
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    return judge_study(resolved, study, table, ledger, planned)


def _command(resolved: ResolvedSpace, seeds: int, spec: SweepSpec) -> str:
    """Returns the command line that trains the table again and prints it."""
    words = ["cse", "reproduce" if resolved.space.paper else "run", space_name(resolved.space.file)]
    terms = read_terms(spec)
    words += [
        "--profile",
        resolved.profile.name,
        *(() if terms.looks else ("--seeds", str(seeds))),
        *spell_terms(terms),
    ]
    words += [word for key, value in sorted(resolved.overrides.items()) for word in ("--set", setting(key, value))]
    return shlex.join(words)


def _scale(name: str, resolved: ResolvedSpace, page: Reproduction, title: str = "") -> Scale:
    plain = json.dumps(page.as_dict(), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    return Scale(
        name=name,
        table=page.table,
        verdicts=page.verdicts,
        ordering=page.ordering,
        study=page.study,
        spent=page.spent,
        unlike=page.unlike,
        title=title or name_scale(resolved),
        headline=page.headline,
        commands=_commands(resolved, page.study.members),
        files={"json": plain, "csv": render(page.table, "csv", page.verdicts, page.ordering)},
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
    if not scales:
        return SheetState.BLOCKED if blocked else SheetState.NOT_RUN
    return SheetState.DONE if any(_whole(space, scale) for scale in scales) else SheetState.PARTIAL


def _whole(space: Space, scale: Scale) -> bool:
    """Returns True if every run of the scale is done and every row with runs has all scores that can be computed."""
    unscored = space.paper.unscored if space.paper else {}
    models = scale.table.untrained.values()
    trained_rows = [row for row in scale.table.rows if scale.members(row)]
    scored = all(entry.n for row in trained_rows for column, entry in row.entries.items() if column not in unscored)
    return scored and not scale.study.missing and all(model.values for model in models)
