"""Which runs of a ledger answer which row of a space's table."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cse_train.fields import Scalar

if TYPE_CHECKING:
    from analysis.ledger import RunRow
    from cluster.cells import ResolvedSpace

SEED = "train.seed"
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
    wanted = (run for run in runs if seeds is None or run.seed in seeds)
    found = [Answer(key, run) for run in wanted for key in rows_of(run.config) if _is_current(run)]
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
    return json.dumps({key: value for key, value in flat.items() if key != SEED}, sort_keys=True)


def _is_current(run: "RunRow") -> bool:
    """Whether today's code would give the run the same signature."""
    from cluster.signature import signature
    from cse_train.config import parse_run

    return signature(parse_run(run.config), run.identity) == run.signature


def _of_newest_inputs(oldest_first: Sequence[Answer]) -> list[Answer]:
    newest = {answer.row: answer.run.identity for answer in oldest_first}
    kept = {(a.row, a.run.seed): a for a in oldest_first if a.run.identity == newest[a.row]}
    return list(kept.values())
