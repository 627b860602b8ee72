"""Reads the study and the table of a space or a sweep, and judges the table by its paper's.

`cse report` and the tables of imported sweeps need no more; `cse reproduce` and the site add cost, environment and what
is missing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis.answers import build
from analysis.answers.build import NOTHING
from analysis.answers.explain import run_command
from analysis.answers.imported import RULE, list_caveats, metric_of_spec, scale_of_protocols
from analysis.answers.judge import Terms, Verdicts, judge, read_terms
from analysis.answers.lookup import space_of_sweep
from analysis.answers.paper_scale import Unlike, tell_unlike, unlike_paper
from analysis.ledger import Ledger, SweepRow, mask_password
from analysis.matching import add_versions, match_on, one_data_set
from analysis.render.formats import render
from analysis.render.verdicts import headline
from analysis.report.facts import environment, inputs
from analysis.study.study import Spent, Study, read_study, sum_cost
from analysis.tables.aggregate import Row, Table, aggregate
from analysis.tables.columns import entry_of
from analysis.tables.labels import label, some, varying
from analysis.tables.ordering import Ordering, orderings
from analysis.tables.pair_cosines import ColumnCosines, column_cosines
from analysis.tables.results import BEST_COLUMN, Planned, results_of
from analysis.tables.spec import Key, TableSpec, identify
from cse_train.fields import Settings
from cse_train.files import replace_text
from search_spaces import cells
from search_spaces.catalog import space_name
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.missing_inputs import IncompleteCell, group_by_reason


def read_space(
    resolved: ResolvedSpace,
    ledger: Ledger,
    seeds: Sequence[int] | None,
    url: str | None,
    data_hash: str | None = None,
) -> tuple[Study, Table]:
    """Returns a space's study and table: the runs of its cells, all on one data set, and the cells without a run."""
    matches, notes = match_on(resolved, ledger.runs(), seeds, data_hash=data_hash)
    planned = [matched.planned for matched in matches]
    table = _add_notes(build.build_planned(resolved, ledger, planned, published=True), notes)
    seeds = seeds or resolved.space.seeds
    command = _command(str(resolved.space.file), resolved.profile.name, resolved.given(), seeds, url)
    unanswered: list[Planned] = []  # each (cell, seed) without a run, for a space whose cells are all run
    if resolved.size() is not None and not resolved.space.sampled:
        answered = {(repr(sorted(key.items())), seed) for key, _, seed in planned}
        for key in (cells.full_key(resolved, cell.key) for cell in resolved.cells()):
            name = repr(sorted(key.items()))
            unanswered += [(key, "", seed) for seed in seeds if (name, seed) not in answered]
    return _read_study(resolved, ledger, [*planned, *unanswered], command), table


def _read_study(resolved: ResolvedSpace, ledger: Ledger, planned: Sequence[Planned], command: str) -> Study:
    space = resolved.space
    axes = [*space.axis_names, cells.PART]
    return read_study(
        ledger, planned, id=space.id, title=space.title, axes=axes, command=command, searched=space.sampled
    )


