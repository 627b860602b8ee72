"""Reads a space or a sweep from the ledger for `cse report`, the HTML page with figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.answers import build
from analysis.answers.explain import run_command
from analysis.answers.imported import RULE, list_caveats, metric_of_spec, scale_of_protocols
from analysis.answers.judge import Terms, Verdicts, judge, read_terms
from analysis.answers.lookup import space_of_sweep
from analysis.answers.paper_scale import unlike_paper
from analysis.answers.reproduction import read_stored_cosines
from analysis.ledger import Ledger, SweepRow, mask_password
from analysis.matching import add_versions, match_on, one_data_set
from analysis.render.verdicts import headline
from analysis.study.study import Study, read_study, sum_cost
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.labels import label, varying
from analysis.tables.ordering import Ordering, orderings
from analysis.tables.results import BEST_COLUMN, Planned, results_of
from analysis.tables.spec import Key, TableSpec
from cse_train.fields import Settings
from search_spaces import cells
from search_spaces.catalog import space_name
from search_spaces.cells import ResolvedSpace


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
    space = resolved.space
    command = _command(str(space.file), resolved.profile.name, resolved.given(), seeds or space.seeds, url)
    unanswered = _list_unanswered(resolved, planned, seeds or space.seeds)
    study = read_study(
        ledger,
        [*planned, *unanswered],
        id=space.id,
        title=space.title,
        axes=[*space.axis_names, cells.PART],
        command=command,
        searched=space.sampled,
    )
    return study, table


def _list_unanswered(resolved: ResolvedSpace, planned: Sequence[Planned], seeds: Sequence[int]) -> list[Planned]:
    """Returns each (cell, seed) without a run, for a space whose cells are all run; the signature is empty."""
    if resolved.size() is None or resolved.space.sampled:
        return []
    planned_seeds = {(repr(sorted(key.items())), seed) for key, _, seed in planned}
    keys = [cells.full_key(resolved, cell.key) for cell in resolved.cells()]
    return [(key, "", seed) for key in keys for seed in seeds if (repr(sorted(key.items())), seed) not in planned_seeds]


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
