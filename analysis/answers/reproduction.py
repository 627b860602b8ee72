"""Reproduces a paper's table: verdicts, order of rows, cost, environment, and what is missing."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis.answers import build
from analysis.answers.build import NOTHING
from analysis.answers.judge import Terms, Verdicts, judge, read_terms
from analysis.answers.paper_scale import Unlike, tell_unlike, unlike_paper
from analysis.ledger import Ledger
from analysis.render.formats import render
from analysis.render.verdicts import headline
from analysis.report.facts import environment, inputs
from analysis.study.study import Spent, Study, read_study, sum_cost
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Entry
from analysis.tables.labels import label, some
from analysis.tables.ordering import Ordering, orderings
from analysis.tables.pair_cosines import ColumnCosines, column_cosines
from analysis.tables.results import Planned
from analysis.tables.spec import identify
from cse_train.files import replace_text
from search_spaces.cells import PART, ResolvedSpace, full_key, sweep_name
from search_spaces.identity.missing_inputs import IncompleteCell, group_by_reason

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


def _key(key: Any) -> tuple[tuple[str, Any], ...]:
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
    space = resolved.space
    axes = [*space.axis_names, PART]
    study = read_study(
        ledger, planned, id=space.id, title=space.title, axes=axes, command=command, searched=space.sampled
    )
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
        table = best_cells(table, [full_key(resolved, row.key) for row in printed])
    scale_differences, cost = unlike_paper(resolved), sum_cost(study, elsewhere)
    terms = terms or read_terms(ledger.sweep_spec(sweep_name(resolved)))
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
    keys = [full_key(resolved, row.key) for row in printed]
    if all(identify(key) in rows for key in keys):
        return table
    empty = [
        Row(key, {column: Entry(0, None, None, row.cells.get(column)) for column in table.spec.columns})
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
    empty = {column: Entry(0, None, None, None) for column in table.spec.columns}
    missing: list[Row] = [Row(dict(key), empty) for key in winners if identify(key) not in listed_keys]
    return replace(table, rows=[*listed, *missing], notes=[*table.notes, *_winners(ranked, winners, len(finished))])


def _winners(ranked: Sequence[Row], winners: Sequence[Any], visited: int) -> list[str]:
    places = {identify(row.key): place for place, row in enumerate(ranked, start=1)}
    lines = [
        f"the paper's setting, {label(key)}, "
        + (f"is number {places[identify(key)]}" if identify(key) in places else "was not visited")
        for key in winners
    ]
    return [f"best {min(TOP, visited)} of {visited} cells that the search has finished", *lines]


def write(page: Reproduction, folder: Path) -> list[Path]:
    """Writes ID.md and ID.json into a folder, each to a temporary file that is then renamed."""
    plain = json.dumps(page.as_dict(), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    id = page.table.spec.id
    texts = {folder / f"{id}.md": page.markdown(), folder / f"{id}.json": plain + "\n"}
    for path, text in texts.items():
        replace_text(path, text)
    return list(texts)