def read_sweep(
    sweep: SweepRow, ledger: Ledger, url: str | None, data_hash: str | None = None
) -> tuple[ResolvedSpace | None, Study, Table]:
    """Returns a sweep's space, study and table: the linked runs, in the space's table where its file still fits.

    Of several data sets and VERSIONs the newest counts, or those with a hash that begins with `data_hash`; a note
    counts the others.
    """
    runs = add_versions(ledger.runs(sweep=sweep.id))
    data = one_data_set(runs, runs, data_hash)
    left_out = {run.signature for run in data.left_out}
    links = [link for link in ledger.cells(sweep.id) if link.signature not in left_out]
    linked = {axis for link in links for axis in link.cell}
    resolved = space_of_sweep(sweep)
    if resolved is not None and not linked <= {*resolved.space.axis_names, cells.PART}:
        resolved = None  # the file has other axes today
    every = sorted(linked)
    varied = varying([link.cell for link in links], every) if sweep.spec.imported else every
    axes = resolved.space.axis_names if resolved else varied
    keys = [cells.full_key(resolved, link.cell) if resolved else {a: link.cell.get(a) for a in axes} for link in links]
    planned = [(key, link.signature, link.seed) for key, link in zip(keys, links, strict=True)]
    if resolved:
        table = build.build_planned(resolved, ledger, planned, published=True)
    else:
        table = _plain_table(sweep, axes, ledger, planned)
    spec = sweep.spec
    if spec.imported is not None:  # a profile's settings are ours, and the runs are others'
        rule = {RULE: table.protocol[RULE]} if RULE in table.protocol else {}
        table = replace(_add_notes(table, list_caveats(sweep, ledger)), protocol=rule)
    table = _add_notes(table, data.notes())
    command = _command(spec.file or sweep.id, spec.profile, spec.settings, spec.seeds, url)
    names = [*axes, cells.PART]
    study = read_study(
        ledger, planned, id=sweep.id, title=spec.title, axes=names, command=command, searched=spec.asked is not None
    )
    return resolved, study, table


def compare_with_paper(
    resolved: ResolvedSpace | None, study: Study, table: Table, ledger: Ledger
) -> tuple[Verdicts, list[Ordering]]:
    """Returns verdicts and orders of a table that has published values; empty for any other table."""
    if resolved is None or not table.spec.published:
        return {}, []
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    return _judge(resolved, study, table, ledger)[0], orderings(table, read_stored_cosines(table, ledger, planned))


def read_judged(
    sweep: SweepRow, ledger: Ledger, url: str | None, data_hash: str | None = None
) -> tuple[Table, Verdicts | None]:
    """Returns a sweep's table, with verdicts where the sweep has a paper's table with published values."""
    resolved, study, table = read_sweep(sweep, ledger, url, data_hash)
    if resolved is None or not table.spec.published:
        return table, None
    verdicts = _judge(resolved, study, table, ledger)[0]
    return table, {place: verdict for place, verdict in verdicts.items() if verdict.word != "not run"}


def _judge(resolved: ResolvedSpace, study: Study, table: Table, ledger: Ledger) -> tuple[Verdicts, float | None]:
    """Returns the verdicts, and the mean seconds of a run."""
    cost = sum_cost(study)
    terms = read_terms(ledger.sweep_spec(cells.sweep_name(resolved)), cost.seconds / max(1, cost.runs))
    return judge(table, same_scale=not unlike_paper(resolved), terms=terms), terms.seconds


def still_open(sweep: SweepRow, ledger: Ledger, url: str | None) -> dict[str, object]:
    """Returns the headline of a sweep's table, its undecided rows, and the command that adds seeds, as plain values.

    Empty where the table has no published values.
    """
    resolved, study, table = read_sweep(sweep, ledger, url)
    if resolved is None or not table.spec.published:
        return {}
    verdicts, seconds = _judge(resolved, study, table, ledger)
    undecided = [(place, verdict) for place, verdict in verdicts.items() if verdict.word == "undecided"]
    more_seeds = min((verdict.more_seeds for _, verdict in undecided if verdict.more_seeds), default=None)
    seeds = max((entry.n for row in table.rows for entry in row.entries.values()), default=0)
    return {
        "headline": headline(table, verdicts, same_scale=not unlike_paper(resolved), seconds=seconds),
        "command": _spell_more_seeds(resolved.space.file, sweep, seeds, seeds + (more_seeds or 1), url)
        if undecided
        else "",
        "open": [
            {"row": label(table.rows[row].key), "column": column, "reason": v.reason, "more_seeds": v.more_seeds}
            for (row, column), v in undecided
        ],
    }


