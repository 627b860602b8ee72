"""`cse explain`: everything behind one cell of a table, as text and as JSON."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from analysis.answers.explain import Explained, candidates, explain_cell, explain_imported
from analysis.answers.imported.cells import choose_cell
from analysis.answers.lookup import find_foreign_sweep, space_or_sweep
from analysis.ledger import Ledger
from analysis.render.best_of import best_of_dict, describe_best_of, describe_ranges
from analysis.render.documents import dump_json
from analysis.run_state import RunState
from analysis.tables.labels import some
from analysis.tables.provenance import SeedRun
from cse.cli import ledgers, options, screen
from cse.cli.listing import FormatOption, Rounded, align_rows
from cse_train.fields import Json, Settings
from search_spaces.cell_names import choose

SPARE_COLUMNS = ("checkpoint", "attempts", "best at", "seconds")
"""Columns of the list of runs that a narrow terminal leaves out, the first first."""
SEEDS_SHOWN = 10
NAME_DIGITS = 12
"""Hexadecimal digits shown of a hash."""


CellKey = Annotated[
    list[str] | None,
    typer.Option("--cell", help="Its label, or axis=value; comma-separated or repeated.", show_default=False),
]


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
        print(dump_json(list_facts(explanation)))
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
    imported = find_foreign_sweep(space, opened)
    if imported is not None and opened is not None:
        return explain_imported(choose_cell(imported, opened, cell, "--cell "), imported, opened)
    resolved = space_or_sweep(space, opened, profile, settings)
    rows = opened.runs() if opened else []
    chosen = choose(resolved, cell, candidates(resolved, rows))
    seed_range = range(seeds) if seeds else resolved.space.seeds
    return explain_cell(resolved, chosen, opened, rows, seed_range, data_hash)


def list_facts(facts: Explained) -> dict[str, object]:
    """Returns the JSON object that `cse explain --format json` prints."""
    return {
        "space": facts.space,
        "profile": facts.profile,
        "cell": dict(facts.key),
        "label": facts.label,
        "columns": _summary(facts),
        "paper": paper(facts),
        "runs": [_run(run) for run in facts.runs],
        "missing_seeds": list(facts.missing),
        "protocols": {name: [protocol.facts for protocol in each] for name, each in facts.protocols.items()},
        "shared": dict(facts.origins.shared),
        "differing": {name: {v: list(s) for v, s in by.items()} for name, by in facts.origins.differing.items()},
        "cost": cost(facts),
        "command": facts.command,
    }


def paper(facts: Explained) -> Json:
    """Returns what the paper prints for the cell, and where; empty for a space without a paper."""
    block = facts.paper
    if block is None:
        return {}
    about = {name: getattr(block, name) for name in ("citation", "table", "source", "metric", "notes", "finding")}
    row = {name: value for name, value in facts.published.items() if name != "key"}
    return {**about, "cells": {}, **row}


def cost(facts: Explained) -> dict[str, float]:
    """Returns runs, attempts, examples and seconds of all attempts together."""
    attempts = [attempt for run in facts.runs for attempt in run.attempts]
    return {
        "runs": len(facts.runs),
        "attempts": len(attempts),
        "examples": sum(attempt.examples or 0 for attempt in attempts),
        "seconds": sum(attempt.seconds or 0.0 for attempt in attempts),
    }


def _summary(facts: Explained) -> dict[str, dict[str, object]]:
    return {column: _numbers(facts, column) for column in facts.columns}


def _numbers(facts: Explained, column: str) -> dict[str, object]:
    entry = facts.entry(column)
    best_of = best_of_dict(entry, facts.scales[column])
    plain = {"n": entry.n, "mean": entry.mean, "sd": entry.sd, "published": entry.published}
    return plain | ({"best_of": best_of} if best_of else {})


def _run(row: SeedRun) -> dict[str, object]:
    fields = (
        "signature",
        "seed",
        "state",
        "best",
        "best_examples",
        "examples",
        "seconds",
        "folder",
        "reason",
        "identity",
    )
    return {
        **{name: getattr(row.run, name) for name in fields},
        "values": dict(row.values),
        "checkpoint": row.checkpoint,
        "source": row.source,
        "sweeps": list(row.sweeps),
        "attempts": [dataclasses.asdict(attempt) for attempt in row.attempts],
    }


def text(facts: Explained) -> str:
    """Returns an explained cell as text for people."""
    profile = f"  (profile {facts.profile})" if facts.profile else ""
    numbers = [
        {"column": name, **{part: _write(facts, name, value) for part, value in each.items() if part != "best_of"}}
        for name, each in _summary(facts).items()
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


def _write(facts: Explained, column: str, value: object) -> object:
    """Returns a number rounded to the decimals of its column; other values unchanged."""
    return (
        Rounded(value, facts.scales[column].digits(facts.entry(column).values)) if isinstance(value, float) else value
    )


def _best_of_lines(facts: Explained) -> Iterator[str]:
    for column in facts.columns:
        entry, scale = facts.entry(column), facts.scales[column]
        lines = (describe_best_of(entry, scale), describe_ranges(entry, scale))
        yield from (f"{column}: {line}" for line in lines if line)


def _paper_lines(facts: Explained) -> list[str]:
    block = paper(facts)
    if not block:
        return []
    lines = [f"paper: {block['citation']}, {block['table']} ({block['source']}); {block['metric']}"]
    if not block["cells"]:
        lines.append("the paper prints no number for this cell")
    if block.get("as_printed"):
        corrected = ", ".join(f"{name} {value}" for name, value in block.get("recomputed", {}).items())
        lines.append(f"as printed; recomputed: {corrected}")
    return [*lines, *(block[name] for name in ("finding", "notes") if block[name])]


def _run_lines(facts: Explained) -> Iterator[str]:
    if facts.runs:
        yield align_rows([_line(facts, row) for row in facts.runs], SPARE_COLUMNS)
    sources = dict.fromkeys(row.source for row in facts.runs if row.source)
    for source in sources:
        seeds = [str(row.run.seed) for row in facts.runs if row.source == source]
        yield f"seed {some(seeds, SEEDS_SHOWN)}: {source}"
    for row in facts.runs:
        for attempt in row.attempts:
            if attempt.state != RunState.DONE:
                reason = f": {attempt.reason}" if attempt.reason else ""
                yield f"seed {row.run.seed}, attempt {attempt.attempt} ended {attempt.state}{reason}"
    yield from facts.notes
    if facts.missing:
        yield f"no run: seed {', '.join(map(str, facts.missing))}"
    totals = cost(facts)
    yield "cost: {runs} runs, {attempts} attempts, {examples} examples, {seconds:.0f} s".format(**totals)


def _line(facts: Explained, row: SeedRun) -> dict[str, object]:
    place = row.checkpoint or (f"{row.run.folder} (no checkpoint here)" if row.run.folder else None)
    return {
        "seed": row.run.seed,
        "state": row.run.state,
        "attempts": row.run.attempt,
        "signature": row.run.signature[:NAME_DIGITS],
        **{column: _write(facts, column, row.values[column]) for column in facts.columns},
        "best at": row.run.best_examples,
        "seconds": row.run.seconds,
        "checkpoint": place,
    }


def _origin_lines(facts: Explained) -> Iterator[str]:
    for name, by_value in facts.origins.differing.items():
        listed = ", ".join(f"{_short(value)} (seed {', '.join(map(str, seeds))})" for value, seeds in by_value.items())
        yield f"DIFFERS between seeds: {name}: {listed}"
    if facts.origins.shared:
        yield "all seeds: " + ", ".join(f"{name} {_short(value)}" for name, value in facts.origins.shared.items())
    for column, protocols in facts.protocols.items():
        for protocol in protocols:
            listed = ", ".join(f"{k} {_short(v)}" for k, v in protocol.facts.items() if v not in ("", None))
            yield f"protocol of {column}: {listed}"
    swept = dict.fromkeys(sweep for row in facts.runs for sweep in row.sweeps)
    if swept:
        yield f"sweeps: {', '.join(swept)}"


def _short(value: Any) -> str:
    """Returns a value as text on one line; long hexadecimal hashes are cut."""
    plain = str(value).strip('"')
    is_hash = len(plain) > 2 * NAME_DIGITS and all(letter in "0123456789abcdef+" for letter in plain)
    return plain[:NAME_DIGITS] if is_hash else plain
