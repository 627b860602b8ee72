"""Which runs of a ledger answer which row of a space's table."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.blocked import name_of
from cluster.done import SEED, by_settings, current, settings_key
from cse_train.fields import Scalar

if TYPE_CHECKING:
    from analysis.aggregate import Table
    from analysis.ledger import Ledger, RunRow
    from cluster.cells import Cell, ResolvedSpace

Key = Mapping[str, Scalar]
NAMED = 20
"""Cells without all seeds that are named; those beyond are counted."""


@dataclass(frozen=True)
class Answer:
    """A run and the row of the table that it answers."""

    key: Key
    row: str
    """The key as JSON."""
    run: "RunRow"


def answers(resolved: "ResolvedSpace", runs: Iterable["RunRow"], seeds: Sequence[int] | None = None) -> list[Answer]:
    """Runs whose configuration is one of the space's cells, in any state, one per (row, seed).

    Runs by another VERSION or other rules are left out; where a row has runs on several data sets, the newest counts,
    finished runs first.
    """
    cells_of = _cells_by_settings(resolved)
    groups = by_settings(run for run in runs if seeds is None or run.seed in seeds)
    found: list[Answer] = []
    for settings, alike in groups.items():
        cells = cells_of(settings, alike[0].config)
        keys = [full_key(resolved, cell.key) for cell in cells]
        rows = [(key, json.dumps(key, sort_keys=True)) for key in keys]
        answering = current(alike, cells[0].run(0)) if cells else ()
        found += [Answer(key, row, run) for run in answering for key, row in rows]
    return _of_newest_inputs(sorted(found, key=_age))


def _age(answer: Answer) -> tuple[bool, float]:
    return answer.run.state == "done", answer.run.updated


def _cells_by_settings(resolved: "ResolvedSpace") -> "Callable[[str, Key], Sequence[Cell]]":
    """(settings but the seed, configuration) -> the cells that have these."""
    if resolved.size() is None:
        return lambda settings, config: _sampled(resolved, settings, config)
    cells: dict[str, list[Cell]] = {}
    for cell in resolved.cells():
        cells.setdefault(_settings(cell.flat), []).append(cell)
    return lambda settings, config: cells.get(settings, [])


def _sampled(resolved: "ResolvedSpace", settings: str, config: Key) -> "list[Cell]":
    """The cell of a run in a space without a finite list of cells."""
    key = resolved.key_of(config)
    if not resolved.contains(key):
        return []
    cell = resolved.cell(key)
    return [cell] if _settings(cell.flat) == settings else []


def full_key(resolved: "ResolvedSpace", key: Key) -> dict[str, Scalar]:
    """A row's key with every axis; one that does not count there is None."""
    return {axis: key.get(axis) for axis in resolved.space.axis_names}


def _settings(flat: Key) -> str:
    return settings_key(flat, leave_out=SEED)


def unfinished(table: "Table", seeds: int, blocked: Mapping[str, str]) -> list[str]:
    """What a table lacks, for a person: rows with fewer seeds than asked for, and those that are blocked."""
    short = {_named(row.key): max(cell.n for cell in row.cells.values()) for row in table.rows}
    lacking = [f"{name} {n}" for name, n in short.items() if n < seeds]
    some = "; ".join(lacking[:NAMED]) + (f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else "")
    told = [f"not finished: {len(lacking)} of {len(short)} cells have fewer than {seeds} seeds: {some}"]
    return (told if lacking else []) + [f"blocked: {label}: {why}" for label, why in blocked.items()]


def _named(key: Key) -> str:
    return name_of({axis: value for axis, value in key.items() if value is not None})


def blocked_in(ledger: "Ledger", sweep: str) -> dict[str, str]:
    """Cells that were blocked when the sweep was last started, with the reasons."""
    return dict(ledger.sweep_spec(sweep).get("blocked", {}))


def _of_newest_inputs(oldest_first: Sequence[Answer]) -> list[Answer]:
    newest = {answer.row: answer.run.identity for answer in oldest_first}
    kept = {(a.row, a.run.seed): a for a in oldest_first if a.run.identity == newest[a.row]}
    return list(kept.values())
