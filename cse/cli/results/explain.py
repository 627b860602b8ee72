"""An explained cell as JSON and as text."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from analysis.statistics.basics import mean_and_sd
from analysis.tables.provenance import SeedRun
from cse.cli import options
from cse.cli.listing import Format, FormatOption, aligned
from cse.tables.explain import Explained, candidates, explained
from cse.tables.lookup import space_or_sweep
from search_spaces.cell_names import cell_argument, choose

DIGITS = 12
"""Hexadecimal digits shown of a hash."""


def as_dict(found: Explained) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "space": found.resolved.space.id,
        "profile": found.resolved.profile.name,
        "cell": dict(found.cell.key),
        "label": found.cell.label,
        "columns": _summary(found),
        "paper": paper(found),
        "runs": [_run(one) for one in found.runs],
        "missing_seeds": list(found.missing),
        "protocols": found.protocols,
        "shared": dict(found.origins.shared),
        "differing": {name: {v: list(s) for v, s in by.items()} for name, by in found.origins.differing.items()},
        "cost": cost(found),
        "command": found.command,
    }


def paper(found: Explained) -> dict[str, Any]:
    """What the paper prints for this cell, and where; empty for a space without a paper."""
    block = found.resolved.space.paper
    if block is None:
        return {}
    about = {name: getattr(block, name) for name in ("citation", "table", "source", "metric", "notes", "finding")}
    row = {name: value for name, value in found.published.items() if name != "key"}
    return {**about, "cells": {}, **row}


def cost(found: Explained) -> dict[str, Any]:
    """What all attempts took together."""
    attempts = [attempt for one in found.runs for attempt in one.attempts]
    return {
        "runs": len(found.runs),
        "attempts": len(attempts),
        "examples": sum(attempt.examples or 0 for attempt in attempts),
        "seconds": sum(attempt.seconds or 0.0 for attempt in attempts),
    }


def _summary(found: Explained) -> dict[str, dict[str, Any]]:
    printed = found.published.get("cells", {})
    shown = {}
    for column in found.columns:
        values = [value for one in found.runs if (value := one.values[column]) is not None]
        mean, sd = mean_and_sd(values)
        shown[column] = {"n": len(values), "mean": mean, "sd": sd, "published": printed.get(column)}
    return shown


def _run(one: SeedRun) -> dict[str, Any]:
    kept = (
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
        **{name: getattr(one.run, name) for name in kept},
        "values": dict(one.values),
        "checkpoint": one.checkpoint,
        "sweeps": list(one.sweeps),
        "attempts": [dataclasses.asdict(attempt) for attempt in one.attempts],
    }


def text(found: Explained) -> str:
    """The same for people."""
    space = found.resolved.space
    blocks = [
        [f"{space.id}: {space.title}", f"cell: {cell_argument(found.cell)}  (profile {found.resolved.profile.name})"],
        [aligned([{"column": name, **numbers} for name, numbers in _summary(found).items()]), *_paper_lines(found)],
        list(_run_lines(found)),
        list(_origin_lines(found)),
        [f"to repeat: {found.command}  (with the --data, --ledger and --storage of the first time)"],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _paper_lines(found: Explained) -> list[str]:
    block = paper(found)
    if not block:
        return []
    said = [f"paper: {block['citation']}, {block['table']} ({block['source']}); {block['metric']}"]
    if not block["cells"]:
        said.append("the paper prints no number for this cell")
    if block.get("as_printed"):
        corrected = ", ".join(f"{name} {value}" for name, value in block.get("recomputed", {}).items())
        said.append(f"as printed; recomputed: {corrected}")
    return [*said, *(block[name] for name in ("finding", "notes") if block[name])]


def _run_lines(found: Explained) -> Iterator[str]:
    if found.runs:
        yield aligned([_line(found, one) for one in found.runs])
    for one in found.runs:
        for attempt in one.attempts:
            if attempt.state != "done":
                why = f": {attempt.reason}" if attempt.reason else ""
                yield f"seed {one.run.seed}, attempt {attempt.attempt} ended {attempt.state}{why}"
    if found.missing:
        yield f"no run: seed {', '.join(map(str, found.missing))}"
    spent = cost(found)
    yield "cost: {runs} runs, {attempts} attempts, {examples} examples, {seconds:.0f} s".format(**spent)


def _line(found: Explained, one: SeedRun) -> dict[str, Any]:
    where = one.checkpoint or (f"{one.run.folder} (no checkpoint here)" if one.run.folder else None)
    return {
        "seed": one.run.seed,
        "state": one.run.state,
        "attempts": one.run.attempt,
        "signature": one.run.signature[:DIGITS],
        **{column: one.values[column] for column in found.columns},
        "best at": one.run.best_examples,
        "seconds": one.run.seconds,
        "checkpoint": where,
    }


def _origin_lines(found: Explained) -> Iterator[str]:
    for name, by_value in found.origins.differing.items():
        told = ", ".join(f"{_short(value)} (seed {_seeds(seeds)})" for value, seeds in by_value.items())
        yield f"DIFFERS between seeds: {name}: {told}"
    if found.origins.shared:
        yield "all seeds: " + ", ".join(f"{name} {_short(value)}" for name, value in found.origins.shared.items())
    for column, protocols in found.protocols.items():
        for protocol in protocols:
            told = ", ".join(f"{k} {_short(v)}" for k, v in protocol.items() if v not in ("", None))
            yield f"protocol of {column}: {told}"
    swept = dict.fromkeys(sweep for one in found.runs for sweep in one.sweeps)
    if swept:
        yield f"sweeps: {', '.join(swept)}"


def _seeds(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))


def _short(value: Any) -> str:
    """A value on a line: of long hexadecimal hashes the beginning."""
    plain = str(value).strip('"')
    is_hash = len(plain) > 2 * DIGITS and all(letter in "0123456789abcdef+" for letter in plain)
    return plain[:DIGITS] if is_hash else plain


SpaceOrSweep = Annotated[str, typer.Argument(metavar="ID|FILE|SWEEP", help="A space, or a sweep (cse ls).")]
CellKey = Annotated[
    list[str] | None,
    typer.Option("--cell", help="Its label, or axis=value; comma-separated or repeated.", show_default=False),
]


def explain(
    space: SpaceOrSweep,
    cell: CellKey = None,
    profile: options.Profile = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    ledger: options.LedgerUrl = None,
    form: FormatOption = Format.text,
) -> None:
    """Show what is behind one cell: seeds, values, attempts, commits, hosts, data, cost, and how to repeat it."""
    opened = options.existing_ledger(ledger)
    resolved = space_or_sweep(space, opened, profile, options.settings(settings))
    rows = opened.runs() if opened else []
    chosen = choose(resolved, cell or [], candidates(resolved, rows))
    found = explained(resolved, chosen, opened, rows, range(seeds) if seeds else resolved.space.seeds)
    print(json.dumps(as_dict(found), indent=1, default=str) if form is Format.json else text(found))