def _spell_more_seeds(space: Path, sweep: SweepRow, seeds: int, total_seeds: int, url: str | None) -> str:
    """Returns the command that trains more seeds of a table that has `seeds`; empty after the last declared look."""
    spec, terms = sweep.spec, read_terms(sweep.spec)
    if terms.looks and seeds >= terms.looks[-1]:
        return ""
    words = [*spell_terms(terms), *(("--ledger", mask_password(url)) if url else ())]
    counted = None if terms.looks else range(total_seeds)
    settings = dict(sorted(spec.settings.items()))
    command = run_command(space_name(space), spec.profile, settings, counted, words)
    return command.replace("cse run", "cse reproduce", 1)


def spell_terms(terms: Terms) -> list[str]:
    """Returns the command-line options that declare terms of verdicts; none for the default ones."""
    looks = ["--until", "decided", "--max-seeds", str(terms.looks[-1])] if terms.looks else []
    return [*looks, *(("--margin", f"{terms.margin:g}") if terms.margin != Terms().margin else ())]


def _add_notes(table: Table, notes: Sequence[str]) -> Table:
    return replace(table, notes=[*table.notes, *notes])


def _plain_table(sweep: SweepRow, axes: Sequence[str], ledger: Ledger, planned: Sequence[Planned]) -> Table:
    """Returns a table of all scores, for a sweep whose space is not known any more."""
    suites = sorted({score.suite for score in ledger.scores(signature for _, signature, _ in planned)})
    imported = sweep.spec.imported is not None
    columns = [BEST_COLUMN, *suites] if imported else suites or [BEST_COLUMN]
    rows: list[Key] = list({repr(key): dict(key) for key, _, _ in planned}.values())
    spec = TableSpec(id=sweep.id, title=sweep.spec.title, axes=list(axes), columns=columns, rows=rows)
    if not imported:
        lines = results_of(ledger, planned, spec.columns)
        return aggregate(replace(spec, scales=build.scales_of(spec, lines)), lines)
    runs = ledger.runs(sweep=sweep.id)
    metric = metric_of_spec(sweep.spec, runs)
    lines = results_of(ledger, planned, spec.columns, runs=[metric.measured(run) for run in runs])
    declared = {c: scale_of_protocols(line.protocol for line in lines if line.column == c) for c in suites}
    scales = {column: scale for column, scale in declared.items() if scale}
    return aggregate(replace(spec, scales={**build.scales_of(spec, lines), BEST_COLUMN: metric.scale, **scales}), lines)


def _command(space: str, profile: str | None, overrides: Settings, seeds: Sequence[int] | None, url: str | None) -> str:
    """Returns the command line that runs what is missing and prints the table."""
    options = ("--ledger", mask_password(url)) if url else ()
    return run_command(space, profile, dict(sorted(overrides.items())), seeds, options)


ROWS_NAMED = 8
"""Number of missing runs that a line names."""
TOP = 10
"""Number of cells of a search that its table shows."""


