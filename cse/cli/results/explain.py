"""`cse explain`: everything behind one cell of a table, as text and as JSON."""

from collections.abc import Iterator
from typing import Annotated

import typer

from analysis.answers.explain import (
    ColumnNumbers,
    Explained,
    NoPaper,
    SeedRun,
    candidates,
    explain_cell,
    explain_imported,
)
from analysis.answers.imported import choose_cell
from analysis.answers.lookup import select
from analysis.documents import dump_json
from analysis.ledger import Ledger, SweepRow
from analysis.render.best_of import describe_best_of, describe_ranges
from analysis.run_state import RunState
from analysis.tables.labels import some
from cse.cli import ledgers, options, screen
from cse.cli.listing import FormatOption, Rounded, align_rows
from cse_train.fields import Settings
from search_spaces.cell_names import choose

SPARE_COLUMNS = ("checkpoint", "attempts", "best at", "seconds")
"""Columns of the list of runs that a narrow terminal leaves out, the first first."""
SEEDS_SHOWN = 10
NAME_DIGITS = 12
"""Hexadecimal digits shown of a hash."""

Answer = Explained
CellKey = Annotated[list[str] | None, typer.Option(help="Its label, or axis=value; comma-separated or repeated.")]


def explain(
    space: options.SpaceOrSweep,
    cell: CellKey = None,
    plugins: options.Plugins = None,
    profile: options.Profile = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    data_hash: options.DataHash = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: FormatOption = "text",
) -> None:
    """Show what is behind one cell: seeds, values, attempts, commits, hosts, data, cost, and how to repeat it."""
    opened, values = ledgers.existing_ledger(ledger, storage), options.settings(settings)
    explanation = find_cell(space, cell or [], opened, profile, seeds, values, data_hash)
    if form == "json":
        print(dump_json(explanation))
    else:
        print(screen.prose(text(explanation), indent="  "))


def find_cell(
    space: str,
    cell: list[str],
    opened: Ledger | None,
    profile: str | None,
    seeds: int | None,
    settings: Settings,
    data_hash: str | None,
) -> Explained:
    """Returns what the ledger knows of one cell. Raises ConfigError for a name that does not mean a single cell."""
    selected = select(space, opened, profile, settings)
    if isinstance(selected, SweepRow):
        assert opened is not None
        return explain_imported(choose_cell(selected, opened, cell, "--cell "), selected, opened)
    rows = opened.runs() if opened else []
    chosen = choose(selected, cell, candidates(selected, rows))
    return explain_cell(selected, chosen, opened, rows, range(seeds) if seeds else selected.space.seeds, data_hash)


def text(facts: Explained) -> str:
    """Returns an explained cell as text for people."""
    profile = f"  (profile {facts.profile})" if facts.profile else ""
    numbers = [
        {
            "column": column,
            "n": each.n,
            **{name: _round(value, each) for name, value in (("mean", each.mean), ("sd", each.sd))},
            "published": _round(each.published, each),
        }
        for column, each in facts.columns.items()
    ]
    repeat = f"to repeat: {facts.command}  (with the --data, --ledger and --storage of the first time)"
    blocks = [
        [f"{facts.space}: {facts.title}", f"cell: {facts.argument}{profile}"],
        [align_rows(numbers), *_best_of_lines(facts), *_paper_lines(facts)],
        list(_run_lines(facts)),
        list(_origin_lines(facts)),
        [repeat] if facts.command else [],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _round(value: float | None, column: ColumnNumbers) -> float | None:
    return None if value is None else Rounded(value, column.digits)


def _best_of_lines(facts: Explained) -> Iterator[str]:
    for column, each in facts.columns.items():
        lines = (describe_best_of(each.entry, each.scale), describe_ranges(each.entry, each.scale))
        yield from (f"{column}: {line}" for line in lines if line)


def _paper_lines(facts: Explained) -> list[str]:
    paper = facts.paper
    if isinstance(paper, NoPaper):
        return []
    lines = [f"paper: {paper.citation}, {paper.table} ({paper.source}); {paper.metric}"]
    if not paper.cells:
        lines.append("the paper prints no number for this cell")
    if paper.as_printed:
        corrected = ", ".join(f"{name} {value}" for name, value in paper.recomputed.items())
        lines.append(f"as printed; recomputed: {corrected}")
    return [*lines, *(line for line in (paper.finding, paper.notes) if line)]


def _run_lines(facts: Explained) -> Iterator[str]:
    if facts.runs:
        yield align_rows([_line(facts, run) for run in facts.runs], SPARE_COLUMNS)
    for source in dict.fromkeys(run.source for run in facts.runs if run.source):
        seeds = [str(run.seed) for run in facts.runs if run.source == source]
        yield f"seed {some(seeds, SEEDS_SHOWN)}: {source}"
    for run in facts.runs:
        for attempt in run.attempts:
            if attempt.state != RunState.DONE:
                reason = f": {attempt.reason}" if attempt.reason else ""
                yield f"seed {run.seed}, attempt {attempt.attempt} ended {attempt.state}{reason}"
    yield from facts.notes
    if facts.missing_seeds:
        yield f"no run: seed {', '.join(map(str, facts.missing_seeds))}"
    cost = facts.cost
    yield f"cost: {cost.runs} runs, {cost.attempts} attempts, {cost.examples} examples, {cost.seconds:.0f} s"


def _line(facts: Explained, run: SeedRun) -> dict[str, object]:
    return {
        "seed": run.seed,
        "state": run.state,
        "attempts": run.attempt,
        "signature": run.signature[:NAME_DIGITS],
        **{column: _round(run.values[column], each) for column, each in facts.columns.items()},
        "best at": run.best_examples,
        "seconds": run.seconds,
        "checkpoint": run.checkpoint or (f"{run.folder} (no checkpoint here)" if run.folder else None),
    }


def _origin_lines(facts: Explained) -> Iterator[str]:
    for name, by_value in facts.differing.items():
        listed = ", ".join(f"{_short(value)} (seed {', '.join(map(str, seeds))})" for value, seeds in by_value.items())
        yield f"DIFFERS between seeds: {name}: {listed}"
    if facts.shared:
        yield "all seeds: " + ", ".join(f"{name} {_short(value)}" for name, value in facts.shared.items())
    for column, protocols in facts.protocols.items():
        for protocol in protocols:
            listed = ", ".join(f"{k} {_short(v)}" for k, v in protocol.items() if v not in ("", None))
            yield f"protocol of {column}: {listed}"
    swept = dict.fromkeys(sweep for run in facts.runs for sweep in run.sweeps)
    if swept:
        yield f"sweeps: {', '.join(swept)}"


def _short(value: object) -> str:
    """Returns a value as text on one line; long hexadecimal hashes are cut."""
    plain = str(value).strip('"')
    is_hash = len(plain) > 2 * NAME_DIGITS and all(letter in "0123456789abcdef+" for letter in plain)
    return plain[:NAME_DIGITS] if is_hash else plain
