"""Which runs of a ledger answer which row of a space's table."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.blocked import name_of
from cluster.done import SEED, current, settings_key
from cse_train.fields import Scalar

if TYPE_CHECKING:
    from analysis.aggregate import Table
    from analysis.ledger import Ledger, RunRow
    from cluster.cells import ResolvedSpace

Key = Mapping[str, Scalar]


@dataclass(frozen=True)
class Answer:
    """A run and the row of the table that it answers."""

    key: Key
    run: "RunRow"

    @property
    def row(self) -> str:
        return json.dumps(dict(self.key), sort_keys=True)


def answers(resolved: "ResolvedSpace", runs: Iterable["RunRow"], seeds: Sequence[int] | None = None) -> list[Answer]:
    """Runs whose configuration is one of the space's cells, in any state, one per (row, seed).

    Runs by another VERSION or other rules are left out; where a row has runs on several data sets, the newest counts,
    finished runs first.
    """
    rows_of = _rows_by_settings(resolved)
    keys = {run.signature: (run, rows_of(run.config)) for run in runs if seeds is None or run.seed in seeds}
    answering = current(run for run, rows in keys.values() if rows)
    found = [Answer(key, run) for run in answering for key in keys[run.signature][1]]
    return _of_newest_inputs(sorted(found, key=_age))


def _age(answer: Answer) -> tuple[bool, float]:
    return answer.run.state == "done", answer.run.updated


def _rows_by_settings(resolved: "ResolvedSpace") -> Callable[[Key], Sequence[Key]]:
    if resolved.size() is None:
        return lambda config: _sampled_row(resolved, config)
    rows: dict[str, list[Key]] = {}
    for cell in resolved.cells():
        rows.setdefault(_settings(cell.run(0).flat()), []).append(full_key(resolved, cell.key))
    return lambda config: rows.get(_settings(config), [])


def _sampled_row(resolved: "ResolvedSpace", config: Key) -> list[Key]:
    """The row of a run in a space without a finite list of cells."""
    key = resolved.key_of(config)
    if not resolved.contains(key) or _settings(resolved.cell(key).run(0).flat()) != _settings(config):
        return []
    return [full_key(resolved, key)]


def full_key(resolved: "ResolvedSpace", key: Key) -> dict[str, Scalar]:
    """A row's key with every axis; one that does not count there is None."""
    return {axis: key.get(axis) for axis in resolved.space.axis_names}


def _settings(flat: Key) -> str:
    return settings_key(flat, leave_out=SEED)


def unfinished(table: "Table", seeds: int, blocked: Mapping[str, str]) -> list[str]:
    """What a table lacks, for a person: rows with fewer seeds than asked for, and those that are blocked."""
    short = {_named(row.key): max(cell.n for cell in row.cells.values()) for row in table.rows}
    lacking = [f"{name} {n}" for name, n in short.items() if n < seeds]
    told = [f"not finished: {len(lacking)} of {len(short)} cells have fewer than {seeds} seeds: {'; '.join(lacking)}"]
    return (told if lacking else []) + [f"blocked: {label}: {why}" for label, why in blocked.items()]


def _named(key: Key) -> str:
    return name_of({axis: value for axis, value in key.items() if value is not None})


def blocked_in(ledger: "Ledger", sweep: str) -> dict[str, str]:
    """Cells that were blocked when the sweep was last started, with the reasons."""
    spec = next((row.spec for row in ledger.sweeps() if row.id == sweep), {})
    return dict(spec.get("blocked", {}))


def _of_newest_inputs(oldest_first: Sequence[Answer]) -> list[Answer]:
    newest = {answer.row: answer.run.identity for answer in oldest_first}
    kept = {(a.row, a.run.seed): a for a in oldest_first if a.run.identity == newest[a.row]}
    return list(kept.values())