@dataclass(frozen=True)
class Reproduction:
    """One reproduced table, as the ledger has its runs now."""

    table: Table
    verdicts: Verdicts
    terms: Terms
    """Terms of the verdicts: margin, looks and error rate."""
    ordering: Sequence[Ordering]
    study: Study
    spent: Spent
    unlike: Unlike
    """Settings in which the runs are not the paper's; empty at the paper's own scale."""
    incomplete: Sequence[IncompleteCell]

    @property
    def headline(self) -> str:
        """Counts of verdicts, and whether the scale is the paper's; empty where nothing was judged."""
        return headline(self.table, self.verdicts, same_scale=not self.unlike, seconds=self.terms.seconds)

    def markdown(self) -> str:
        """Returns the headline, the table, its verdicts and order, and its basis as Markdown."""
        head = f"**{self.headline}**\n\n" if self.headline else ""
        text = render(self.table, "md", self.verdicts, self.ordering)
        return head + text + "\n**Basis**\n\n" + "\n".join(f"- {line}" for line in self.basis()) + "\n"

    def basis(self) -> list[str]:
        """Returns lines on the table's scale, its cost, what is missing, and how to repeat it."""
        lines = [self._scale()] if self.table.rows else []
        if self.table.rows and self.terms.looks:
            seed_counts = ", ".join(map(str, self.terms.looks))
            lines.append(f"Looks: after {seed_counts} seeds of every row that is not decided yet; the first word stays")
        return [*lines, f"Cost: {self.spent.line()}", *self.lacking(), f"Repeat: `{self.study.command}`"]

    def as_dict(self) -> dict[str, object]:
        """Returns the reproduced table as plain data for JSON."""
        plain: dict[str, object] = json.loads(render(self.table, "json", self.verdicts, self.ordering))
        facts = {"environment": environment(self.study), "inputs": inputs(self.study)}
        return plain | {
            "notes": list(self.table.notes),
            "headline": self.headline,
            "same_scale": not self.unlike,
            "unlike_paper": list(self.unlike),
            "cost": asdict(self.spent),
            **self.terms.declared(),
            "missing": [{"cell": run.cell, "seed": run.seed, "state": run.state} for run in self.missing],
            "missing_input": [{"cell": cell.label, "reason": cell.reason} for cell in self.incomplete],
            "command": self.study.command,
            **{name: [dict(zip(grid.header, line, strict=True)) for line in grid.body] for name, grid in facts.items()},
        }

    @property
    def missing(self) -> list[Any]:
        """Runs without a result that lack no input."""
        blocked = {name for cell in self.incomplete for name in cell.signatures}
        cells = {tuple(sorted(cell.cell.items())) for cell in self.incomplete}
        return [
            member
            for member in self.study.missing
            if (member.run is None or member.run.signature not in blocked) and _key(member.key) not in cells
        ]

    def _scale(self) -> str:
        if not self.unlike:
            return "Scale: the paper's own settings; the text of --train-file is taken to be the paper's"
        return f"Scale: not the paper's ({tell_unlike(self.unlike)}), so directions are compared and not values"

    def lacking(self) -> list[str]:
        """Returns lines on missing runs and cells that lack an input; none for a complete table."""
        runs = [f"{run.cell} seed {run.seed} ({run.state})" for run in self.missing]
        lines = [f"Missing: {len(runs)} of {len(self.study.members)} runs: {some(runs, ROWS_NAMED)}"]
        return (lines if runs else []) + [line[0].upper() + line[1:] for line in group_by_reason(self.incomplete)]


def _key(key: Any) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((axis, value) for axis, value in key.items() if value is not None))


def gather(
    resolved: ResolvedSpace,
    planned: Sequence[Planned],
    ledger: Ledger,
    command: str,
    elsewhere: Iterable[str] = (),
    terms: Terms | None = None,
    incomplete: Sequence[IncompleteCell] = (),
    unevaluated: Mapping[str, str] = NOTHING,
) -> Reproduction:
    """Reproduces one table from runs (row key, signature, seed). Raises TableError where its scores differ in
    protocol.

    `elsewhere` holds signatures that other tables of the call have too; `incomplete` holds cells that lack an input;
    `unevaluated` is label of a row of the paper -> why its model could not be scored.
    """
    table = build.build_planned(resolved, ledger, planned, unevaluated=unevaluated)
    study = _read_study(resolved, ledger, planned, command)
    return judge_study(resolved, study, table, ledger, planned, elsewhere=elsewhere, incomplete=incomplete, terms=terms)


def judge_study(
    resolved: ResolvedSpace,
    study: Study,
    table: Table,
    ledger: Ledger,
    planned: Sequence[Planned],
    *,
    elsewhere: Iterable[str] = (),
    incomplete: Sequence[IncompleteCell] = (),
    terms: Terms | None = None,
) -> Reproduction:
    """Adds all rows that the paper prints, or picks a search's best cells; then computes verdicts, order and cost.

    `terms` defaults to those that the sweep declared.
    """
    if resolved.space.search is None:
        table = add_left_out(table, resolved)
    else:
        printed = resolved.space.paper.rows if resolved.space.paper else ()
        table = best_cells(table, [cells.full_key(resolved, row.key) for row in printed])
    scale_differences, cost = unlike_paper(resolved), sum_cost(study, elsewhere)
    terms = terms or read_terms(ledger.sweep_spec(cells.sweep_name(resolved)))
    terms = replace(terms, seconds=cost.seconds / max(1, cost.runs))
    return Reproduction(
        table=table,
        verdicts=judge(table, same_scale=not scale_differences, terms=terms),
        terms=terms,
        ordering=orderings(table, read_stored_cosines(table, ledger, planned)),
        study=study,
        spent=cost,
        unlike=scale_differences,
        incomplete=incomplete,
    )


def read_stored_cosines(table: Table, ledger: Ledger, planned: Sequence[Planned]) -> dict[str, ColumnCosines]:
    """Returns column -> the stored cosines of its suite, where runs have any."""
    keys = [row.key for row in table.rows]
    names = {column: table.spec.scores.get(column, column) for column in table.spec.columns}
    by_column = {column: column_cosines(ledger, planned, keys, suite) for column, suite in names.items()}
    return {column: cosines for column, cosines in by_column.items() if cosines is not None}


def add_left_out(table: Table, resolved: ResolvedSpace) -> Table:
    """Returns the table in the paper's order, with an empty row for each one that the profile or `--set` leaves out."""
    rows = {identify(row.key): row for row in table.rows}
    printed = resolved.space.paper.rows if resolved.space.paper else ()
    keys = [cells.full_key(resolved, row.key) for row in printed]
    if all(identify(key) in rows for key in keys):
        return table
    empty = [
        Row(key, {column: entry_of({}, row.cells.get(column)) for column in table.spec.columns})
        for key, row in zip(keys, printed, strict=True)
    ]
    every = {identify(row.key): rows.get(identify(row.key), row) for row in empty}
    return replace(table, rows=list((every | {name: row for name, row in rows.items() if name not in every}).values()))


def best_cells(table: Table, winners: Sequence[Any]) -> Table:
    """Returns a search's table: its best cells by the first column, and the paper's own settings at any rank."""
    first = table.spec.columns[0]
    sign = -1.0 if table.best(first) == "min" else 1.0
    finished = [row for row in table.rows if row.entries[first].mean is not None]
    ranked = sorted(finished, key=lambda row: -sign * (row.entries[first].mean or 0.0))
    names = {identify(key) for key in winners}
    listed = [row for place, row in enumerate(ranked) if place < TOP or identify(row.key) in names]
    listed_keys = {identify(row.key) for row in listed}
    empty = dict.fromkeys(table.spec.columns, entry_of({}))
    missing: list[Row] = [Row(dict(key), empty) for key in winners if identify(key) not in listed_keys]
    places = {identify(row.key): place for place, row in enumerate(ranked, start=1)}
    notes = [f"best {min(TOP, len(finished))} of {len(finished)} cells that the search has finished"]
    for key in winners:
        place = places.get(identify(key))
        notes.append(f"the paper's setting, {label(key)}, {f'is number {place}' if place else 'was not visited'}")
    return replace(table, rows=[*listed, *missing], notes=[*table.notes, *notes])


def write(page: Reproduction, folder: Path) -> list[Path]:
    """Writes ID.md and ID.json into a folder, each to a temporary file that is then renamed."""
    plain = json.dumps(page.as_dict(), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    id = page.table.spec.id
    texts = {folder / f"{id}.md": page.markdown(), folder / f"{id}.json": plain + "\n"}
    for path, text in texts.items():
        replace_text(path, text)
    return list(texts)
